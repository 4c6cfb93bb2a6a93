"""What a key is for, by when its bytes arrived."""

from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

GUARD = 0.3
"""Seconds without a key, and behind the painting of a question, before a key counts as an answer."""

_ARRIVAL, _BEHIND_ESCAPE = "ebb_arrival", "ebb_behind_escape"

Purpose: TypeAlias = Literal["answer", "text", "ahead"]
"""`answer`: typed by itself at the question. `text`: it came with others, as what is pasted does; a field may take it,
and it answers nothing. `ahead`: meant for what was on the screen before."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a key came: not when somebody had time for it."""

    at: float
    """Monotonic seconds at which its bytes were read."""
    read: int | None = None
    """The number of the read that brought it; None where nobody counts them."""
    is_alone: bool = True
    """That read brought nothing else that was pressed or pasted."""


def purpose_of(key: Arrival, before: Arrival | None, meant: Purpose, painted: float | None, guard: float) -> Purpose:
    """What a key is for at a question. `before`: the key before it, and what that was for (`meant`). `painted`: when
    the question was on the screen; None as long as it is not."""
    if guard <= 0:
        return "answer"
    if painted is None or key.at < painted + guard:
        return "ahead"
    if before is not None and meant != "answer" and key.at < before.at + guard:
        return meant
    is_same_read = before is not None and key.read is not None and key.read == before.read
    return "answer" if key.is_alone and not is_same_read else "text"


def stamp(event: object, arrival: Arrival) -> None:
    """Writes on an event how it came."""
    setattr(event, _ARRIVAL, arrival)


def arrival_of(event: object, made_at: float) -> Arrival:
    """How an event came; where nobody has written that down, it came when it was made."""
    arrival = getattr(event, _ARRIVAL, None)
    return arrival if isinstance(arrival, Arrival) else Arrival(made_at)


def note_escape(event: object, character: str) -> None:
    """Writes on a key that it came as Esc and a character right behind it, as Alt does."""
    setattr(event, _BEHIND_ESCAPE, character)


def behind_escape(event: object) -> str:
    """The character of a key that came so; empty for any other."""
    character = getattr(event, _BEHIND_ESCAPE, "")
    return character if isinstance(character, str) else ""


class Arrivals:
    """The key before the next one, and what it was for."""

    def __init__(self, guard: float) -> None:
        self.guard = guard
        self._before: Arrival | None = None
        self._meant: Purpose = "ahead"

    def saw(self, key: Arrival) -> None:
        """A key came while nothing was asked."""
        self._before, self._meant = key, "ahead"

    def take(self, key: Arrival, painted: float | None) -> Purpose:
        """What a key is for that came while something was asked."""
        purpose = self.would_be(key, painted)
        self._before, self._meant = key, purpose
        return purpose

    def would_be(self, pressed: Arrival, painted: float | None) -> Purpose:
        """The same of what is no key, as a click, and says nothing of the next key."""
        return purpose_of(pressed, self._before, self._meant, painted, self.guard)

    def mark_ignored(self) -> None:
        """The question does not know the key that came last: somebody writes, and what follows at once answers nothing
        either."""
        self._meant = "ahead"
