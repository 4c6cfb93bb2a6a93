"""Messages as a wire writes them down: each once, as a value and as bytes, and sent again as it was. Pure.

A request repeats the one before it. To write all of it down for each request would make a step dearer with every step
before it.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from ebbtide.agent.context.incremental import IncrementalFold
from ebbtide.agent.messages import Message

Place: TypeAlias = tuple[int, str, int]
"""A block: the item it is in, the name of the list there, and where in that list."""


BLOCK = 32
"""Items that are kept as one piece of JSON once more have followed."""


class Items(list[dict[str, Any]]):
    """What was said, as a request holds it, with its JSON: each piece is that of one item or of neighbouring ones."""

    def __init__(self, items: Iterable[dict[str, Any]] = (), pieces: Sequence[bytes] = ()) -> None:
        super().__init__(items)
        self.pieces = pieces


class EncodedMessages:
    """What the messages so far have become on a wire. An item that stands there is never changed, only replaced: a
    request that is under way holds it."""

    def __init__(self) -> None:
        self.ends: list[Place | None] = []
        """Of each part the newest block so far that may be marked for the cache."""
        self._items: list[dict[str, Any]] = []
        self._pieces: list[bytes] = []
        self._blocks: list[bytes] = []
        """The JSON of each `BLOCK` items, but for the newest."""

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
        """The JSON of all items in few pieces, with these in the place of what stands there."""
        while (len(self._blocks) + 1) * BLOCK < len(self._pieces):  # the last item may be replaced yet
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
    """Writes messages down for one wire, in their order."""

    sheet: EncodedMessages

    def add(self, message: Message) -> object: ...


W = TypeVar("W", bound=Writer)


class WrittenRequest(Generic[W]):
    """The sheet of a session, kept from request to request while what it depends on besides messages is the same."""

    def __init__(self, make: Callable[..., W]) -> None:
        self._make = make
        self._key: tuple[object, ...] | None = None
        self._growing: IncrementalFold[W, Message] | None = None

    def left_of(self, messages: tuple[Message, ...]) -> int:
        """How many of the messages are not written down yet, as far as nothing else has changed."""
        return self._growing.left_of(messages) if self._growing is not None else len(messages)

    def of(self, messages: tuple[Message, ...], *key: object) -> EncodedMessages:
        """The sheet with these messages. `key`: what else the writer is made of."""
        if self._growing is None or key != self._key:
            self._key, self._growing = key, IncrementalFold(lambda: self._make(*key), _with)
        return self._growing.of(messages).sheet


def _with(writer: W, message: Message) -> W:
    writer.add(message)
    return writer


def as_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def encode(body: Mapping[str, Any]) -> bytes:
    """The body as JSON, as `as_json` would give it. It may be large: its pieces are copied once."""
    pieces: list[bytes] = []
    for name, value in body.items():
        pieces += (b"," if pieces else b"{", as_json(name), b":")
        pieces += _as_list(value.pieces) if isinstance(value, Items) else (as_json(value),)
    return b"".join((*pieces, b"}")) if pieces else b"{}"


def _as_list(items: Sequence[bytes]) -> Sequence[bytes]:
    between = [b","] * max(2 * len(items) - 1, 0)
    between[::2] = items
    return (b"[", *between, b"]")
