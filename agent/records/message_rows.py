"""Messages as rows, and back."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from functools import cache
from typing import Any, cast, get_args

from agent.context.references import message_digits
from agent.errors import StoreFailed
from agent.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    Note,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    User,
    UserPart,
)
from agent.records.codec import from_json
from agent.records.earlier_words import note_of_words, output_parted
from store.sessions import MessageRow


def encode_message(message: Message, position: int) -> MessageRow:
    body: dict[str, object] = {"parts": [encode_part(part) for part in message.parts]}
    if isinstance(message, Assistant):
        body["model"] = message.model
        if message.is_paused:
            body["paused"] = True
    role = "user" if isinstance(message, User) else "assistant"
    return MessageRow(position, role, as_json(body), ref=message_digits(message))


def decode_message(row: MessageRow) -> Message:
    """The message in a row. Raises `StoreFailed` when the row is not one."""
    try:
        body = json.loads(row.body)
        parts = tuple([decode_part(part) for part in body["parts"]])
        kinds = _USER_PARTS if row.role == "user" else _ASSISTANT_PARTS
        for part in parts:
            if not isinstance(part, kinds):
                raise ValueError(f"it holds parts that {row.role} messages do not have")
        if row.role == "user":
            return User(cast(tuple[UserPart, ...], parts))
        return Assistant(cast(tuple[AssistantPart, ...], parts), str(body["model"]), body.get("paused") is True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreFailed(f"message {row.position} of the session cannot be read: {error}", "corrupt") from error


_PARTS: Mapping[str, type] = {
    "text": Text,
    "image": Image,
    "note": Note,
    "reasoning": Reasoning,
    "opaque": Opaque,
    "call": ToolCall,
    "output": ToolOutput,
}

_KINDS = {kind: name for name, kind in _PARTS.items()}

_USER_PARTS: tuple[type, ...] = get_args(UserPart)

_ASSISTANT_PARTS: tuple[type, ...] = get_args(AssistantPart)


@cache
def _empty(kind: type) -> Mapping[str, str]:
    """The texts that every part of a kind has; an empty one is not written down."""
    return {one.name: "" for one in fields(kind) if one.type is str and one.default is MISSING}


def encode_part(part: UserPart | AssistantPart) -> dict[str, object]:
    written = {name: value for name, value in asdict(part).items() if value not in (None, "", (), 0)}
    if isinstance(part, ToolOutput) and part.images:
        written["images"] = [_encode_image(image) for image in part.images]
    if isinstance(part, ToolOutput) and part.is_part:
        written["inserted"] = part.inserted  # also none: records of earlier versions are without it
    return {"type": _KINDS[type(part)], **written}


def _encode_image(image: Image) -> dict[str, str]:
    """Only a picture that is kept nowhere else stands in the row."""
    where = {"digest": image.digest} if image.digest else {"data": image.data}
    return {"media_type": image.media_type, **where}


def decode_part(part: Mapping[str, Any]) -> UserPart | AssistantPart:
    kind = _PARTS[part["type"]]
    found = {**_empty(kind), **part}
    del found["type"]
    if "images" in found:
        found["images"] = [{"data": "", **image} for image in found["images"]]
    read = from_json(kind, found)
    if isinstance(read, ToolOutput) and read.is_part and "inserted" not in found:
        read = output_parted(read)
    if isinstance(read, Note) and "kind" not in found:
        read = note_of_words(read)
    return cast(UserPart | AssistantPart, read)


def as_json(body: Mapping[str, object]) -> str:
    """JSON that a database takes: half a surrogate pair, as in an undecodable file name, is written as an escape."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":"))
    return text
