"""A short list needs few lines; what is to be read needs as many as there are."""

from dataclasses import replace

from ebbtide.tui.view.panel import AskForText, Panel, PanelAction, PanelRow, ShowMessage, heading
from ebbtide.tui.view.panel_height import MAX_ABOUT_LINES, lines_needed


def row(value: str, told: int = 0) -> PanelRow:
    return PanelRow(value, ((value, "text"),), about=((("told", "dim"),),) * told)


ROWS = (heading("Here"), row("one"), row("two", 2))
PANEL = Panel("models", ((("Models", "strong"),),), ROWS, "Up, Down   Esc closes")


def test_a_list_needs_its_rows_and_what_stands_around_them() -> None:
    head, box, listed, told, keys = 1, 1, 3, 2, 1
    assert lines_needed(PANEL, 80) == head + box + 1 + listed + 1 + told + 1 + keys
    assert lines_needed(replace(PANEL, search=""), 80) == head + listed + 1 + told + 1 + keys
    assert lines_needed(replace(PANEL, most=2), 80) == lines_needed(PANEL, 80) - 1


def test_it_has_room_for_the_longest_of_what_is_told_and_for_words_that_are_asked_for() -> None:
    long = replace(PANEL, rows=(*ROWS, row("three", MAX_ABOUT_LINES + 4)))
    assert lines_needed(long, 80) == lines_needed(PANEL, 80) + 1 + MAX_ABOUT_LINES - 2
    assert lines_needed(replace(long, reads=True), 80) == lines_needed(long, 80) + 4

    async def do(row: PanelRow, words: str) -> ShowMessage:
        return ShowMessage(words)

    asking = PanelAction(("enter",), do=do, asks=AskForText(lambda row: "", "", ""))
    assert lines_needed(replace(PANEL, actions=(asking,)), 80) == lines_needed(PANEL, 80) + 2


def test_lines_that_are_longer_than_it_is_wide_count_as_they_are_folded() -> None:
    report = Panel("plan", ((("Plan", "strong"),),), about=((("word " * 10, "text"),),), search="", reads=True)
    assert [lines_needed(report, width) for width in (80, 25, 9)] == [4, 5, 8]


def test_what_is_not_known_before_it_is_read_has_all_the_room() -> None:
    asked_for = replace(row("one"), about=lambda: ())
    assert lines_needed(replace(PANEL, rows=(*ROWS, asked_for)), 80) == 0
    assert lines_needed(replace(PANEL, min_width_beside=100), 80) == 0
    assert lines_needed(replace(PANEL, rows=(row("one"),) * 1_000), 80) == 0
