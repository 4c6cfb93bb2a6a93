"""Decides from a key's arrival time whether it answers a question."""

from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

ANSWER_GUARD_S = 0.3
"""Seconds that must pass after the previous key, and after the question was painted, before a key counts as an answer.
"""

_ARRIVAL, _ALT_CHARACTER = "ebb_arrival", "ebb_behind_escape"

KeyPurpose: TypeAlias = Literal["answer", "text", "ahead"]
"""`answer`: typed on its own at the question. `text`: arrived together with other input, as in a paste; it may go into
a text field but does not answer the question. `ahead`: typed before the question appeared."""


@dataclass(frozen=True, slots=True)
class KeyArrival:
    """When and how a key arrived, which may be long before it is processed."""

    time: float
    """Monotonic seconds at which its bytes were read."""
    read_number: int | None = None
    """Sequence number of the read from the terminal; None if reads are not counted."""
    is_alone: bool = True
    """Whether the read contained nothing else."""


def key_purpose(
    key: KeyArrival, previous: KeyArrival | None, previous_purpose: KeyPurpose, painted_at: float | None, guard: float
) -> KeyPurpose:
    """Return the purpose of a key at a question. `previous` and `previous_purpose`: the previous key and its purpose.
    `painted_at`: when the question was painted; None before that."""
    if guard <= 0:
        return "answer"
    if painted_at is None or key.time < painted_at + guard:
        return "ahead"
    if previous is not None and previous_purpose != "answer" and key.time < previous.time + guard:
        return previous_purpose
    is_same_read = previous is not None and key.read_number is not None and key.read_number == previous.read_number
    return "answer" if key.is_alone and not is_same_read else "text"


def record_arrival(event: object, arrival: KeyArrival) -> None:
    """Record the arrival on an event."""
    setattr(event, _ARRIVAL, arrival)


def arrival_of(event: object, created_at: float) -> KeyArrival:
    """Return the arrival of an event; if it was not recorded, the event's creation time."""
    arrival = getattr(event, _ARRIVAL, None)
    return arrival if isinstance(arrival, KeyArrival) else KeyArrival(created_at)


def record_alt_character(event: object, character: str) -> None:
    """Record that a key arrived as Esc followed by a character, which is how terminals send Alt."""
    setattr(event, _ALT_CHARACTER, character)


def alt_character(event: object) -> str:
    """Return the character that followed Esc; empty if no character was recorded."""
    character = getattr(event, _ALT_CHARACTER, "")
    return character if isinstance(character, str) else ""


class KeyArrivals:
    """Tracks the previous key and its purpose."""

    def __init__(self, guard: float) -> None:
        self.guard = guard
        self._previous: KeyArrival | None = None
        self._previous_purpose: KeyPurpose = "ahead"

    def record_key(self, key: KeyArrival) -> None:
        """Record a key that arrived while no question was open."""
        self._previous = key
        self._previous_purpose = "ahead"

    def record_answer_key(self, key: KeyArrival, painted_at: float | None) -> KeyPurpose:
        """Record a key at an open question and return its purpose."""
        purpose = self.purpose_if_pressed(key, painted_at)
        self._previous, self._previous_purpose = key, purpose
        return purpose

    def purpose_if_pressed(self, pressed: KeyArrival, painted_at: float | None) -> KeyPurpose:
        """Return the purpose that `take` would return, without recording anything: for events that are not
        keys, such as clicks."""
        return key_purpose(pressed, self._previous, self._previous_purpose, painted_at, self.guard)

    def mark_ignored(self) -> None:
        """Record that the last key has no meaning for the question: the user is typing text, so keys that follow at
        once are not answers either."""
        self._previous_purpose = "ahead"
