"""An app on any terminal: its cursor stands where what is typed next appears, and a fault ends it without a word."""

from typing import Any

from textual import events
from textual.app import App
from textual.css.query import NoMatches
from textual.geometry import Offset
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.worker import WorkerFailed

from ebbtide.tui.terminal.display import DisplayApp


class CrashingApp(App[Any]):
    """Leaves the screen without a word at a fault of its own, and whoever ran it tells: Textual's own screen for such
    an end shows values of variables, keys among them."""

    @property
    def fault(self) -> BaseException | None:
        """What ended the app."""
        return self._exception and _cause_of(self._exception)  # Textual gives it to tests alone

    def _handle_exception(self, error: Exception) -> None:
        is_ending = self._exit or not self.is_running  # its widgets go, and a screen that opens is left empty
        if not (is_ending and isinstance(_cause_of(error), NoMatches)):
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()


def _cause_of(error: BaseException) -> BaseException:
    return error.error if isinstance(error, WorkerFailed) else error


class CaretApp(CrashingApp, DisplayApp):
    """Has the terminal's own cursor where what is typed next appears: input methods write there. Looks for the place
    whenever something is drawn: a widget that was moved by another does not tell."""

    _caret = Offset(0, 0)

    async def on_event(self, event: events.Event) -> None:
        """Keep the focus while the terminal has none: Textual would take it from every widget, and pastes and the first
        key after that would reach nothing."""
        if not isinstance(event, events.AppFocus | events.AppBlur):
            await super().on_event(event)

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
            column = widget._position_to_cell(widget.cursor_position) - widget.scroll_offset.x
            return Offset(x + max(0, min(column, width - 1)), y)
        case _:
            return None
