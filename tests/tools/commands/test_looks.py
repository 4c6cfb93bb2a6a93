"""Which lines are tried where they can only look, by the names of their programs."""

import pytest

from ebbtide.tools.commands.looks import parse_probably_read_only
from ebbtide.tools.commands.named_files import find_named_files


@pytest.mark.parametrize(
    "line",
    [
        "sed -n 's/a/b/p' x | sort | uniq -c", "awk -F: '$3 > 5 { n += $3 } END { print n }' x",
        "jq '.a[] | .b' x.json", "find . -name '*.py' -newer x -exec grep -l y {} +",
        "find . | xargs -n 1 -I{} wc -l {} | tail -1", "tar -tzf a.tgz", "rg -l x | xargs sed -n 1,5p",
        "for f in *.py; do echo $f; head -n 1 \"$f\"; done", "time ls; nice -n 5 wc -l x",
        "ls | while read -r f; do [ -f \"$f\" ] && wc -l < \"$f\"; done", "diff <(sort a) <(sort b)",
        "cat <<'E'\nx > y\nE", "git log --oneline | head -3; git show HEAD~1 | wc -l",
        "if grep -q x a; then echo yes; fi", "x=$(wc -l < a); echo $x", "ls missing 2>/dev/null || echo none",
        "echo err >&2", "python3 --version; node -v", "bash -n x.sh", "npm ls | head",
        "timeout 5 grep -r x . | cut -d: -f1 | sort -u", "set -e; cd src && ls | wc -l", "cat a | tee /dev/null",
        "find . \\( -name a -o -name b \\) -printf '%p\\n'", "command -v git; type ls",
    ],
)  # fmt: skip
def test_lines_of_programs_that_look_are_tried(line: str) -> None:
    assert parse_probably_read_only(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        "sed -E 's/(a)/\\1/g;s|b|c|' f", "awk '$1 > 3 { print $1,\n$2 }' f", "awk '{ if ($1 / 2 > 3) print $2 }' f",
        "sed -n '/a/{p;q}' f", "sed -n '2{p}' f", "sed G f", "sed 'n;d' f", "sed '1~2d' f", "sed 'y/abc/xyz/' f",
        "sed 's/a;b/c/; s|d|e|' f", "sed '/a/!d' f", "sed -n '/a/,/b/{/c/d;p}' f", "sed '$!N;P;D' f",
        "awk '{ printf \"%.1f\\n\", $1/1024 }' f", "awk '/^[[]x/ { n += $2/2 } END { print n \" of \" NR }' f",
        "awk '{ gsub(/[^\\/a]/, \"-\"); print \"a\" \"b\" }' f", "awk '!/[^[:alpha:]]/ { print ($1+$2)/1e3 }' f",
        "sed 's/[[:space:]]*$//' f", "sed 's/[]]/x/;s|[^/]*/||' f", "sed -n '/[\\/]x/p' f", "sed '1i header' f",
        "sed '$a\\end' f", "objdump -dj .text f", "command ls -l src",
        "sed -n '1,20p' a | awk -F: 'NR > 3 && $2 ~ /x/ { n++; print $1 }'", "set -euo pipefail; ls", "yes | head -3",
        "bash -n run.sh && echo ok", "find src -type f | xargs -n1 basename | sort",
        "git ls-files | grep -v x | xargs -I{} wc -l {} | tail -1",
    ],
)  # fmt: skip
def test_scripts_and_options_that_no_table_lists_are_tried(line: str) -> None:
    assert parse_probably_read_only(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        "make", "python3 -c 1", "node x.js", "pytest", "./run.sh", "src/x", "npm test", "npm ls; npm ci", "bash x.sh",
        "bash -c ls", "curl x", "env", "printenv", "ls; env", "eval ls", "source x", "sudo ls", "$x a", "$(echo ls)",
        "echo x > y", "ls >> y", "cat a >| b", "sort a -o a", "sort --output=a a", "sed -i s/a/b/ x",
        "sed -n 'w out' x", "sed s/a/b/gw\\ out x", "sed 's/a/b/e' x; sed '1e ls' x", "awk '{ print > \"out\" }' x",
        "awk '{ system(\"ls\") }' x", "awk -f x.awk y", "find . -delete", "find . -exec rm {} +",
        "find . -exec sh -c ls \\;", "find . -fprint x", "find . | xargs rm", "ls | xargs -I{} sh -c '{}'",
        "ls | xargs -n 1 touch", "tee out < x", "cp a b", "mv a b", "rm a", "touch a", "uniq a b", "date -s 1",
        "hostname x", "fd x -x rm", "rg --pre ./x y", "tar -xf a.tar", "tar -czf a.tar .", "tree -o x", "git commit",
        "git worktree add x", "git branch x", "git tag x", "git stash", "git diff --output=x", "git config a b",
        "git status; git checkout x", "ls &", "f() { ls; }; f", "ls |& rm", "PATH=. ls", "LD_PRELOAD=./x ls", "ls; (",
        "x=1 make", "GIT_EXTERNAL_DIFF=./x git diff", "ps auxe | cat", "timeout 5 make", "nice make", "command make",
        "xxd -r x y", "git log | sh", "echo ls | bash", "if make; then ls; fi", "for x in a; do rm $x; done",
        "echo $(make)", "cat <(make)",
    ],
)  # fmt: skip
def test_other_lines_and_lines_that_write_are_not(line: str) -> None:
    assert parse_probably_read_only(line) is None


@pytest.mark.timeout(10)  # milliseconds, unless a pattern searches the same text again and again
@pytest.mark.parametrize("piece", ["print a ", 'print "a ', "s/a/", "1,", "/aa", "1p;", "w ", "> ", "(((", '"a" '])
@pytest.mark.parametrize("program", ["awk", "sed", "sed -n"])
def test_long_scripts_are_decided_about_at_once(program: str, piece: str) -> None:
    line = f"{program} '{piece * (9_000 // len(piece))}' x"
    assert parse_probably_read_only(line) is None
    assert find_named_files(line) is not None
