"""App base classes that place the terminal cursor at the caret and exit quietly on a crash."""

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
    """Exits on an exception without output; the caller reports it. Textual's own traceback would show local
    variables, including API keys."""

    @property
    def fault(self) -> BaseException | None:
        """The exception that ended the app."""
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
    """Keeps the terminal cursor at the caret, where input methods write. Checked at every drawing: a widget moved by
    another does not report it."""

    _caret = Offset(0, 0)

    async def on_event(self, event: events.Event) -> None:
        """Keep the focus while the terminal has none. Textual would clear it, and pastes and the next key would be
        lost."""
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
    """The cell of the caret in a widget; None if it takes no text."""
    match widget:
        case TextArea():
            return widget.cursor_screen_offset
        case Input():
            x, y, width, _ = widget.content_region
            column = widget._position_to_cell(widget.cursor_position) - widget.scroll_offset.x
            return Offset(x + max(0, min(column, width - 1)), y)
        case _:
            return None
