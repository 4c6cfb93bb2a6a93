"""The line at the top of the transcript: the message that the visible text belongs to."""

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.strip import Strip

from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.styles import Palette
from ebbtide.tui.view.blocks import USER_BAR, UserText
from ebbtide.tui.widgets.row_stack import RowStack

_KEY = "  Ctrl-Up "
"""The key to jump there, shown if it fits."""
_MIN_KEY_WIDTH = 40


def message_above(stack: RowStack, top: int) -> int | None:
    """The row of the message that line `top` belongs to; None if its first line is visible."""
    index, _ = stack.locate(top)
    for at in range(index, -1, -1):
        if isinstance(stack.rows[at].block, UserText):
            return at if stack.start(at) + stack.rows[at].gap < top else None
    return None


def sticky_strip(text: str, width: int, palette: Palette) -> Strip:
    """The start of a message in one line, exactly `width` cells wide."""
    key = _KEY if width >= _MIN_KEY_WIDTH else ""
    said = sanitised_line(next((line for line in text.splitlines() if line.strip()), ""))
    room = max(0, width - 2 - len(key))
    shown = said if cell_len(said) <= room else f"{set_cell_size(said, max(0, room - 1))}…"
    segments = [
        Segment(f"{USER_BAR} ", palette.user_bar),
        Segment(set_cell_size(shown, room), palette.text),
        Segment(key, palette.dim),
    ]
    return Strip(Segment.apply_style(segments, palette.user)).adjust_cell_length(width)
