"""Guards questions against keys that were typed for something else. The screen defines which keys it accepts; the time
at which they arrive decides whether they count."""

from collections.abc import Callable
from time import monotonic
from typing import ClassVar, TypeVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, Screen

Answer = TypeVar("Answer")


class TypeaheadGuard(Screen[Answer]):
    """A screen that may show a question, and records since when the question has been readable."""

    clock: ClassVar[Callable[[], float]] = monotonic
    painted_at: float | None = None
    """Monotonic seconds at which the question was painted; None before that."""

    @property
    def is_asking(self) -> bool:
        """Whether a question is open."""
        return True

    @property
    def has_text_focus(self) -> bool:
        """Whether typed text goes to a field of this screen."""
        return False

    def could_answer(self, key: events.Key) -> bool:
        """Whether the key could answer an open question."""
        return self.is_asking

    def accepts_key(self, key: events.Key) -> bool:
        """Whether a key is for this question; other characters are text for the prompt. Called before earlier events
        have been processed."""
        return True

    def insert_key(self, key: events.Key) -> bool:
        """Insert a key as text. Return False if that is impossible; the key is then handled as usual."""
        return False

    def handle_rejected_key(self, key: events.Key | None) -> None:
        """Handle a key or paste that was not for the question. Its text goes to the prompt."""

    def restart_guard(self) -> None:
        """Restart the guard: keys count only after the current question is painted."""
        self.painted_at = None
        self.call_after_refresh(self._record_painting)

    def _record_painting(self) -> None:
        self.painted_at = type(self).clock()

    def on_mount(self) -> None:
        self.app.app_resume_signal.subscribe(self, lambda _: self.restart_guard())

    def on_screen_resume(self) -> None:
        self.restart_guard()


class TypeaheadGuardedDialog(ModalScreen[Answer], TypeaheadGuard[Answer]):
    """A modal dialog with a guard. Its styles come from `ModalScreen`, the first base class."""

    _is_answered = False

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        """Dismiss the dialog only once. A second queued key would otherwise close the screen below it."""
        if self._is_answered:
            return AwaitComplete()
        self._is_answered = True
        return super().dismiss(result)
