"""Questions that typing for something else must not answer. A guarded screen says what it takes; what was typed for it
is decided by when it came."""

from collections.abc import Callable
from time import monotonic
from typing import ClassVar, TypeVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, Screen

Answer = TypeVar("Answer")


class TypeaheadGuard(Screen[Answer]):
    """A screen that asks, and knows since when its question can be read."""

    clock: ClassVar[Callable[[], float]] = monotonic
    painted: float | None = None
    """Monotonic seconds at which the question was painted; None as long as it is not."""

    @property
    def is_asking(self) -> bool:
        """Whether something is asked now."""
        return True

    @property
    def has_text_focus(self) -> bool:
        """Whether text is for a field of this screen."""
        return False

    def could_answer(self, key: events.Key) -> bool:
        """Whether there is a question that such a key answers."""
        return self.is_asking

    def accepts_key(self, key: events.Key) -> bool:
        """Whether a key is for this question: a character that is not is text for the prompt. It is asked before what
        came earlier was looked at."""
        return True

    def insert_key(self, key: events.Key) -> bool:
        """Takes a key as text and as nothing else. Tells whether it did: otherwise it goes where all keys go."""
        return False

    def handle_rejected_key(self, key: events.Key | None) -> None:
        """Something was not for the question: where it is a character, or a paste, it is in the prompt."""

    def await_painting(self) -> None:
        """What is asked now can be read only when it is painted."""
        self.painted = None
        self.call_after_refresh(self._record_painting)

    def _record_painting(self) -> None:
        self.painted = type(self).clock()

    def on_mount(self) -> None:
        self.app.app_resume_signal.subscribe(self, lambda _: self.await_painting())

    def on_screen_resume(self) -> None:
        self.await_painting()


class TypeaheadGuardedDialog(ModalScreen[Answer], TypeaheadGuard[Answer]):
    """A dialog that asks. (Styles follow the first of the two.)"""

    _is_answered = False

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        """Once: a second key may be on its way when the first one answers, and would take away the screen below."""
        if self._is_answered:
            return AwaitComplete()
        self._is_answered = True
        return super().dismiss(result)
