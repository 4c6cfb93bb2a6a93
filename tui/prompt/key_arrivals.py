"""Decides by arrival time what a key is for."""

from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

GUARD = 0.3
"""Minimum seconds since the last key and since the question was painted, for a key to count as an answer."""

_ARRIVAL, _BEHIND_ESCAPE = "ebb_arrival", "ebb_behind_escape"

Purpose: TypeAlias = Literal["answer", "text", "ahead"]
"""`answer`: typed alone at the question. `text`: arrived with others, as in a paste; it may go to a field but
answers nothing. `ahead`: meant for the earlier screen."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """When and how a key arrived, not when it was processed."""

    at: float
    """Monotonic seconds at which its bytes were read."""
    read: int | None = None
    """The number of the read; None if not counted."""
    is_alone: bool = True
    """Whether the read contained nothing else."""


def purpose_of(key: Arrival, before: Arrival | None, meant: Purpose, painted: float | None, guard: float) -> Purpose:
    """The purpose of a key at a question. `before`: the previous key, and its purpose `meant`. `painted`: when the
    question was painted; None before that."""
    if guard <= 0:
        return "answer"
    if painted is None or key.at < painted + guard:
        return "ahead"
    if before is not None and meant != "answer" and key.at < before.at + guard:
        return meant
    is_same_read = before is not None and key.read is not None and key.read == before.read
    return "answer" if key.is_alone and not is_same_read else "text"


def stamp(event: object, arrival: Arrival) -> None:
    """Record the arrival on an event."""
    setattr(event, _ARRIVAL, arrival)


def arrival_of(event: object, made_at: float) -> Arrival:
    """The arrival of an event; if not recorded, its creation time."""
    arrival = getattr(event, _ARRIVAL, None)
    return arrival if isinstance(arrival, Arrival) else Arrival(made_at)


def note_escape(event: object, character: str) -> None:
    """Record that a key arrived as Esc and a character, as Alt does."""
    setattr(event, _BEHIND_ESCAPE, character)


def behind_escape(event: object) -> str:
    """The character of such a key; empty for any other."""
    character = getattr(event, _BEHIND_ESCAPE, "")
    return character if isinstance(character, str) else ""


class Arrivals:
    """The previous key and its purpose."""

    def __init__(self, guard: float) -> None:
        self.guard = guard
        self._before: Arrival | None = None
        self._meant: Purpose = "ahead"

    def saw(self, key: Arrival) -> None:
        """Record a key that came while no question was open."""
        self._before, self._meant = key, "ahead"

    def take(self, key: Arrival, painted: float | None) -> Purpose:
        """The purpose of a key at an open question."""
        purpose = self.would_be(key, painted)
        self._before, self._meant = key, purpose
        return purpose

    def would_be(self, pressed: Arrival, painted: float | None) -> Purpose:
        """The same for an event that is no key, e.g. a click, without recording it."""
        return purpose_of(pressed, self._before, self._meant, painted, self.guard)

    def mark_ignored(self) -> None:
        """The question did not know the last key: the user is typing text, so what follows at once is no answer
        either."""
        self._meant = "ahead"
