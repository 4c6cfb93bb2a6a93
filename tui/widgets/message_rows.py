"""The user's messages in the transcript: finds the message that the visible text belongs to, and formats it as the line
at the top."""

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.strip import Strip

from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.styles import Palette
from ebbtide.tui.view.blocks import USER_BAR, Block, UserText
from ebbtide.tui.widgets.row_stack import RowStack

_KEY_HINT = "  Ctrl-Up "
"""The key that jumps to the message. Shown if it fits."""
_MIN_KEY_HINT_WIDTH = 40


def message_row_above(stack: RowStack, top: int) -> int | None:
    """Find the row of the user's message that line `top` belongs to; None if the start of that message is visible."""
    top_index, _ = stack.locate(top)
    for index in range(top_index, -1, -1):
        if isinstance(stack.rows[index].block, UserText):
            return index if stack.start_line(index) + stack.rows[index].blank_lines_above < top else None
    return None


def adjacent_message_row(stack: RowStack, top: int, direction: int) -> int | None:
    """Return the row of the user's message that starts before (-1) or after (1) line `top`."""
    top_index, _ = stack.locate(top)
    for index in range(top_index, -1, -1) if direction < 0 else range(top_index, len(stack.rows)):
        y = stack.start_line(index) + stack.rows[index].blank_lines_above
        if isinstance(stack.rows[index].block, UserText) and (y < top if direction < 0 else y > top):
            return index
    return None


def sticky_strip(block: Block, width: int, palette: Palette) -> Strip:
    """Format the start of a message as one line of exactly `width` cells."""
    text = block.text if isinstance(block, UserText) else ""
    key_hint = _KEY_HINT if width >= _MIN_KEY_HINT_WIDTH else ""
    first_line = sanitise_line(next((line for line in text.splitlines() if line.strip()), ""))
    text_width = max(0, width - 2 - len(key_hint))
    visible_line = (
        first_line if cell_len(first_line) <= text_width else f"{set_cell_size(first_line, max(0, text_width - 1))}…"
    )
    segments = [
        Segment(f"{USER_BAR} ", palette.user_bar),
        Segment(set_cell_size(visible_line, text_width), palette.text),
        Segment(key_hint, palette.dim),
    ]
    return Strip(Segment.apply_style(segments, palette.user)).adjust_cell_length(width)
