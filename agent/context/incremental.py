"""What is derived from the messages of a session, once for each message and not once for each request. Pure.

A conversation grows at its end. What was made of its beginning stays true as long as that beginning is the same
objects; a rewrite makes other ones, and everything is derived anew then.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import is_
from typing import Generic, TypeVar

from agent.messages import Extended

T = TypeVar("T")
M = TypeVar("M")


def begins(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    """Whether `now` is `before` and more, the very same objects. Equal ones may be sent as other bytes."""
    if before is now or len(before) > len(now):
        return before is now
    if isinstance(before, Extended) and isinstance(now, Extended) and before.log is now.log:
        return True
    return all(map(is_, before, now))


@dataclass(slots=True)
class Growing(Generic[T, M]):
    """A value that each message adds to, or each of whatever is made of messages."""

    start: Callable[[], T]
    add: Callable[[T, M], T]
    """The value with one more message; it may change the value that it is given."""
    _seen: tuple[M, ...] = ()
    _value: T | None = field(default=None)

    def of(self, messages: tuple[M, ...]) -> T:
        """The value for these messages."""
        if self._value is None or not begins(self._seen, messages):
            self._seen, self._value = (), self.start()
        value = self._value
        for message in messages[len(self._seen) :]:
            value = self.add(value, message)
        self._seen, self._value = messages, value
        return value
