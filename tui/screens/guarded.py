"""Questions that typing for something else must not answer. A guard knows when a key was pressed, not what for."""

from time import monotonic
from typing import TypeVar

from textual.screen import ModalScreen

GUARD = 0.3
"""Seconds without a key before a key counts as an answer."""

Answer = TypeVar("Answer")


class GuardedScreen(ModalScreen[Answer]):
    """Ignores keys until none was pressed for a moment after the screen appeared."""

    def __init__(self, guard: float) -> None:
        super().__init__()
        self._guard = guard
        self._quiet_since = monotonic()
        self._guarding = True

    def on_mount(self) -> None:
        self._quiet_since = monotonic()

    def meant_nothing(self) -> None:
        """A character was typed that is no answer: somebody writes, and what follows at once answers nothing either."""
        self._quiet_since = monotonic()
        self._guarding = True

    def ignores_key(self, pressed_at: float) -> bool:
        """Whether a key pressed at that time was meant for what was on the screen before."""
        if self._guarding and pressed_at < self._quiet_since + self._guard:
            self._quiet_since = max(self._quiet_since, pressed_at)
            return True
        self._guarding = False
        return False
