"""What is meant only when it is asked for twice in a moment."""

from collections.abc import Callable
from time import monotonic
from typing import Literal, TypeAlias

DOUBLE_PRESS_S = 2.0
"""Seconds: as long as a hint at it is shown."""


class DoublePress:
    """Remembers when it was asked for last."""

    def __init__(self) -> None:
        self._asked_at: float | None = None

    def again(self) -> bool:
        """Whether it was asked for a moment ago, too. The third time in a row begins anew."""
        now, before = monotonic(), self._asked_at
        is_again = before is not None and now - before < DOUBLE_PRESS_S
        self._asked_at = None if is_again else now
        return is_again


LeaveMeaning: TypeAlias = Literal["clear", "stop", "warn", "leave"]
"""Takes away what is written; ends the turn; says that the same again leaves; leaves."""


class LeaveKeys:
    """What Ctrl-C and Ctrl-D mean, press after press."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._meant: LeaveMeaning | None = None
        self._at = 0.0
        self._worked = False
        """Something ran when it was pressed last."""

    def ctrl_c(self, *, is_written: bool, works: bool) -> LeaveMeaning:
        """`works`: a turn runs. One that is slow to end is no reason to stay."""
        before = self._recent()
        if is_written:
            return self._means("clear", works)
        if before == "warn" and (self._worked or not works):
            return self._means("leave", works)
        return self._means("stop" if works and before != "stop" else "warn", works)

    def ctrl_d(self, *, works: bool) -> LeaveMeaning:
        """In an empty prompt: it leaves, but a turn only when it is pressed again."""
        return self._means("warn" if works and self._recent() != "warn" else "leave", works)

    def _recent(self) -> LeaveMeaning | None:
        return self._meant if self._clock() - self._at < DOUBLE_PRESS_S else None

    def _means(self, meant: LeaveMeaning, works: bool) -> LeaveMeaning:
        self._meant, self._at, self._worked = meant, self._clock(), works
        return meant
