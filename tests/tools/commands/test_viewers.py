"""Which command lines only show files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tools.commands.viewers import shows_files, viewed_names


@pytest.mark.parametrize(
    "line",
    [
        "cat a.py",
        "sed -n '1,200p' src/a.py",
        "sed -n 10,20p a; sed -n 5,9p b",
        "sed -nE '/^def /p' a",
        "sed --quiet -e 5p a",
        "head -50 a",
        "tail -n +20 a | head -40",
        "nl -ba a.py | sed -n '1,80p'",
        "rg -n 'def .*' src",
        "grep -rn total . --include=*.py 2>/dev/null | sort | uniq -c",
        "git show HEAD:src/a.py",
        "git -C /src --no-pager diff HEAD~1 -- a b",
        "cd src && cat a.py",
        "pwd; ls; echo '--- a'; cat a 2>&1",
        'for f in *.py; do echo "== $f"; sed -n 1,40p "$f"; done',
        "bash -lc \"sed -n '1,200p' a.py\"",
        "/bin/bash -c 'cat a | head'",
        "LC_ALL=C grep -c x a",
        "if [ -f a ]; then cat a; else cat b; fi",
        "cat a.json | jq .name",
        "(cd x; cat y)",
        "cat < a",
        "cat 日本.txt",
        "cat -n a.py",
        "sed -n '1,200p' f | cat",
        "git show HEAD:f | nl -ba",
        "git cat-file -p HEAD:f",
        "git log -p -3 -- a.py",
        "git stash show -p",
        "gh pr diff 7",
        "diff -u a b",
        "batcat -p --line-range 1:50 f",
        "/bin/cat a",
        "command cat a",
        "sudo head -20 /etc/hosts",
        "timeout 10 cat a",
        "awk 'NR>=1 && NR<=100' f",
        "awk '{print NR\": \"$0}' f",
        "jq . a.json",
        "find . -name '*.py' -exec cat {} +",
        "fd -e py -x cat",
        "ls *.py | xargs head -50",
        "git ls-files | xargs -I{} cat {} | head -300",
        "set -e; cat a",
        "git status; git diff",
        'pwsh -NoProfile -Command "Get-Content a.txt | Select-Object -First 50"',
        "powershell -c 'gc a.txt'",
        "Get-Content a.txt -TotalCount 80",
    ],
)
def test_what_shows_files_is_known_by_its_text(line: str) -> None:
    assert shows_files(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ls -la",
        "make test",
        "make test | tail -100",
        "npm run build 2>&1 | grep error",
        "cat a && make",
        "cat a | python3 -",
        "cat > a <<'EOF'\ntext\nEOF",
        "cat a > b",
        "sed -i s/a/b/ a",
        "sed -n -i p a",
        "sed -ni p a",
        "sed --in-place=.old -n p a",
        "sed s/a/b/ a",
        "git log | head",
        "git log --oneline",
        "git stash",
        "git status",
        "gh pr view 7",
        "make | xargs cat",
        "find . -name '*.py'",
        "find . -name '*.py' -exec rm {} +",
        "find . -exec",
        "ls | xargs",
        "ls | xargs rm",
        "awk '{ system($0) }' f",
        "awk '{ n += $1 } END { print n }' f",
        "awk '{ print $0 > \"b\" }' f",
        "awk '\"date\" | getline x' f",
        "ls | xargs -n 1 rm cat",
        "jq .name",
        "sudo make",
        "sudo",
        "pwsh -c 'make'",
        "git push",
        "git",
        "cat a &",
        "cat 'a",
        "python3 -c 'print(1)'",
        "bash -c 'make'",
        "bash build.sh",
        "cat <(make)",
        "echo done",
    ],
)
def test_what_does_more_or_cannot_be_read_is_a_program(line: str) -> None:
    assert not shows_files(line)


@given(st.text(alphabet="catsednrgit -|;&<>()'\"$`\n{}[]!x", max_size=40))
def test_any_text_gets_an_answer(line: str) -> None:
    assert shows_files(line) in (True, False)


@pytest.mark.parametrize(
    "line", ["cat a.py", "/bin/bash -lc 'cat a.py'", "pwd; head -5 a.py | nl", "bash -c 'nl a.py | head'"]
)
def test_the_files_that_a_line_shows_are_named_also_within_a_shell(line: str) -> None:
    assert "a.py" in viewed_names(line)
    assert not viewed_names(f"{line} > b.py")
