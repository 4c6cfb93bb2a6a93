"""Guards questions against keys that were typed for something else. The screen defines which keys it accepts. Whether a
key counts depends on when it arrived."""

from collections.abc import Callable
from time import monotonic
from typing import ClassVar, TypeVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, Screen

ResultT = TypeVar("ResultT")


class TypeaheadGuard(Screen[ResultT]):
    """A screen that may show a question and remembers when the question was painted."""

    clock: ClassVar[Callable[[], float]] = monotonic
    painted_at: float | None = None
    """When the question was painted, in monotonic seconds; None if it was not painted yet."""

    @property
    def is_asking(self) -> bool:
        """Whether a question is open."""
        return True

    @property
    def has_text_focus(self) -> bool:
        """Whether typed text goes to a field on this screen."""
        return False

    def could_answer(self, key: events.Key) -> bool:
        """Whether the key could answer an open question."""
        return self.is_asking

    def accepts_key(self, key: events.Key) -> bool:
        """Whether a key is for this question. Other characters are text for the prompt. Called before earlier events
        have been processed."""
        return True

    def insert_key(self, key: events.Key) -> bool:
        """Insert a key as text. Returns False if this is impossible; the key is then handled as usual."""
        return False

    def handle_rejected_key(self, key: events.Key | None) -> None:
        """Handle a key or paste that was not for the question. Its text goes into the prompt."""

    def restart_guard(self) -> None:
        """Restart the guard, so that keys count only once the current question is painted."""
        self.painted_at = None
        self.call_after_refresh(self._record_painting)

    def _record_painting(self) -> None:
        self.painted_at = type(self).clock()

    def on_mount(self) -> None:
        self.app.app_resume_signal.subscribe(self, lambda _: self.restart_guard())

    def on_screen_resume(self) -> None:
        self.restart_guard()


class TypeaheadGuardedDialog(ModalScreen[ResultT], TypeaheadGuard[ResultT]):
    """A modal dialog with a guard. Its styles come from `ModalScreen`, the first base class."""

    _is_answered = False

    def dismiss(self, result: ResultT | None = None) -> AwaitComplete:
        """Dismiss the dialog, but only once. Otherwise, a second queued key would close the screen below it."""
        if self._is_answered:
            return AwaitComplete()
        self._is_answered = True
        return super().dismiss(result)
