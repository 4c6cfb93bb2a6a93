"""The end of an app by a fault of its own: it leaves the screen without a word, and whoever ran it tells."""

from typing import Any

from textual.app import App
from textual.worker import WorkerFailed


class CrashingApp(App[Any]):
    """Textual's own screen for such an end shows values of variables, keys among them."""

    @property
    def fault(self) -> BaseException | None:
        """What ended the app."""
        wrong = self._exception  # Textual gives it to tests alone
        return wrong.error if isinstance(wrong, WorkerFailed) else wrong

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()
