#!/usr/bin/env bash
# Builds the folders of commands.jsonl, without a network: in `w` and `home` of the folder that is named.
set -e
BASE=${1:?the folder to build in}
export HOME=$BASE/home LANG=C.UTF-8 GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_DATE=2026-02-03T09:00:00Z GIT_COMMITTER_DATE=2026-02-03T09:00:00Z
mkdir -p "$BASE/w" "$HOME/.cache" "$HOME/.config/tool"
printf '[user]\n\tname = Ada Example\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n[protocol "file"]\n\tallow = always\n' > "$HOME/.gitconfig"
printf 'colour = blue\n' > "$HOME/.config/tool/settings.ini"

# What the application has as a submodule.
mkdir "$BASE/w/shared" && cd "$BASE/w/shared" && git init -q
echo '{"v": 1}' > schema.json && git add . && git commit -qm 'Add the schema'

# A Python application with a history.
mkdir "$BASE/w/app" && cd "$BASE/w/app" && git init -q
mkdir -p src/shop tests docs
printf '__pycache__/\n*.pyc\n/build/\n*.log\n.env\n/.trees/\n' > .gitignore
printf '[project]\nname = "shop"\nversion = "0.3.0"\nrequires-python = ">=3.9"\n' > pyproject.toml
printf '"""A shop."""\n\nVERSION = "0.3.0"\n' > src/shop/__init__.py
cat > src/shop/cart.py <<'PY'
"""What a customer wants to buy."""


class Cart:
    def __init__(self):
        self.items = {}

    def add(self, name, count=1):
        self.items[name] = self.items.get(name, 0) + count

    def total(self, prices):
        return sum(prices[name] * count for name, count in self.items.items())
PY
cat > src/shop/__main__.py <<'PY'
import sys

from shop.cart import Cart

cart = Cart()
for name in sys.argv[1:]:
    cart.add(name)
print(cart.items)
PY
cat > tests/test_cart.py <<'PY'
import unittest

from shop.cart import Cart


class CartTest(unittest.TestCase):
    def test_total(self):
        cart = Cart()
        cart.add("tea", 2)
        self.assertEqual(cart.total({"tea": 3}), 6)

    def test_empty(self):
        self.assertEqual(Cart().total({}), 0)
PY
printf '# Shop\n\nSells tea.\n' > README.md
printf 'test:\n\tPYTHONPATH=src python3 -m unittest discover -s tests -q\nhello:\n\t@echo hello from make\nbroken:\n\t@false\nsub:\n\t@$(MAKE) --no-print-directory hello\n.PHONY: test hello broken sub\n' > Makefile
git add -A && git commit -qm 'Start the shop'
for n in 1 2 3 4; do
  echo "- change $n" >> docs/changes.md && git add -A
  GIT_COMMITTER_DATE=2026-02-0${n}T10:00:00Z GIT_AUTHOR_DATE=2026-02-0${n}T10:00:00Z git commit -qm "Write down change $n"
done
git tag v0.1 HEAD~2 && git tag -a v0.2 -m 'Version 0.2'
git checkout -q -b discount && printf '\n\ndef discount(total, percent):\n    return total * (100 - percent) / 100\n' >> src/shop/cart.py && git commit -qam 'Add a discount'
git checkout -q -b fix-readme main && sed -i 's/tea/tea and coffee/' README.md && git commit -qam 'Mention coffee'
git checkout -q main && git submodule -q add ../shared vendor/shared && git commit -qm 'Use the shared schema'
git clone -q --bare . ../hub.git && git remote add origin ../hub.git && git fetch -q && git branch -q -u origin/main
sed -i 's/count=1/count=0/' src/shop/cart.py && git stash -q
git worktree add -q .trees/readme fix-readme
sed -i 's/A shop/A small shop/' src/shop/__init__.py && echo 'note to self' > todo.txt && echo 'price list' > prices.txt && git add prices.txt
printf 'id,name,price\n1,tea,3.50\n2,coffee,4.20\n3,cocoa,2.80\n' > goods.csv
printf '{"goods": [{"name": "tea", "price": 3.5}, {"name": "coffee", "price": 4.2}], "open": true}\n' > shop.json
printf 'TOKEN_NAME=demo\n' > .env && printf '10:00 INFO start\n10:01 ERROR no tea\n10:02 INFO stop\n' > app.log
printf 'Grüße aus Köln\nzweite Zeile\r\n' > greeting.txt && : > 'two words.txt' && ln -s README.md LATEST && ln goods.csv goods-again.csv
printf '#!/usr/bin/env bash\nset -u\necho "deploying ${1:-nothing}"\n[ "${1:-}" != wrong ] || { echo "wrong target" >&2; exit 4; }\n' > deploy.sh && chmod 755 deploy.sh

# A Node package without dependencies.
mkdir "$BASE/w/web" && cd "$BASE/w/web" && git init -q
printf '{"name":"web","version":"2.1.0","private":true,"scripts":{"test":"node --test","build":"node build.js","start":"node server.js","lint":"exit 3"}}\n' > package.json
printf 'const fs = require("fs");\nfs.mkdirSync("dist", {recursive: true});\nfs.writeFileSync("dist/web.js", "1");\nconsole.log("built web");\n' > build.js
printf 'const test = require("node:test");\nconst assert = require("node:assert");\ntest("adds", () => assert.strictEqual(1 + 1, 2));\n' > sum.test.js
printf 'require("http").createServer((q, r) => r.end("up\\n")).listen(process.env.PORT, "127.0.0.1");\n' > server.js
git add -A && git commit -qm 'Start the web page'

# A program in C.
mkdir "$BASE/w/native" && cd "$BASE/w/native" && git init -q
printf 'int twice(int n) { return 2 * n; }\n' > twice.c && printf 'int twice(int);\n' > twice.h
printf '#include <stdio.h>\n#include "twice.h"\nint main(void) { printf("%%d\\n", twice(21)); return 0; }\n' > main.c
printf 'CFLAGS = -O1 -Wall\nanswer: main.o twice.o\n\t$(CC) -o $@ $^\nmain.o twice.o: twice.h\nclean:\n\trm -f answer *.o\n.PHONY: clean\n' > Makefile
printf 'answer\n*.o\n' > .gitignore && git add -A && git commit -qm 'Answer the question'

# A rebase that has stopped.
mkdir "$BASE/w/rebase" && cd "$BASE/w/rebase" && git init -q
printf 'one\ntwo\nthree\n' > list.txt && git add -A && git commit -qm 'List three'
git checkout -q -b more && printf 'one\n2\nthree\n' > list.txt && git commit -qam 'Write 2'
git checkout -q main && printf 'one\nTWO\nthree\n' > list.txt && git commit -qam 'Write TWO'
git checkout -q more && git rebase -q main > /dev/null 2>&1 || true
