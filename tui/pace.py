"""How fast a reply streams in. It is told how much has come and when, and reads no clock."""

CHARACTERS = 4
"""Of a token, about."""

_LEAST = 1.0
"""Seconds that are looked at before anything is said."""


class Pace:
    """The pace of one reply after the other."""

    def __init__(self) -> None:
        self._began = 0.0
        self._first = 0
        self._last = 0

    def at(self, streamed: int, now: float) -> int:
        """Tokens a second since the reply began, about; 0 as long as that is not known. `streamed`: characters so far,
        less than before when another reply has begun."""
        if streamed < self._last or not self._last:
            self._began, self._first = now, streamed
        self._last = streamed
        elapsed = now - self._began
        return round((streamed - self._first) / CHARACTERS / elapsed) if elapsed >= _LEAST else 0
