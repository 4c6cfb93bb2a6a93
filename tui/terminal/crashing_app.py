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
        return self._exception and _cause_of(self._exception)  # Textual gives it to tests alone

    def _handle_exception(self, error: Exception) -> None:
        is_ending = self._exit or not self.is_running  # its widgets go, and a screen that opens is left empty
        if not (is_ending and isinstance(_cause_of(error), NoMatches)):
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()


def _cause_of(error: BaseException) -> BaseException:
    return error.error if isinstance(error, WorkerFailed) else error
