"""A short list needs few lines; what is to be read needs as many as there are."""

from dataclasses import replace

from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow, ShowMessage, TextRequest, heading_row
from ebbtide.tui.view.panel_height import MAX_DETAIL_LINES, compute_panel_height


def row(value: str, height: int = 0) -> PanelRow:
    return PanelRow(value, ((value, "text"),), details=((("told", "dim"),),) * height)


ROWS = (heading_row("Here"), row("one"), row("two", 2))
PANEL = Panel("models", ((("Models", "strong"),),), ROWS, "Up, Down   Esc close")


def test_a_list_needs_its_rows_and_what_stands_around_them() -> None:
    head, box, listed, about, keys = 1, 1, 3, 2, 1
    assert compute_panel_height(PANEL, 80) == head + box + 1 + listed + 1 + about + 1 + keys
    assert compute_panel_height(replace(PANEL, search_placeholder=""), 80) == head + listed + 1 + about + 1 + keys
    assert compute_panel_height(replace(PANEL, max_list_lines=2), 80) == compute_panel_height(PANEL, 80) - 1


def test_it_has_room_for_the_longest_of_what_is_told_and_for_words_that_are_asked_for() -> None:
    long = replace(PANEL, rows=(*ROWS, row("three", MAX_DETAIL_LINES + 4)))
    assert compute_panel_height(long, 80) == compute_panel_height(PANEL, 80) + 1 + MAX_DETAIL_LINES - 2
    assert compute_panel_height(replace(long, page_keys_scroll_details=True), 80) == compute_panel_height(long, 80) + 4

    async def do(row: PanelRow, words: str) -> ShowMessage:
        return ShowMessage(words)

    asking = PanelAction(("enter",), run=do, text_request=TextRequest(lambda row: "", "", ""))
    assert compute_panel_height(replace(PANEL, actions=(asking,)), 80) == compute_panel_height(PANEL, 80) + 2


def test_lines_that_are_longer_than_it_is_wide_count_as_they_are_folded() -> None:
    report = Panel(
        "plan",
        ((("Plan", "strong"),),),
        empty_details=((("word " * 10, "text"),),),
        search_placeholder="",
        page_keys_scroll_details=True,
    )
    assert [compute_panel_height(report, width) for width in (80, 25, 9)] == [4, 5, 8]


def test_what_is_not_known_before_it_is_read_has_all_the_room() -> None:
    asked_for = replace(row("one"), details=lambda: ())
    assert compute_panel_height(replace(PANEL, rows=(*ROWS, asked_for)), 80) == 0
    assert compute_panel_height(replace(PANEL, min_side_by_side_width=100), 80) == 0
    assert compute_panel_height(replace(PANEL, rows=(row("one"),) * 1_000), 80) == 0
