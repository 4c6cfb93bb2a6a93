"""Values derived from a session's messages, computed once per message instead of once per request.

A conversation grows at its end, so a value derived from its first messages stays valid as long as they are the same
objects. After a rewrite, some objects differ, and the value is derived again. Values cached per message are reused,
because most messages are still the same objects.
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


def is_prefix(prefix: tuple[object, ...], objects: tuple[object, ...]) -> bool:
    """Whether `objects` begins with the same objects as `prefix`. Equality is not enough: equal objects may be sent as
    different bytes."""
    if prefix is objects or len(prefix) > len(objects):
        return prefix is objects
    if isinstance(prefix, SharedTuple) and isinstance(objects, SharedTuple) and prefix.log is objects.log:
        return True
    return all(map(is_, prefix, objects))


@dataclass(slots=True)
class IncrementalFold(Generic[T, M]):
    """A value accumulated over messages, or over objects derived from messages."""

    create_initial: Callable[[], T]
    add: Callable[[T, M], T]
    """Returns the value with one more message added; may modify its argument."""
    processed_messages: tuple[M, ...] = ()
    """The messages from which the last value was computed."""
    _value: T | None = field(default=None)

    def unprocessed_count(self, messages: tuple[M, ...]) -> int:
        """Return how many messages must still be added to get the value for `messages`."""
        return len(messages) - (len(self.processed_messages) if is_prefix(self.processed_messages, messages) else 0)

    def value_for(self, messages: tuple[M, ...]) -> T:
        """Return the value for these messages, adding only the new ones if possible."""
        if self._value is None or not is_prefix(self.processed_messages, messages):
            self.processed_messages, self._value = (), self.create_initial()
        value = self._value
        for message in messages[len(self.processed_messages) :]:
            value = self.add(value, message)
        self.processed_messages, self._value = messages, value
        return value


class _CacheEntry(ref[Any]):
    """A weak reference to an object, with the value derived from it."""

    __slots__ = ("cache", "key", "result")
    result: object
    cache: "dict[int, _CacheEntry]"
    key: int


def memoized(derive: V) -> V:
    """Cache a function's results for as long as its first argument exists. That argument is compared by identity,
    because comparing its value would take as long as computing the result. The other arguments are compared by value.
    Thread-safe."""
    caches: dict[tuple[Hashable, ...], dict[int, _CacheEntry]] = {}

    @wraps(derive)
    def derive_cached(first_argument: object, *other_arguments: Hashable) -> object:
        cache = caches.get(other_arguments) or caches.setdefault(other_arguments, {})
        entry = cache.get(id(first_argument))
        if entry is None or entry() is not first_argument:
            result = derive(first_argument, *other_arguments)
            cache[id(first_argument)] = entry = _CacheEntry(first_argument, _remove_entry)
            entry.result, entry.cache, entry.key = result, cache, id(first_argument)
        return entry.result

    return derive_cached  # type: ignore[return-value]  # it has the signature of `derive`


def _remove_entry(entry: "ref[Any]") -> None:
    assert isinstance(entry, _CacheEntry)
    entry.cache.pop(entry.key, None)
