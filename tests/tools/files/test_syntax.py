"""What is said of a change that broke the syntax of a file."""

import sys
import warnings
from pathlib import Path

import pytest

from ebbtide.tools.base import AppliedChange
from ebbtide.tools.files.syntax import MAX_PARSED_BYTES, syntax_errors_note

ROOT = Path("/p")
OPEN = f"`x = (1`: '(' was never closed (Python {sys.version_info.major}.{sys.version_info.minor})"


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        ("a.py", "x = 1\n", "x = (1\n", f"`a.py` no longer parses: line 1, {OPEN}"),
        ("a.py", "x = (1\n", "x = [1\n", ""),
        ("a.py", "x = 1\n", "x = 2\n", ""),
        ("a.py", None, "x = (1\n", f"`a.py` does not parse: line 1, {OPEN}"),
        ("a.py", "x = 1\n", None, ""),
        ("a.json", '{"a": 1}', '{"a": 1,}',
         "`a.json` no longer parses: line 1, `{\"a\": 1,}`: Expecting property name enclosed in double quotes"),
        ("a.json", '{"a": 1} // c', '{"a": 1,} // c', ""),
        ("tsconfig.json", None, '{"a": 1} // c', ""),
        ("a.toml", "a = 1\n", "a = 1\nb =\n", "`a.toml` no longer parses: line 2, `b =`: Invalid value"),
        ("a.js", "f()", "f(", ""),
        ("a.py", "x = 1\n", "(" * 5_000, "`a.py` no longer parses: line 1, `"),
        ("a.py", "x = 1\n", "-" * 100_000 + "1", ""),
        ("a.py", "x = 1\n", "x" * MAX_PARSED_BYTES + "(", ""),
        ("a.json", "[]", "[" * 100_000, ""),
    ],
)  # fmt: skip
def test_a_file_that_no_longer_parses_is_named_with_the_line(
    name: str, before: str | None, after: str | None, message: str
) -> None:
    contents = [None if each is None else each.encode() for each in (before, after)]
    found = syntax_errors_note([AppliedChange(ROOT / name, contents[0], contents[1])], ROOT)
    assert found == message or (message.endswith("`") and found.startswith(message)), found


def test_what_the_compiler_warns_of_is_not_printed() -> None:
    with warnings.catch_warnings(record=True) as caught:
        assert syntax_errors_note([AppliedChange(ROOT / "a.py", b"", b'x = "\\d" is 5\n')], ROOT) == ""
    assert caught == []
