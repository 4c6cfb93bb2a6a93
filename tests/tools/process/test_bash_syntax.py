"""The work that goes into the syntax tree of a line is bounded, whatever the line is."""

import pytest

from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.line_limits import MAX_LINE_CHARS
from ebbtide.tools.process.bash_syntax import parse_syntax_tree


def test_a_line_that_makes_sense_has_a_tree() -> None:
    line = "for x in *.py; do grep -n 'größe 日本' \"$x\" | sed -n 1,5p > /dev/null; done\n"
    root = parse_syntax_tree((line * 12).encode())
    assert root is not None
    assert not root.has_error
    assert root.end_byte == len((line * 12).encode())


@pytest.mark.parametrize(
    "unit",
    ["((1+1))\\\n ", "src/module/a.py)", "*.py | \n\n ", "secrets.env>fsub/*((1+1))*>>; 日本", 'a=b \\" (', "f() ((日"],
)
@pytest.mark.parametrize("before", ["ls ", "é " * 511])
def test_one_that_makes_none_is_given_up_after_so_much_work(before: str, unit: str) -> None:
    text = before + unit * ((MAX_LINE_CHARS - len(before)) // len(unit))
    assert parse_command_line(text).is_unparsable
    assert parse_syntax_tree(text.encode()) is None


def test_what_was_given_up_leaves_nothing_behind() -> None:
    assert parse_syntax_tree(b"((1+1))\\\n " * 1_000) is None
    root = parse_syntax_tree(b"ls -l")
    assert root is not None
    assert str(root) == "(program (command name: (command_name (word)) argument: (word)))"
