"""How long a turn takes, and what is done in it. It is told views and the time, and reads no clock."""

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.view.blocks import Call, SessionView

_APART = 5.0
"""Seconds that a turn must have taken besides for both to be told."""

_MAX_SEARCHED_BLOCKS = 20
"""Blocks from the end among which the call is looked for that runs."""


@dataclass(frozen=True, slots=True)
class ElapsedSeconds:
    """Whole seconds."""

    part: int = 0
    """Of what is done now."""
    turn: int = 0
    """Of all that was done in the turn, where that is much more; the time in which the user is asked is none of it."""


class ElapsedTimer:
    """Counts while something is done, one turn after the other."""

    def __init__(self) -> None:
        self._at = 0.0
        self._part = self._turn = 0.0
        self._counts = False
        """Whether something has been done since it was told last."""
        self._doing: object = None

    def at(self, view: SessionView, now: float) -> ElapsedSeconds:
        """What has been counted up to now, when the view comes. To be told of every view in turn."""
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
    """What tells one thing that is done from the next: how far a call has been written is no other thing."""
    running = (b.call_id for b in view.turn[-_MAX_SEARCHED_BLOCKS:] if isinstance(b, Call) and b.status == "running")
    return view.hook_status or view.activity.partition(" (")[0], next(running, "")


CHARACTERS = 4
"""Of a token, about."""

_MIN_MEASURED_S = 1.0
"""Seconds that are looked at before anything is said."""


class ReplyPace:
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
        return round((streamed - self._first) / CHARACTERS / elapsed) if elapsed >= _MIN_MEASURED_S else 0
