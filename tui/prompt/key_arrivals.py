"""Decides whether a key answers a question, based on when the key arrived."""

from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

ANSWER_GUARD_S = 0.3
"""A key counts as an answer only if this many seconds have passed since the previous key and since the question was
painted."""

_ARRIVAL_ATTRIBUTE, _ALT_ATTRIBUTE = "ebb_arrival", "ebb_behind_escape"

KeyPurpose: TypeAlias = Literal["answer", "text", "typeahead"]
"""What a key is for. `answer`: typed on its own in response to the question. `text`: arrived together with other input,
as in a paste, so it may go into a text field but does not answer the question. `typeahead`: typed before the question
appeared."""


@dataclass(frozen=True, slots=True)
class KeyArrival:
    """When and how a key arrived. It may be processed much later."""

    time: float
    """When its bytes were read, in monotonic seconds."""
    read_number: int | None = None
    """Sequence number of the read from the terminal; None if reads are not counted."""
    is_alone: bool = True
    """Whether nothing else was read with it."""


def key_purpose(
    key: KeyArrival,
    previous_key: KeyArrival | None,
    previous_purpose: KeyPurpose,
    painted_at: float | None,
    guard_s: float,
) -> KeyPurpose:
    """Decide what a key pressed at a question is for. `previous_key` and `previous_purpose`: the previous key and what
    it was for. `painted_at`: when the question was painted; None if it was not painted yet."""
    if guard_s <= 0:
        return "answer"
    if painted_at is None or key.time < painted_at + guard_s:
        return "typeahead"
    if previous_key is not None and previous_purpose != "answer" and key.time < previous_key.time + guard_s:
        return previous_purpose
    is_same_read = (
        previous_key is not None and key.read_number is not None and key.read_number == previous_key.read_number
    )
    return "answer" if key.is_alone and not is_same_read else "text"


def record_arrival(event: object, arrival: KeyArrival) -> None:
    """Attach the arrival to an event."""
    setattr(event, _ARRIVAL_ATTRIBUTE, arrival)


def arrival_of(event: object, created_at: float) -> KeyArrival:
    """Get the arrival recorded for an event. If none was recorded, use the event's creation time."""
    arrival = getattr(event, _ARRIVAL_ATTRIBUTE, None)
    return arrival if isinstance(arrival, KeyArrival) else KeyArrival(created_at)


def record_alt_character(event: object, character: str) -> None:
    """Record that a key arrived as Esc followed by a character, as terminals send Alt."""
    setattr(event, _ALT_ATTRIBUTE, character)


def alt_character(event: object) -> str:
    """Get the character that followed Esc; empty if none was recorded."""
    character = getattr(event, _ALT_ATTRIBUTE, "")
    return character if isinstance(character, str) else ""


class KeyArrivals:
    """Tracks the previous key and what it was for."""

    def __init__(self, guard_s: float) -> None:
        self.guard = guard_s
        self._previous_key: KeyArrival | None = None
        self._previous_purpose: KeyPurpose = "typeahead"

    def record_key(self, key: KeyArrival) -> None:
        """Record a key that arrived when no question was open."""
        self._previous_key = key
        self._previous_purpose = "typeahead"

    def record_answer_key(self, key: KeyArrival, painted_at: float | None) -> KeyPurpose:
        """Record a key pressed while a question is open, and decide what it is for."""
        purpose = self.purpose_if_pressed(key, painted_at)
        self._previous_key, self._previous_purpose = key, purpose
        return purpose

    def purpose_if_pressed(self, arrival: KeyArrival, painted_at: float | None) -> KeyPurpose:
        """Decide what an event is for, without recording it. Used for events that are not keys, such as clicks."""
        return key_purpose(arrival, self._previous_key, self._previous_purpose, painted_at, self.guard)

    def mark_ignored(self) -> None:
        """Treat the last key as typeahead, because it has no effect in the question. The user is probably typing text,
        so keys that follow quickly are not answers either."""
        self._previous_purpose = "typeahead"
