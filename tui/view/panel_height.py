"""The height of a panel, so that a short list does not fill the screen. Pure."""

from collections.abc import Sequence

from ebbtide.tui.text.cells import wrap_words
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.key_hints import key_lines
from ebbtide.tui.view.panel import NO_ROW, Panel, hints

MAX_ABOUT_LINES = 8
"""Maximum detail lines below the list, unless they are content to read."""
_MAX_MEASURED_ROWS = 300
"""Maximum rows whose details are measured."""


def lines_needed(panel: Panel, width: int) -> int:
    """Lines needed at a width, without the frame, for any marked row; 0 if unknown because content is loaded later."""
    rows = panel.rows
    is_read = any(row.content is not None or callable(row.about) for row in rows)
    if (
        panel.min_width_beside
        or panel.find is not None
        or panel.more is not None
        or is_read
        or len(rows) > _MAX_MEASURED_ROWS
    ):
        return 0
    told = max((_height(row.about, width) for row in rows if not callable(row.about)), default=0)
    told = max(told, _height(panel.about, width))
    told = told if panel.reads else min(told, MAX_ABOUT_LINES)
    listed = min(len(rows), panel.most) if panel.most else len(rows)
    asked = 2 if any(action.asks is not None for action in panel.actions) else 0
    keys = len(key_lines(hints(panel, NO_ROW, in_list=not panel.search), width))
    parts = (_height(panel.head, width), int(bool(panel.search)), listed, told, keys)
    return sum(parts) + sum(1 for part in parts[1:4] if part) + asked


def _height(lines: Sequence[Line], width: int) -> int:
    return sum(len(wrap_words("".join(words for words, _ in line), width)) for line in lines)
