"""The height that a panel needs."""

from collections.abc import Sequence

from ebbtide.tui.text.cells import wrap_words
from ebbtide.tui.text.spans import Line, line_text
from ebbtide.tui.view.key_hints import key_hint_lines
from ebbtide.tui.view.panel import NO_ROW, Panel, panel_key_hints, rows_of_tab, tab_line, tab_titles

MAX_DETAIL_LINES = 8
"""Maximum number of detail lines below the list, unless the details can be scrolled."""
_MAX_MEASURED_ROWS = 300
"""Maximum number of rows for which a panel's height is measured."""


MAX_DIALOG_WIDTH = 120
_FRAME_COLUMNS, _FRAME_LINES = 4, 2
"""Columns and lines taken up by the frame."""


def dialog_height(panel: Panel, screen_width: int) -> int | None:
    """Return the height of the panel with its frame; None if unknown."""
    needed_lines = compute_panel_height(panel, min(screen_width, MAX_DIALOG_WIDTH) - _FRAME_COLUMNS)
    return needed_lines + _FRAME_LINES if needed_lines else None


def compute_panel_height(panel: Panel, width: int) -> int:
    """Calculate how many lines the panel needs at this width, not counting its frame. The result is enough for any
    marked row. 0 if the height is unknown because content is loaded later."""
    rows = panel.rows
    has_loaded_details = any(row.content is not None or callable(row.details) for row in rows)
    if (
        panel.min_side_by_side_width
        or panel.find_rows is not None
        or panel.load_more is not None
        or has_loaded_details
        or len(rows) > _MAX_MEASURED_ROWS
    ):
        return 0
    details_height = max((_wrapped_height(row.details, width) for row in rows if not callable(row.details)), default=0)
    details_height = max(details_height, _wrapped_height(panel.empty_details, width))
    details_height = details_height if panel.page_keys_scroll_details else min(details_height, MAX_DETAIL_LINES)
    tabs = tab_titles(panel)
    row_count = max((len(rows_of_tab(panel, index)) for index in range(len(tabs))), default=len(rows))
    list_height = min(row_count, panel.max_list_lines) if panel.max_list_lines else row_count
    input_height = 2 if any(action.text_request is not None for action in panel.actions) else 0
    key_line_count = len(key_hint_lines(panel_key_hints(panel, NO_ROW, is_in_list=not panel.search_placeholder), width))
    heights = (
        _wrapped_height((*panel.headline, *((tab_line(tabs, 0),) if tabs else ())), width),
        int(bool(panel.search_placeholder)),
        list_height,
        details_height,
        key_line_count,
    )
    return sum(heights) + sum(1 for height in heights[1:4] if height) + input_height


def _wrapped_height(lines: Sequence[Line], width: int) -> int:
    return sum(max(1, len(wrap_words(line_text(line), width))) for line in lines)
