"""Keys that take effect when pressed twice."""

from collections.abc import Callable
from time import monotonic
from typing import Literal, TypeAlias

DOUBLE_PRESS_S = 2.0
"""Seconds between the two presses; the hint is shown for as long."""


class DoublePress:
    """Remembers the last press."""

    def __init__(self) -> None:
        self._asked_at: float | None = None

    def again(self) -> bool:
        """Whether it was pressed a moment ago. The third press in a row counts as a first."""
        now, before = monotonic(), self._asked_at
        is_again = before is not None and now - before < DOUBLE_PRESS_S
        self._asked_at = None if is_again else now
        return is_again


LeaveMeaning: TypeAlias = Literal["clear", "stop", "warn", "leave"]
"""Clear the prompt, stop the turn, hint that another press exits, or exit."""


class LeaveKeys:
    """The meaning of Ctrl-C and Ctrl-D, press by press."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._meant: LeaveMeaning | None = None
        self._at = 0.0
        self._worked = False
        """Whether a turn was running at the last press."""

    def ctrl_c(self, *, is_written: bool, works: bool) -> LeaveMeaning:
        """`works`: a turn runs. A turn that is slow to stop does not prevent exiting."""
        before = self._recent()
        if is_written:
            return self._means("clear", works)
        if before == "warn" and (self._worked or not works):
            return self._means("leave", works)
        return self._means("stop" if works and before != "stop" else "warn", works)

    def ctrl_d(self, *, works: bool) -> LeaveMeaning:
        """In an empty prompt: exit; during a turn only at the second press."""
        return self._means("warn" if works and self._recent() != "warn" else "leave", works)

    def _recent(self) -> LeaveMeaning | None:
        return self._meant if self._clock() - self._at < DOUBLE_PRESS_S else None

    def _means(self, meant: LeaveMeaning, works: bool) -> LeaveMeaning:
        self._meant, self._at, self._worked = meant, self._clock(), works
        return meant
