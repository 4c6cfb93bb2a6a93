"""Lines of which each word has its ink, broken where the screen ends."""

import pytest

from ebbtide.tui.text.spans import Line, parse_inline_code, wrap_spans


def words(lines: tuple[Line, ...]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


HINT: Line = (("tip  ", "dim"), *parse_inline_code("`/why TEXT` tells whether the model sees it", "text"))


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (80, ["tip  /why TEXT tells whether the model sees it"]),
        (30, ["tip  /why TEXT tells whether", "     the model sees it"]),
        (18, ["tip  /why TEXT", "     tells whether", "     the model", "     sees it"]),
        (3, ["tip  /why TEXT tells whether the model sees it"]),
    ],
)
def test_a_line_goes_on_below_what_it_says(width: int, lines: list[str]) -> None:
    assert words(wrap_spans(HINT, width, 5)) == lines


def test_inks_stay_with_their_words_and_no_word_is_lost() -> None:
    lines = wrap_spans(HINT, 20, 5)
    assert ("TEXT", "code") in [(text.strip(), ink) for line in lines for text, ink in line]
    assert " ".join(words(lines)).split() == words((HINT,))[0].split()
    assert words(wrap_spans((("日本語 日本語", "text"),), 8, 0)) == ["日本語", "日本語"]
