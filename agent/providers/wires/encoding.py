"""Encodes messages for an API, as JSON values and as bytes. Each message is encoded only once.

Each request repeats the previous one. If every request encoded all messages again, each step would be slower than the
one before.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from ebbtide.agent.messages import Message
from ebbtide.agent.tokens.incremental import IncrementalFold

BlockPosition: TypeAlias = tuple[int, str, int]
"""Position of a block: the index of its item, the name of a list in that item, and its index in the list."""


ITEMS_PER_PIECE = 32
"""Number of items per piece of joined JSON. Items are joined only when more items follow them."""


class EncodedItems(list[dict[str, Any]]):
    """The items of a request with their JSON. Each piece of JSON covers one item or several adjacent ones."""

    def __init__(self, items: Iterable[dict[str, Any]] = (), pieces: Sequence[bytes] = ()) -> None:
        super().__init__(items)
        self.pieces = pieces


class EncodedMessages:
    """The messages of a session as encoded for an API. Items are never modified, only replaced, because a request that
    is being sent may share them."""

    def __init__(self) -> None:
        self.markable_ends: list[BlockPosition | None] = []
        """For each part, the last block up to the part's end that may be marked for caching; None if there is no such
        block."""
        self._items: list[dict[str, Any]] = []
        self._pieces: list[bytes] = []
        self._joined_pieces: list[bytes] = []
        """JSON of the older items, `ITEMS_PER_PIECE` items per element."""

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last(self) -> Mapping[str, Any] | None:
        return self._items[-1] if self._items else None

    def add(self, items: Iterable[dict[str, Any]]) -> None:
        for item in items:
            self._items.append(item)
            self._pieces.append(compact_json(item))

    def replace_last(self, item: dict[str, Any]) -> None:
        self._items[-1], self._pieces[-1] = item, compact_json(item)

    def build_items(self, marked_parts: Sequence[int] = (), mark: Mapping[str, object] | None = None) -> EncodedItems:
        """Return all items, with `mark` on the last block of each part in `marked_parts`."""
        marked_items = EncodedItems(self._items)
        positions = {end for part in marked_parts if (end := self.markable_ends[part - 1]) is not None}
        for index, name, block_index in positions:
            blocks = list(marked_items[index][name])
            blocks[block_index] = {**blocks[block_index], **(mark or {})}
            marked_items[index] = {**marked_items[index], name: blocks}
        marked_items.pieces = self._all_pieces(
            {index: compact_json(marked_items[index]) for index in {position[0] for position in positions}}
        )
        return marked_items

    def _all_pieces(self, marked_json: Mapping[int, bytes]) -> Sequence[bytes]:
        """Return the JSON of all items in a few pieces, with the marked items replaced."""
        while (len(self._joined_pieces) + 1) * ITEMS_PER_PIECE < len(self._pieces):  # the last item may be replaced
            self._joined_pieces.append(self._join_piece(len(self._joined_pieces), {}))
        joined = [*self._joined_pieces, b""]
        for piece_index in {len(self._joined_pieces), *(index // ITEMS_PER_PIECE for index in marked_json)}:
            joined[piece_index] = self._join_piece(piece_index, marked_json)
        return joined if self._pieces else ()

    def _join_piece(self, piece_index: int, marked_json: Mapping[int, bytes]) -> bytes:
        start = piece_index * ITEMS_PER_PIECE
        pieces = self._pieces[start : start + ITEMS_PER_PIECE]
        return b",".join(marked_json.get(index, piece) for index, piece in enumerate(pieces, start))


class MessageEncoder(Protocol):
    """Encodes messages for one API, in order."""

    encoded_messages: EncodedMessages

    def add(self, message: Message) -> object: ...


W = TypeVar("W", bound=MessageEncoder)


class RequestEncodingCache(Generic[W]):
    """The encoded messages of a session. They are reused for the next request unless the encoder's other arguments
    change."""

    def __init__(self, create_encoder: Callable[..., W]) -> None:
        self._create_encoder = create_encoder
        self._encoder_arguments: tuple[object, ...] | None = None
        self._fold: IncrementalFold[W, Message] | None = None

    def unencoded_count(self, messages: tuple[Message, ...]) -> int:
        """Count the messages that are not encoded yet, assuming that the encoder's arguments stay the same."""
        return self._fold.unprocessed_count(messages) if self._fold is not None else len(messages)

    def encode(self, messages: tuple[Message, ...], *encoder_arguments: object) -> EncodedMessages:
        """Return the encoded messages. `encoder_arguments`: the encoder's other arguments."""
        if self._fold is None or encoder_arguments != self._encoder_arguments:
            self._encoder_arguments, self._fold = (
                encoder_arguments,
                IncrementalFold(lambda: self._create_encoder(*encoder_arguments), _add_message),
            )
        return self._fold.value_for(messages).encoded_messages


def _add_message(encoder: W, message: Message) -> W:
    encoder.add(message)
    return encoder


def compact_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Encode the body as JSON, with the same result as `compact_json`. A body may be large, so its pieces are copied
    only once."""
    pieces: list[bytes] = []
    for name, value in body.items():
        pieces += (b"," if pieces else b"{", compact_json(name), b":")
        pieces += _json_array(value.pieces) if isinstance(value, EncodedItems) else (compact_json(value),)
    return b"".join((*pieces, b"}")) if pieces else b"{}"


def _json_array(items: Sequence[bytes]) -> Sequence[bytes]:
    separated = [b","] * max(2 * len(items) - 1, 0)
    separated[::2] = items
    return (b"[", *separated, b"]")
