"""Base classes of the app. They place the terminal's cursor at the caret, and exit quietly on a crash."""

from typing import Any

from textual import events
from textual.app import App
from textual.css.query import NoMatches
from textual.geometry import Offset
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.worker import WorkerFailed

from ebbtide.tui.terminal.display import DisplayApp


class QuietCrashApp(App[Any]):
    """Exits on an exception without printing it. Textual's traceback would show local variables, including API keys.
    The caller reports the exception."""

    @property
    def crash_error(self) -> BaseException | None:
        """The exception that ended the app, if any."""
        return self._exception and _unwrapped_error(self._exception)  # Textual exposes it only to tests

    def _handle_exception(self, error: Exception) -> None:
        is_ending = self._exit or not self.is_running  # the app is ending, so its widgets are being removed
        if not (is_ending and isinstance(_unwrapped_error(error), NoMatches)):
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()


def _unwrapped_error(error: BaseException) -> BaseException:
    return error.error if isinstance(error, WorkerFailed) else error


class CaretApp(QuietCrashApp, DisplayApp):
    """Keeps the terminal's cursor at the caret, where input methods draw. The position is checked whenever the screen
    is drawn, because a widget is not told when other widgets move it."""

    _caret = Offset(0, 0)

    async def on_event(self, event: events.Event) -> None:
        """Keep the focus when the terminal loses it. Textual would clear it, and a paste or the next key would be
        lost."""
        if not isinstance(event, events.AppFocus | events.AppBlur):
            await super().on_event(event)

    @property
    def cursor_position(self) -> Offset:
        position = caret_position(self.focused) if self.screen_stack else None
        if position is not None:
            self._caret = position
        return self._caret

    @cursor_position.setter
    def cursor_position(self, position: Offset) -> None:
        self._caret = position


def caret_position(widget: Widget | None) -> Offset | None:
    """Get the screen position of a widget's caret; None if it has none."""
    match widget:
        case TextArea():
            return widget.cursor_screen_offset
        case Input():
            x, y, width, _ = widget.content_region
            column = widget._position_to_cell(widget.cursor_position) - widget.scroll_offset.x
            return Offset(x + max(0, min(column, width - 1)), y)
        case _:
            return None
