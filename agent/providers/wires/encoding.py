"""Encodes messages for a wire, each once, as a value and as bytes. Pure.

A request repeats the previous one. Encoding everything for each request would make each step slower than the one
before it."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from ebbtide.agent.context.incremental import IncrementalFold
from ebbtide.agent.messages import Message

Place: TypeAlias = tuple[int, str, int]
"""A block: its item's index, the name of the list in the item, and its index in that list."""


BLOCK = 32
"""Items that are joined into one piece of JSON once more items follow."""


class Items(list[dict[str, Any]]):
    """The items of a request with their JSON: each piece covers one item or several adjacent ones."""

    def __init__(self, items: Iterable[dict[str, Any]] = (), pieces: Sequence[bytes] = ()) -> None:
        super().__init__(items)
        self.pieces = pieces


class EncodedMessages:
    """The messages encoded so far for a wire. Items are never modified, only replaced, since a request in flight may
    share them."""

    def __init__(self) -> None:
        self.ends: list[Place | None] = []
        """For each part, the newest block so far that may be marked for the cache."""
        self._items: list[dict[str, Any]] = []
        self._pieces: list[bytes] = []
        self._blocks: list[bytes] = []
        """The JSON of each `BLOCK` items, except for the newest."""

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last(self) -> Mapping[str, Any] | None:
        return self._items[-1] if self._items else None

    def add(self, items: Iterable[dict[str, Any]]) -> None:
        for item in items:
            self._items.append(item)
            self._pieces.append(as_json(item))

    def replace_last(self, item: dict[str, Any]) -> None:
        self._items[-1], self._pieces[-1] = item, as_json(item)

    def items(self, marks: Sequence[int] = (), mark: Mapping[str, object] | None = None) -> Items:
        """All items, with these parts marked."""
        found = Items(self._items)
        places = {end for part in marks if (end := self.ends[part - 1]) is not None}
        for index, name, number in places:
            blocks = list(found[index][name])
            blocks[number] = {**blocks[number], **(mark or {})}
            found[index] = {**found[index], name: blocks}
        found.pieces = self._joined_blocks({index: as_json(found[index]) for index in {place[0] for place in places}})
        return found

    def _joined_blocks(self, marked: Mapping[int, bytes]) -> Sequence[bytes]:
        """The JSON of all items in few pieces, with the marked items replaced."""
        while (len(self._blocks) + 1) * BLOCK < len(self._pieces):  # the last item may still be replaced
            self._blocks.append(self._block(len(self._blocks), {}))
        joined = [*self._blocks, b""]
        for number in {len(self._blocks), *(index // BLOCK for index in marked)}:
            joined[number] = self._block(number, marked)
        return joined if self._pieces else ()

    def _block(self, number: int, marked: Mapping[int, bytes]) -> bytes:
        start = number * BLOCK
        pieces = self._pieces[start : start + BLOCK]
        return b",".join(marked.get(index, piece) for index, piece in enumerate(pieces, start))


class Writer(Protocol):
    """Encodes messages for one wire, in order."""

    sheet: EncodedMessages

    def add(self, message: Message) -> object: ...


W = TypeVar("W", bound=Writer)


class WrittenRequest(Generic[W]):
    """The encoded messages of a session, reused between requests while everything else they depend on is unchanged."""

    def __init__(self, make: Callable[..., W]) -> None:
        self._make = make
        self._key: tuple[object, ...] | None = None
        self._growing: IncrementalFold[W, Message] | None = None

    def left_of(self, messages: tuple[Message, ...]) -> int:
        """How many of the messages are not encoded yet, if nothing else has changed."""
        return self._growing.left_of(messages) if self._growing is not None else len(messages)

    def of(self, messages: tuple[Message, ...], *key: object) -> EncodedMessages:
        """The encoded messages. `key`: the other arguments of the writer."""
        if self._growing is None or key != self._key:
            self._key, self._growing = key, IncrementalFold(lambda: self._make(*key), _with)
        return self._growing.of(messages).sheet


def _with(writer: W, message: Message) -> W:
    writer.add(message)
    return writer


def as_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def encode(body: Mapping[str, Any]) -> bytes:
    """The body as JSON, equal to `as_json`. It may be large, so its pieces are copied only once."""
    pieces: list[bytes] = []
    for name, value in body.items():
        pieces += (b"," if pieces else b"{", as_json(name), b":")
        pieces += _as_list(value.pieces) if isinstance(value, Items) else (as_json(value),)
    return b"".join((*pieces, b"}")) if pieces else b"{}"


def _as_list(items: Sequence[bytes]) -> Sequence[bytes]:
    between = [b","] * max(2 * len(items) - 1, 0)
    between[::2] = items
    return (b"[", *between, b"]")
