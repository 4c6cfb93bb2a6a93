import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tools.outputs.plain_text import number_lines, split_unfinished_escape, terminal_text, truncate_line


@pytest.mark.parametrize(
    ("printed", "read"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
        ("N\x08NA\x08A", "NA"),
        ("a\x00b\x9bc\td", "abc\td"),
    ],
)
def test_terminal_output_becomes_plain_text(printed: str, read: str) -> None:
    assert terminal_text(printed) == read


@given(st.text(alphabet="a\x1b[]0m;\n\r\x07\x08\x9b"))
def test_plain_text_holds_no_control_characters(text: str) -> None:
    assert not set(terminal_text(text)) & set("\x1b\r\x07\x08\x9b")


@given(st.text(alphabet="ab\x1b[3m"))
def test_an_unfinished_escape_is_kept_for_later(text: str) -> None:
    assert "".join(split_unfinished_escape(text)) == text


def test_an_escape_cut_in_two_waits_for_its_end() -> None:
    assert split_unfinished_escape("a\x1b[3") == ("a", "\x1b[3")
    assert split_unfinished_escape("a\x1b[31mb") == ("a\x1b[31mb", "")


def test_long_lines_say_how_long_they_are() -> None:
    assert truncate_line("abcdef", 3) == "abc… [cut: 6 characters]"
    assert number_lines(["x", "y"], 9) == "9\tx\n10\ty"
