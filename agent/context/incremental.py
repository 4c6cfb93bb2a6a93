"""What is derived from the messages of a session, once for each message and not once for each request. Pure.

A conversation grows at its end. What was made of its beginning stays true as long as that beginning is the same
objects; a rewrite makes other ones, and everything is derived anew then, but for what single messages take: most of
them are the same objects still.
"""

from collections.abc import Callable, Hashable
from dataclasses import field
from functools import wraps
from operator import is_
from typing import Any, Generic, TypeVar
from weakref import ref

from ebbtide.agent.messages import SharedTuple
from ebbtide.tools.lazy import dataclass

T = TypeVar("T")
M = TypeVar("M")
V = TypeVar("V", bound=Callable[..., Any])


def is_prefix(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    """Whether `now` is `before` and more, the very same objects. Equal ones may be sent as other bytes."""
    if before is now or len(before) > len(now):
        return before is now
    if isinstance(before, SharedTuple) and isinstance(now, SharedTuple) and before.log is now.log:
        return True
    return all(map(is_, before, now))


@dataclass(slots=True)
class IncrementalFold(Generic[T, M]):
    """A value that each message adds to, or each of whatever is made of messages."""

    start: Callable[[], T]
    add: Callable[[T, M], T]
    """The value with one more message; it may change the value that it is given."""
    seen: tuple[M, ...] = ()
    """The messages whose value was asked for last."""
    _value: T | None = field(default=None)

    def left_of(self, messages: tuple[M, ...]) -> int:
        """How many of these messages have to be added for their value."""
        return len(messages) - (len(self.seen) if is_prefix(self.seen, messages) else 0)

    def of(self, messages: tuple[M, ...]) -> T:
        """The value for these messages."""
        if self._value is None or not is_prefix(self.seen, messages):
            self.seen, self._value = (), self.start()
        value = self._value
        for message in messages[len(self.seen) :]:
            value = self.add(value, message)
        self.seen, self._value = messages, value
        return value


class _Living(ref[Any]):
    """A value as long as it lives, with what was derived from it."""

    __slots__ = ("made", "place", "where")
    made: object
    where: "dict[int, _Living]"
    place: int


def memoized(derive: V) -> V:
    """The function, whose first argument is asked about once for the same other ones, as long as it lives. It is known
    by identity: to compare it would take as long as to look at all of it. May be called from any thread."""
    known: dict[tuple[Hashable, ...], dict[int, _Living]] = {}

    @wraps(derive)
    def of(value: object, *more: Hashable) -> object:
        where = known.get(more) or known.setdefault(more, {})
        found = where.get(id(value))
        if found is None or found() is not value:
            made = derive(value, *more)
            where[id(value)] = found = _Living(value, _forget)
            found.made, found.where, found.place = made, where, id(value)
        return found.made

    return of  # type: ignore[return-value]  # the same arguments, the same value


def _forget(gone: "ref[Any]") -> None:
    assert isinstance(gone, _Living)
    gone.where.pop(gone.place, None)
