"""Loops written out, and how bash runs them and what they were written out to."""

import subprocess
from pathlib import Path

import pytest

from tools.commands.loops import written_out

FILES = ("a.py", "b.py")


def names(pattern: str) -> tuple[str, ...]:
    return FILES if pattern == "*.py" else ()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("for x in a b; do wc $x; done", "wc a\nwc b"),
        ('ls; for x in a; do echo "$x: ${x}"; done; pwd', 'ls; echo "a: a"; pwd'),
        ("for x in *.py c; do head $x; done", "head a.py\nhead b.py\nhead c"),
        ("for x in a\ndo\n  cat $x | wc\ndone", "cat a | wc"),
        ("for x in 1 2; do awk '{print $x}' f; done", "awk '{print $x}' f\nawk '{print $x}' f"),
    ],
)
def test_a_loop_over_words_of_the_line_is_written_out(line: str, found: str) -> None:
    assert written_out(line, names) == found


@pytest.mark.parametrize(
    "line",
    [
        "ls", "for x in $y; do ls; done", "for x in $(ls); do cat $x; done",
        "for x; do ls; done", "for x in 'a b'; do ls $x; done",
        "for x in *.c; do ls $x; done", "for x in {1..3}; do ls $x; done", "for x in ~; do ls $x; done",
        "for x in a; do ls; done | wc", "for x in a; do ls; done && ls", "for x in a; do ls # b\ndone; pwd",
        "select x in a; do ls; done", "for x in a; do", "for ((i=0;i<3;i++)); do ls; done",
        "for x in " + "a " * 101 + "; do ls; done",
    ],
)  # fmt: skip
def test_any_other_loop_stays_as_it_is(line: str) -> None:
    assert written_out(line, names) == line


@pytest.mark.parametrize(
    "line",
    [
        'for x in a.py b.py none; do cat $x; echo $?; done; echo "end $?"',
        'for x in *.py; do echo "== $x"; wc -c < $x; done',
        "set -e; for x in a.py none b.py; do cat $x; done; echo no",
        "for x in a.py b.py\ndo\n  test -f $x || echo none\n  echo '$x' \"${x}\"\ndone",
    ],
)
def test_bash_does_the_same_for_both(tmp_path: Path, line: str) -> None:
    for name in FILES:
        (tmp_path / name).write_text(f"in {name}\n")
    assert written_out(line, names) != line
    ran = [
        subprocess.run(("bash", "-c", text), cwd=tmp_path, capture_output=True, text=True, check=False)
        for text in (line, written_out(line, names))
    ]
    assert (ran[0].returncode, ran[0].stdout) == (ran[1].returncode, ran[1].stdout)
