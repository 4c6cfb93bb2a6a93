"""The end of an app by a fault of its own: it leaves the screen without a word, and whoever ran it tells."""

from typing import Any

from textual.app import App
from textual.css.query import NoMatches
from textual.worker import WorkerFailed


class CrashingApp(App[Any]):
    """Textual's own screen for such an end shows values of variables, keys among them."""

    @property
    def fault(self) -> BaseException | None:
        """What ended the app."""
        wrong = self._exception  # Textual gives it to tests alone
        return wrong.error if isinstance(wrong, WorkerFailed) else wrong

    def _handle_exception(self, error: Exception) -> None:
        if not (self._exit and isinstance(error, NoMatches)):  # a screen that opens while the app ends is left empty
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()
