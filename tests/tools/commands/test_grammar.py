"""Command lines as text, compared with what bash makes of them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.nested import has_hidden_program
from tests.kit.recorded_bash import RecordedBash, changed_build_lines, escapes, lines, simple_commands


def words_of(text: str) -> list[list[str]]:
    return [list(command.texts) for command in simple_commands(text)]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("ls -l", [["ls", "-l"]]),
        ("ls 'a b' \"c d\" e\\ f", [["ls", "a b", "c d", "e f"]]),
        ("ls ''", [["ls", ""]]),
        ("l''s a\"b\"'c'd", [["ls", "abcd"]]),
        ('echo "a\\"b\\\\c\\d" \'a\\b$c`\'', [["echo", 'a"b\\c\\d', "a\\b$c`"]]),
        ("a; b && c || d | e |& f\ng\n", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("# first look\nls # the folder\npwd", [["ls"], ["pwd"]]),
        ("echo a#b", [["echo", "a#b"]]),
        ("make 2>&1 >/dev/null | tail &> /dev/null", [["make"], ["tail"]]),
        ("wc -l < notes/a.txt", [["wc", "-l"]]),
        ("echo 2 >/dev/null", [["echo", "2"]]),
        ("find . \\( -name a -o -name b \\)", [["find", ".", "(", "-name", "a", "-o", "-name", "b", ")"]]),
        ("git show HEAD@{1} stash@{0}", [["git", "show", "HEAD@{1}", "stash@{0}"]]),
        ("ls \\\n  -l", [["ls", "-l"]]),
    ],
)
def test_plain_commands_are_read_as_bash_reads_them(text: str, commands: list[list[str]]) -> None:
    assert words_of(text) == commands


@pytest.mark.parametrize(
    "text",
    [
        "echo $x", 'echo "$x"', "echo $(ls)", 'echo "`ls`"', "echo `ls`", "cat <(ls)", "ls >(cat)", "echo $((1))",
        "ls > f", "ls >> f", "ls >| f", "ls &> f", "cat <> f", "ls 2> f", "ls >&2 > f", "cat <<E\nE", "cat <<< x",
        "cat < /etc/hosts", "cat < ../x", "cat < ~/x", "cat < *", "cat <&3", "ls 3>&-", "ls > /dev/tcp/a/1", "ls >",
        "ls &", "(ls)", "{ ls; }", "f() { ls; }", "f () ls", "if ls; then ls; fi", "while ls; do ls; done",
        "for x in a; do ls; done", "case a in a) ls;; esac", "! ls", "coproc ls", "[[ a =~ b ]]", "function f { ls; }",
        "ls {a,b}", "ls {1..3}", "/bin/l? x", "* x", "ls ;; ls", "ls 'open", 'ls "open', "ls $'open", "ls `open",
        "ls $(open", "ls \x0b", "ls \r", "ls \xa0x", "ls \u200b", "ls '\u202e'", "ls \x1b", "", "\n", "# nothing",
    ],
)  # fmt: skip
def test_what_is_more_than_plain_commands_gives_none(text: str) -> None:
    assert words_of(text) == []


def test_a_word_tells_what_the_shell_may_make_of_it() -> None:
    (command,) = parse_command_line("a 'b' *.c \"$d\" \\e").commands
    assert command.words == (
        Word("a"),
        Word("b", is_unquoted=False),
        Word("*.c", is_glob=True),
        Word("$d", has_expansion=True, is_unquoted=False),
        Word("e", is_unquoted=False),
    )


ONCE_MISREAD = [
    "cut -f1 2>&1 < -exec x1", "test -f a -1>/dev/null; ls", "cat ^\\\n#time", "ls 2>/dev/null src x", "cat a\\\n# b",
    "printf %s 'a'# b", "ls >/dev/null#x", "echo a;#b\nls", "ls \\\n#a\n", "cat 10>/dev/null", "echo {a,b} ~",
    "ls a2>&1", "ls {fd}>/dev/null", "ls {PATH}> /dev/null; cat a", "cat {a}<b", "ls x {fd}>&1 y",
]  # fmt: skip
"""What the grammar takes in another way than bash does."""


@pytest.mark.timeout(14_400)  # a million lines of each kind by night
@pytest.mark.parametrize("lines_of", [lines, changed_build_lines])
def test_bash_runs_what_was_proved_and_nothing_else(
    tmp_path: Path, lines_of: Callable[[int, int], Iterator[str]]
) -> None:
    bash = RecordedBash(tmp_path)
    counts = list[int]()
    for seed in range(500 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 1):
        made = list(lines_of(seed, 2_000 if seed else 400))
        count, found = escapes([*ONCE_MISREAD, *made], bash)
        counts.append(count)
        assert found == []
    assert min(counts) > 50


@given(st.text(alphabet="ab ;&|$()`'\"\n\\<>{}#*?~=!", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    line = parse_command_line(text)
    assert bool(simple_commands(text)) == (not line.problem)
    assert has_hidden_program(text) in (True, False)
