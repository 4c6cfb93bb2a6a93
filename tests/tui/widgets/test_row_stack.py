from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from textual.theme import BUILTIN_THEMES

from ebbtide.tui.render.themed_markdown import PaletteConsole
from ebbtide.tui.text.styles import get_palette
from ebbtide.tui.view.blocks import AnswerText, Block, Notice, UserText
from ebbtide.tui.widgets.row_stack import RowStack

INKS = PaletteConsole(get_palette(BUILTIN_THEMES["textual-dark"].to_color_system().generate()))
TEXTS = st.sampled_from(["word", "several words " * 9, "one\n\ntwo", "- a\n- b\n- c"])
BLOCKS = st.lists(st.one_of(TEXTS.map(UserText), TEXTS.map(AnswerText), TEXTS.map(Notice)), max_size=6)


def stack_of(past: tuple[Block, ...], turn: tuple[Block, ...] = ()) -> RowStack:
    stack = RowStack()
    stack.console = INKS
    stack.resize(30)
    stack.set_blocks(past, turn)
    return stack


@given(st.lists(st.tuples(BLOCKS, BLOCKS, st.integers(0, 11), st.integers(10, 40)), min_size=1, max_size=6))
def test_rows_begin_where_those_above_them_end(steps: list[tuple[list[Block], list[Block], int, int]]) -> None:
    stack = stack_of(())
    past: tuple[Block, ...] = ()
    for blocks, turn, drawn, width in steps:
        past = (*past, *blocks) if drawn % 2 else past
        stack.set_blocks(past, tuple(turn))
        assert [row.block for row in stack.rows] == [*past, *turn]
        if drawn < len(stack.rows):
            stack.draw(drawn)
        if width % 3 == 0:
            stack.resize(width)
        heights = [row.height for row in stack.rows]
        assert [stack.start_line(index) for index in range(len(heights))] == [
            sum(heights[:n]) for n in range(len(heights))
        ]
        assert stack.height == sum(heights)
        for y in range(stack.height):
            index, line = stack.locate(y)
            assert stack.start_line(index) + line == y


def test_a_past_that_is_the_same_is_not_looked_at_again() -> None:
    past = (UserText("one"), AnswerText("two"))
    stack = stack_of(past, (Notice("three"),))
    rows = list(stack.rows)
    stack.set_blocks(past, (Notice("four"), Notice("five")))
    assert (stack.rows[:3], [row.block for row in stack.rows[2:]]) == (rows, [Notice("four"), Notice("five")])


@given(BLOCKS, BLOCKS, st.integers(10, 40))
def test_what_is_drawn_of_the_end_of_a_session_stays_when_all_of_it_is_there(
    earlier: list[Block], end: list[Block], width: int
) -> None:
    stack = stack_of(tuple(end))
    for index in range(len(end)):
        stack.draw(index)
    drawn = list(stack.rows)
    stack.replace_blocks((*earlier, *map(replace, end)), len(end))
    fresh = stack_of((*earlier, *end))
    assert stack.rows[len(earlier) :] == drawn
    assert [row.strips is not None for row in drawn][1:] == [True] * (len(end) - 1 if end else 0)
    for one in (stack, fresh):
        one.measure(range(len(one.rows)), 1 << 30)
    assert [(row.block, row.blank_lines_above, row.height) for row in stack.rows] == [
        (row.block, row.blank_lines_above, row.height) for row in fresh.rows
    ]
    stack.resize(width)
    fresh.resize(width)
    assert (stack.height, [row.height for row in stack.rows]) == (fresh.height, [row.height for row in fresh.rows])
