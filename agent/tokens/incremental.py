"""Values derived from a session's messages, computed once per message instead of once per request. Pure.

A conversation grows at its end, so a value derived from its first messages stays valid as long as these are the same
objects. After a rewrite, some objects differ, and the value is derived again. Values per message are reused, because
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
    """Whether `now` begins with the same objects as `before`. Equality is not enough: equal objects may be sent as
    different bytes."""
    if before is now or len(before) > len(now):
        return before is now
    if isinstance(before, SharedTuple) and isinstance(now, SharedTuple) and before.log is now.log:
        return True
    return all(map(is_, before, now))


@dataclass(slots=True)
class IncrementalFold(Generic[T, M]):
    """A value accumulated over messages, or over objects derived from messages."""

    start: Callable[[], T]
    add: Callable[[T, M], T]
    """Returns the value with one more message added; may modify its argument."""
    seen: tuple[M, ...] = ()
    """The messages from which the last value was computed."""
    _value: T | None = field(default=None)

    def unprocessed_count(self, messages: tuple[M, ...]) -> int:
        """Return how many messages must still be added to get the value for `messages`."""
        return len(messages) - (len(self.seen) if is_prefix(self.seen, messages) else 0)

    def value_for(self, messages: tuple[M, ...]) -> T:
        """Return the value for these messages, adding only the new ones if possible."""
        if self._value is None or not is_prefix(self.seen, messages):
            self.seen, self._value = (), self.start()
        value = self._value
        for message in messages[len(self.seen) :]:
            value = self.add(value, message)
        self.seen, self._value = messages, value
        return value


class _CacheEntry(ref[Any]):
    """A weak reference to an object, with the value derived from it."""

    __slots__ = ("made", "place", "where")
    made: object
    where: "dict[int, _CacheEntry]"
    place: int


def memoized(derive: V) -> V:
    """Cache the results of a function for as long as its first argument lives. That argument is compared by identity,
    because comparing its value would take as long as the computation. The other arguments are compared by value.
    Thread-safe."""
    caches: dict[tuple[Hashable, ...], dict[int, _CacheEntry]] = {}

    @wraps(derive)
    def derive_cached(value: object, *more: Hashable) -> object:
        where = caches.get(more) or caches.setdefault(more, {})
        found = where.get(id(value))
        if found is None or found() is not value:
            made = derive(value, *more)
            where[id(value)] = found = _CacheEntry(value, _remove_entry)
            found.made, found.where, found.place = made, where, id(value)
        return found.made

    return derive_cached  # type: ignore[return-value]  # the same arguments, the same value


def _remove_entry(entry: "ref[Any]") -> None:
    assert isinstance(entry, _CacheEntry)
    entry.where.pop(entry.place, None)
