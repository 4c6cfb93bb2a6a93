"""Which command lines are proved to look and to do nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tools.commands.line_proof import prove_line
from ebbtide.tools.secrets.files import may_contain_secrets


@pytest.mark.parametrize(
    ("line", "operands"),
    [
        ("ls", ()),
        ("ls -la src 'a b'", ("src", "a b")),
        ("ls -- -x", ("-x",)),
        ("pwd", ()),
        ("cat a.py", ("a.py",)),
        ("cat -n a.py ../b", ("a.py", "../b")),
        ("head -20 a", ("a",)),
        ("head -n 20 --quiet a", ("a",)),
        ("head -c1k a", ("a",)),
        ("wc -lw a b\n", ("a", "b")),
        ("rg total", ()),
        ("rg -n 'def .*' src tests", ("src", "tests")),
        ("rg -inA3 -e total -e '\\bsum' src", ("src",)),
        ("rg --files src", ("src",)),
        ("rg -g '*.py' -tmake --max-count=3 total src", ("src",)),
        ("rg -- --pre src", ("src",)),
        ("git status", ()),
        ("git status -sb --porcelain=v2 src", ("src",)),
        ("git --no-pager log --oneline -5", ()),
        ("git log -n 3 --since=2.weeks --format='%h %s' -- src", ("src",)),
        ("git log -S total main..dev", ("main..dev",)),
        ("git diff --cached --stat HEAD~1 -- a", ("HEAD~1", "a")),
        ("git diff -U10 'stash@{0}'", ("stash@{0}",)),
        ("git diff-index --quiet HEAD", ("HEAD",)),
        ("[ -t 0 ]", ()),
        ("git show HEAD:src/a.py", ("HEAD:src/a.py", "src/a.py")),
    ],
)
def test_what_only_looks_is_proved_with_the_files_that_it_names(line: str, operands: tuple[str, ...]) -> None:
    (step,) = prove_line(line)
    assert tuple(file.text for file in step.proof.files) == operands


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("cat a | head -n 5 | sort -u", [["a"], [], []]),
        ("cd src && cat a.py 2>/dev/null || ls", [["src"], ["a.py"], []]),
        ("git log --oneline -5; git status\nwc -l < a", [[], [], ["a"]]),
        ("find . -name '*.py' -newer a | head", [[".", "a"], []]),
        ("grep -rn --include=*.py total src lib 2>&1 | cut -d: -f1", [["src", "lib"], []]),
        ("printf '%s\\n' a && test -f b && echo yes", [[], [], []]),
        ("[[ -f a ]] && [ -d b ] || [[ ! a == b ]]", [[], [], []]),
        ("cat src/*.py -- *.md", [["src/*.py", "*.md"]]),
        ('rg -q total src; echo "rc=$?"', [["src"], []]),
        ("grep -c x a; printf '%s\\n' $?; [ $? -eq 0 ] && ls", [["a"], [], [], []]),
        ("echo *.toml", [["*.toml"]]),
        ("git config --get user.name || git config remote.origin.url", [[], []]),
        (
            "git clean -nd; git whatchanged -1 | head; git hash-object a; git sparse-checkout list",
            [[], [], [], ["a"], []],
        ),
    ],
)
def test_a_line_is_proved_when_each_of_its_commands_is(line: str, files: list[list[str]]) -> None:
    assert [[file.text for file in step.proof.files] for step in prove_line(line)] == files


REFUSED = {
    "nothing": ["", " ", "\n", "#", "'ls'", "l\\s", "if", "git", "git --no-pager", "frobnicate a"],
    "what the shell makes of it": [
        "cut -f1 *.c -d:", "head -n *", "grep -e *",
        "cat -*", "cat {a,b}", "cat {1..3}", "cat $HOME/x", 'cat "$x"', "cat $(ls)", "cat `ls`",
        "cat >(ls)", "cat ~/x", "cat ~root/x", "cat ${x}", 'cat "$(ls)"', "cat $((1))", "cat $'a\\nb'", "cat $'\\0'",
    ],
    "more than one command": [
        "ls | sh", "ls |& sh", "ls &", "(rm a)", "{ rm a; }", "! rm a", "time ls",
        "for x in a; do rm a; done", "ls\nrm a", "coproc ls",
    ],
    "redirections": [
        "ls > a", "ls >> a", "cat <<< a", "cat <<E\nx\nE", "ls >| a", "ls &> a",
        "ls <> a",
    ],
    "assignments": ["X=1 ls", "PATH=. ls", "LD_PRELOAD=./x ls", "GIT_EXTERNAL_DIFF=x git diff", "ls=1"],
    "another program": [
        "command", "command -p ls", "command ./ls", "command rm a", "command command ls", "command cd a", "command $x",
        "command 'ls'", "command eval ls", "command zsh -l",
        "./ls", "/bin/ls", "../ls", "bin/cat a", "env ls", "sudo ls", "exec ls", "busybox ls", "LS",
        "bash -c ls", "xargs ls", "less a",
    ],
    "brackets with more in them than words": [
        "[ -v a[$(ls)] ]", "[ -v 'a[`ls`]' ]", "[ a > b ]", "[ a && ls ]", "[ a\n]", "[ a ]b", "[ a\\ ]", "[ $x ]",
        "[ *.c ]",
        "[ a # b ]", "[a ]", "[ a", "[ -R x ]", "[ $(ls) ]", "[[ a -eq b[$(ls)] ]]", "[ a ] > f",
        "[[ a =~ b ]]", "[[ a -eq 1 ]]", "[[ a < b ]]", "[[ a && b ]]", "[[ -v a ]]", "[[ $x ]]", "[[ a ]", "[ a ]]",
        "X=1 [ a ]",
    ],
    "versions of more than a program": [
        "node -v x.js", "python3 -V -c x", "yarn --version", "cargo -V", "go version", "./node -v", "npm -v x",
        "python3 -v",
        "make -v", "node", "tar -tIf a", "tar -tf", "tar -tf a:b", "tar -txf a", "git symbolic-ref HEAD x",
    ],
    "what is typed": ["cat", "cat -", "head", "head -n 5", "wc", "wc -l", "rg", "rg -n"],
    "options that are not listed": [
        "ls --colour", "ls --dired", "cat --help", "cat -x a",
        "head --presume-input", "wc --files0-from=a", "wc --files0-from a", "wc --files0-f=a", "head -f a",
        "pwd a", "pwd -x", "head -n x a", "head -n -- a", "cat -n- a", "cat '' a",
    ],
    "options of rg that run, follow or open more": [
        "rg --pre ./x y", "rg --pre=./x y", "rg --pr=./x y", "rg --pre-glob a y", "rg -z y", "rg -nz y",
        "rg --search-zip y", "rg --hostname-bin ./x y", "rg --hostname-bin=./x y", "rg -f a", "rg -fa", "rg --file=a y",
        "rg -L y", "rg --follow y",
        "rg --ignore-file a y", "rg --ignore-file=a y", "rg --hyperlink-format=x y", "rg -e",
        "rg -A x y", "rg --debug y", "rg --type-add 'x:*' y", "rg --glob y x --pre=z", "rg --generate man",
    ],
    "git that is told what it is": [
        "git -c core.fsmonitor=x status", "git -C .. status", "git -C /etc log", "git --git-dir=x status", "git -p log",
        "git --work-tree=/ diff", "git --exec-path=. status", "git --config-env=a=b log", "git --bare log",
        "git --no-pager -c a=b log", "git --no-pager --no-pager log", "git --paginate log",
    ],
    "other commands of git": [
        "git push", "git commit -m x", "git config a b", "git branch x", "git checkout a", "git stash",
        "git st", "git fetch", "git archive HEAD", "git difftool", "git Status",
        "git 'stash list'", "git 'stash list' x", "git stash\\ list",
    ],
    "options of git that run, write or read more": [
        "git diff --ext-diff", "git log -p --ext-diff", "git diff --ext-d", "git diff --textconv",
        "git show --textconv", "git log --text", "git diff --output=a", "git diff --output a", "git log --output=a",
        "git diff --outp=a", "git diff --no-index a b", "git diff -O a", "git diff -Oa", "git diff --submodule",
        "git diff --submodule=diff", "git diff --ignore-submodules=none", "git log --show-signature",
        "git log --format=%G?", "git log --format=%GG",
        "git log --pretty='%h %+GS'", "git log --remerge-diff", "git show --remerge-diff",
        "git log --diff-merges=remerge", "git log --stdin", "git log --help", "git status --help", "git status -v",
        "git status --ignore-submodules=none", "git log -L *", "git diff --relative=..", "git log --author x -o a",
        "git diff --word-diff-regex=x", "git log --glob=x", "git diff --no-relative", "git log -S -o",
    ],
    "names that git reads in its own way": [
        "git diff :/", "git show :a", "git log -- ':(top)'", "git log -- ':!a'", "git show @:a",
        "git show ':(exclude)a'",
    ],
    "what nobody sees": ["ls \u200b", "cat a\u202eb", "ls \x1b", "cat a\rb", "cat a\0b", "cat \ud800", "ls\u00a0a"],
    "a number that is no number for sure": [
        "cat $?", "$? a", "echo $$?", "echo '$?'$?", "echo $?*", "head -n $? a", "echo \"\\$? $?\"", "echo ${?}",
    ],
    "names that are made up, or given to what shows more than names": [
        "find . | xargs rm", "ls | xargs cat", "find . | xargs -I wc wc x", "find . | xargs sh -c ls", "xargs wc",
        "find . | xargs wc --files0-from=a", "find . | xargs -a b wc", "find . | xargs ls *", "find . | xargs $x",
        "echo /etc | xargs ls", "cat a | xargs wc", "find . -printf /etc | xargs ls", "find . | sed s/a/b/ | xargs ls",
        "find . | grep -o x | xargs ls", "ls; cat a | sort | xargs ls", "rg -ol x | xargs ls",
        "find . | xargs xargs ls", "find . | xargs ./wc",
    ],
    "a setting of git that is written, or holds keys": [
        "git config user.name x", "git config --unset user.name", "git config --add a.b c", "git config -e",
        "git config --list", "git config -l", "git config --get-regexp .", "git config --get http.extraheader",
        "git config -f /etc/x a.b", "git config --get core.pager", "git config --file a b.c", "git config a.b *",
        "git clean -fd", "git clean -d -- -n", "git clean", "git hash-object -w a", "git sparse-checkout set a",
    ],
    "options of the shell that do more": ["set", "set -- x", "set a", "set -o noexec", "set -f", "set -m; ls"],
    "a shell that runs what it reads": ["bash -n -c ls", "bash -n a b", "bash run.sh", "bash -nx a", "bash -n"],
    "what is not closed": ["cat 'a", 'cat "a', "cat $(a", "cat `a"],
}  # fmt: skip


@pytest.mark.parametrize(
    "line", [pytest.param(line, id=f"{why}: {line!r}") for why in REFUSED for line in REFUSED[why]]
)
def test_anything_else_is_not_proved(line: str) -> None:
    assert prove_line(line) == ()


def test_a_long_line_of_many_words_is_not_proved_and_one_of_few_is() -> None:
    assert prove_line(f"grep {'x' * 3_000} src")
    assert prove_line("cat" + " a" * 100)
    assert prove_line("cat" + f" {'a' * 60}" * 100) == ()


@given(
    st.sampled_from(["ls", "cat a", "rg x src", "git log", "git diff"]),
    st.sampled_from([" ", "\n", "\t"]),
    st.sampled_from(["&", ">", "(", ")", "$x", "`x`", "*", "?", "[a]", "{a,b}", "~", "\0"]),
    st.text("abx/ .-", max_size=5),
)
def test_no_sign_of_the_shell_is_proved_wherever_it_stands(start: str, gap: str, sign: str, end: str) -> None:
    for step in prove_line(f"{start}{gap}{sign}{end}x"):
        assert step.command.texts[0] in ("ls", "cat", "rg", "git")


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "a/.env",
        "/p/.ENV",
        ".env.local",
        ".netrc",
        "id_rsa",
        "x/server.pem",
        ".ssh/config",
        ".aws",
        ".git/config",
    ],
)
def test_files_with_secrets_are_known_by_their_names(path: str) -> None:
    assert may_contain_secrets(path)


@pytest.mark.parametrize("path", ["a.py", ".env.example", "id_rsa.pub", "env", "src/keys.py", "config", ".git/HEAD"])
def test_other_files_are_not_taken_for_them(path: str) -> None:
    assert not may_contain_secrets(path)
