"""The terminal's own cursor, at the place where what is typed next appears: input methods write there."""

from rich.cells import cell_len
from textual.geometry import Offset
from textual.widget import Widget
from textual.widgets import Input, TextArea

from tui.terminal.crashing_app import CrashingApp


class CaretApp(CrashingApp):
    """Looks for the place whenever something is drawn: a widget that was moved by another does not tell."""

    _caret = Offset(0, 0)

    @property
    def cursor_position(self) -> Offset:
        place = caret_of(self.focused) if self.screen_stack else None
        if place is not None:
            self._caret = place
        return self._caret

    @cursor_position.setter
    def cursor_position(self, place: Offset) -> None:
        self._caret = place


def caret_of(widget: Widget | None) -> Offset | None:
    """The cell in which a widget shows what is typed next; None when it takes no text."""
    match widget:
        case TextArea():
            return widget.cursor_screen_offset
        case Input():
            x, y, width, _ = widget.content_region
            column = cell_len(widget.value[: widget.cursor_position]) - widget.scroll_offset.x
            return Offset(x + max(0, min(column, width - 1)), y)
        case _:
            return None
