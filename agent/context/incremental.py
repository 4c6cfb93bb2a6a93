"""Values derived from a session's messages, computed once per message instead of once per request. Pure.

A conversation grows at its end. A value derived from its beginning stays valid as long as that beginning consists of
the same objects. A rewrite creates other objects, so the value is derived again; per-message values survive, because
most messages are still the same objects.
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
    """Whether `now` begins with the very same objects as `before`. Equal ones may be sent as other bytes."""
    if before is now or len(before) > len(now):
        return before is now
    if isinstance(before, SharedTuple) and isinstance(now, SharedTuple) and before.log is now.log:
        return True
    return all(map(is_, before, now))


@dataclass(slots=True)
class IncrementalFold(Generic[T, M]):
    """A value accumulated over messages, or over objects made from messages."""

    start: Callable[[], T]
    add: Callable[[T, M], T]
    """Return the value with one more message; may modify its argument."""
    seen: tuple[M, ...] = ()
    """The messages of the last value."""
    _value: T | None = field(default=None)

    def left_of(self, messages: tuple[M, ...]) -> int:
        """Number of messages that would have to be added to get their value."""
        return len(messages) - (len(self.seen) if is_prefix(self.seen, messages) else 0)

    def of(self, messages: tuple[M, ...]) -> T:
        """Return the value for these messages."""
        if self._value is None or not is_prefix(self.seen, messages):
            self.seen, self._value = (), self.start()
        value = self._value
        for message in messages[len(self.seen) :]:
            value = self.add(value, message)
        self.seen, self._value = messages, value
        return value


class _Living(ref[Any]):
    """A weak reference to a value, with what was derived from it."""

    __slots__ = ("made", "place", "where")
    made: object
    where: "dict[int, _Living]"
    place: int


def memoized(derive: V) -> V:
    """Cache a function by the identity of its first argument and the values of the others, for as long as the first
    argument lives. Comparing by value would take as long as computing. Thread-safe."""
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
