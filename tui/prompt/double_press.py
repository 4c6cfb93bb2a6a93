"""What is meant only when it is asked for twice in a moment."""

from time import monotonic

TWICE = 2.0
"""Seconds: as long as a hint at it is shown."""


class DoublePress:
    """Remembers when it was asked for last."""

    def __init__(self) -> None:
        self._asked_at: float | None = None

    def again(self) -> bool:
        """Whether it was asked for a moment ago, too. The third time in a row begins anew."""
        now, before = monotonic(), self._asked_at
        is_again = before is not None and now - before < TWICE
        self._asked_at = None if is_again else now
        return is_again
