"""Which command lines only show files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.commands.viewers import shows_files


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
