"""What is done for a few more characters of an answer does not depend on how long it already is."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from markdown_it import MarkdownIt

from bench.tui.answers import ANSWER_TEXTS
from ebbtide.tui.render import markdown, themed_markdown
from ebbtide.tui.render.blocks import AnswerRenderer, ReasoningRenderer
from ebbtide.tui.widgets.growing_strips import GrowingStrips
from tests.tui.render.test_blocks import INKS, plain

STEP = 70
"""Characters that come between two drawings."""
MAX_OPEN_CHARS = 8_000
"""What may be parsed again for each drawing: the block that is not finished."""


def growing(name: str, size: int) -> Iterator[str]:
    pieces, text = ANSWER_TEXTS[name](random.Random(3)), ""
    while len(text) < size:
        text += next(pieces)
    return (text[:end] for end in range(STEP, size, STEP))


@pytest.fixture
def read_chars(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all texts that are parsed or highlighted."""
    sizes: list[int] = []
    parse, highlight = MarkdownIt.parse, themed_markdown._highlighted_tokens

    def watch(function: Callable[..., object], place: int) -> Callable[..., object]:
        def watched(*values: Any) -> object:
            sizes.append(len(values[place]))
            return function(*values)

        return watched

    monkeypatch.setattr(MarkdownIt, "parse", watch(parse, 1))
    monkeypatch.setattr(themed_markdown, "_highlighted_tokens", watch(highlight, 0))
    return sizes


@pytest.mark.parametrize("name", [name for name in ANSWER_TEXTS if name != "thinking"])
def test_no_more_is_parsed_for_the_end_of_a_long_answer(name: str, read_chars: list[int]) -> None:
    painter, worst = AnswerRenderer(100, INKS), 0
    for text in growing(name, 60_000):
        read_chars.clear()
        painter.render(text)
        worst = max(worst, sum(read_chars))
    assert read_chars
    assert worst <= 4 * MAX_OPEN_CHARS


@pytest.mark.parametrize("name", list(ANSWER_TEXTS))
def test_lines_that_stay_keep_what_was_drawn_of_them(name: str) -> None:
    renderer = ReasoningRenderer(100, INKS) if name == "thinking" else AnswerRenderer(100, INKS)
    strips, previous = GrowingStrips(renderer), list[object]()
    for text in growing(name, 30_000):
        current: list[object] = list(strips.draw(text))
        kept = sum(one is other for one, other in zip(previous, current, strict=False))
        assert len(current) - kept <= 70
        previous = current
    assert len(previous) > 100
    assert [list(strip) for strip in strips.draw(text)] == renderer.render(text)


def test_thoughts_look_the_same_however_they_came() -> None:
    text = "  \n\none\r\n\ntwo  \n" + "words " * 3_000 + "\n\n\nthe end\n\n"
    painter = ReasoningRenderer(60, INKS)
    for end in range(0, len(text), 37):
        painter.render(text[:end])
    assert painter.render(text) == ReasoningRenderer(60, INKS).render(text)


TABLE = "| name | count |\n|:---|---:|\n" + "".join(f"| item {n} | {n} |\n" for n in range(300))


def test_a_long_table_that_grows_looks_like_one() -> None:
    painter = AnswerRenderer(60, INKS)
    for end in range(0, len(TABLE), 25):
        painter.render(TABLE[:end])
    grown, whole = plain(painter, TABLE), plain(AnswerRenderer(60, INKS, grows=False), TABLE)
    assert len(whole) == 302
    assert [line.split() for line in grown if "┼" not in line] == [line.split() for line in whole if "┼" not in line]
    assert {line.index("│") for line in grown[2:12]} == {len("item 23 ")}, "columns fit what was there already"
    assert {line.index("│") for line in grown[110:]} == {len("item 299 ")}
    assert "\n".join(grown).count("count") == 1


def test_the_next_part_of_a_table_is_known_by_its_header() -> None:
    (head, *_), rest, has_gap = markdown.split_finished_pieces((), TABLE, True)
    assert not has_gap
    assert markdown.has_same_header(rest, head.source)
    assert not markdown.has_same_header("| other | count |\n|:---|---:|\n| 1 | 2 |", head.source)


def test_a_table_after_a_long_one_has_its_own_columns() -> None:
    other = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    text = f"{TABLE}\n{other}"
    painter = AnswerRenderer(60, INKS)
    painter.render(TABLE)
    assert plain(painter, text)[-3:] == plain(AnswerRenderer(60, INKS), other)


@pytest.mark.parametrize("width", [1, 2, 5, 12, 40])
def test_columns_fit_if_each_can_have_one_cell(width: int) -> None:
    widths = themed_markdown.fit_columns((30, 3, 30), (), width)
    assert all(one >= 1 for one in widths)
    assert sum(widths) + 6 == max(width, 9)
    assert themed_markdown.fit_columns((2, 3), (4, 1), 80) == (4, 3)
