"""The line that names keys."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ebbtide.tui.view.key_hints import MAX_HINT_LINES, key_hint_lines
from tests.kit.plain_lines import plain

HINTS = "Up, Down files  PgUp, PgDn read  r renames  Ctrl-N adds what is missing  empty: as before  Esc closes"


def keys_of(hints: str) -> list[str]:
    return [words for line in key_hint_lines(hints, 500) for words, ink in line if ink == "text"]


def test_keys_are_told_apart_from_what_they_do() -> None:
    assert keys_of(HINTS) == ["Up, Down", "PgUp, PgDn", "r", "Ctrl-N", "Esc"]
    assert keys_of("`a` stays as it is  Entering is not meant  after that") == []


def test_a_line_that_fits_is_set_wide() -> None:
    assert key_hint_lines("Enter opens  Esc closes", 26) == [
        (("Enter", "text"), (" opens   ", "dim"), ("Esc", "text"), (" closes", "dim"))
    ]


def test_no_line_breaks_within_a_phrase() -> None:
    assert [plain(line) for line in key_hint_lines(HINTS, 50)] == [
        "Up, Down files  PgUp, PgDn read  r renames",
        "Ctrl-N adds what is missing  empty: as before",
        "Esc closes",
    ]


@given(st.lists(st.text("ab ,/", min_size=1)), st.integers(0, 60))
def test_there_are_never_many_lines_and_none_is_wider_than_its_longest_phrase(phrases: list[str], width: int) -> None:
    lines = key_hint_lines("  ".join(phrases), width)
    longest = max((cell_len(phrase) for phrase in phrases), default=0)
    assert len(lines) <= MAX_HINT_LINES
    assert all(cell_len(plain(line)) <= max(width, longest) for line in lines)
