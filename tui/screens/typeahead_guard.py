"""Guards questions against keys typed for something else. The screen says which keys it takes; their time decides
whether they count."""

from collections.abc import Callable
from time import monotonic
from typing import ClassVar, TypeVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, Screen

Answer = TypeVar("Answer")


class TypeaheadGuard(Screen[Answer]):
    """A screen with a question, and the time at which it became readable."""

    clock: ClassVar[Callable[[], float]] = monotonic
    painted: float | None = None
    """Monotonic seconds at which the question was painted; None before that."""

    @property
    def is_asking(self) -> bool:
        """Whether a question is open."""
        return True

    @property
    def has_text_focus(self) -> bool:
        """Whether text goes to a field of this screen."""
        return False

    def could_answer(self, key: events.Key) -> bool:
        """Whether the key could answer an open question."""
        return self.is_asking

    def accepts_key(self, key: events.Key) -> bool:
        """Whether a key is for this question; other characters are text for the prompt. Called before earlier events
        are processed."""
        return True

    def insert_key(self, key: events.Key) -> bool:
        """Insert a key as text; return whether that was possible. Otherwise it is handled as usual."""
        return False

    def handle_rejected_key(self, key: events.Key | None) -> None:
        """Handle a key or paste that was not for the question; text goes to the prompt."""

    def await_painting(self) -> None:
        """Restart the guard: the current question has to be painted first."""
        self.painted = None
        self.call_after_refresh(self._record_painting)

    def _record_painting(self) -> None:
        self.painted = type(self).clock()

    def on_mount(self) -> None:
        self.app.app_resume_signal.subscribe(self, lambda _: self.await_painting())

    def on_screen_resume(self) -> None:
        self.await_painting()


class TypeaheadGuardedDialog(ModalScreen[Answer], TypeaheadGuard[Answer]):
    """A modal dialog with a guard. (Styles follow the first base class.)"""

    _is_answered = False

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        """Dismiss only once: a second queued key would close the screen below."""
        if self._is_answered:
            return AwaitComplete()
        self._is_answered = True
        return super().dismiss(result)
