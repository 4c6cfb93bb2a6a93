"""The elapsed time of a turn and of its current activity. The caller supplies the time."""

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.view.blocks import Call, SessionView

_APART = 5.0
"""Minimum difference in seconds to show both times."""

_MAX_SEARCHED_BLOCKS = 20
"""Number of last blocks searched for the running call."""


@dataclass(frozen=True, slots=True)
class ElapsedSeconds:
    """Elapsed time in whole seconds."""

    part: int = 0
    """Of the current activity."""
    turn: int = 0
    """Of the whole turn, if much longer; time spent waiting for the user does not count."""


class ElapsedTimer:
    """Measures the time of one turn after another."""

    def __init__(self) -> None:
        self._at = 0.0
        self._part = self._turn = 0.0
        self._counts = False
        """Whether something was running at the last view."""
        self._doing: object = None

    def at(self, view: SessionView, now: float) -> ElapsedSeconds:
        """The elapsed time at `now`. Must be called with every view."""
        passed = now - self._at if self._counts else 0.0
        doing = _doing(view) if view.busy else None
        if not view.busy or self._doing is None:
            self._part = self._turn = 0.0
        else:
            self._turn += passed
            self._part = self._part + passed if doing == self._doing else 0.0
        self._at, self._doing, self._counts = now, doing, view.busy and not view.asked
        turn = self._turn if self._turn - self._part >= _APART else self._part
        return ElapsedSeconds(int(self._part), int(turn))


def _doing(view: SessionView) -> object:
    """What identifies the current activity. The progress of writing a call does not count."""
    running = (b.call_id for b in view.turn[-_MAX_SEARCHED_BLOCKS:] if isinstance(b, Call) and b.status == "running")
    return view.hook_status or view.activity.partition(" (")[0], next(running, "")


CHARACTERS = 4
"""Approximate characters per token."""

_MIN_MEASURED_S = 1.0
"""Seconds measured before anything is shown."""


class ReplyPace:
    """The streaming speed of replies."""

    def __init__(self) -> None:
        self._began = 0.0
        self._first = 0
        self._last = 0

    def at(self, streamed: int, now: float) -> int:
        """Approximate tokens per second since the reply began; 0 while unknown. `streamed`: characters so far, fewer
        than before if another reply began."""
        if streamed < self._last or not self._last:
            self._began, self._first = now, streamed
        self._last = streamed
        elapsed = now - self._began
        return round((streamed - self._first) / CHARACTERS / elapsed) if elapsed >= _MIN_MEASURED_S else 0
