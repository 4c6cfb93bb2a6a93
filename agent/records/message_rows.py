"""Messages as rows, and back."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, cast, get_args

from agent.context.references import message_digits
from agent.errors import StoreFailed
from agent.messages import (
    Assistant,
    AssistantPart,
    Form,
    Image,
    Message,
    Note,
    Opaque,
    Reasoning,
    Stored,
    Text,
    ToolCall,
    ToolOutput,
    User,
    UserPart,
)
from store.sessions import MessageRow
from tools.extent import Extent, Unit

FORMS: tuple[Form, ...] = get_args(Form)

UNITS: tuple[Unit, ...] = get_args(Unit)


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


_PARTS: dict[str, type[Text | Image | Note | Reasoning | Opaque | ToolCall | ToolOutput]] = {
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

_FIELDS: Mapping[str, type] = {
    **dict.fromkeys(
        (
            *("text", "media_type", "data", "id", "name", "source", "problem", "call_id", "status", "whole"),
            *("ending", "frame"),
        ),
        str,
    ),
    **dict.fromkeys(("native", "arguments", "edited"), dict),
}
"""Of what type the fields of parts are, where they are there."""

_TEXTS: Mapping[type, tuple[str, ...]] = {
    Text: ("text",),
    Image: ("media_type", "data"),
    Note: ("text",),
    Reasoning: ("text",),
    ToolCall: ("id", "name"),
    ToolOutput: ("call_id", "text"),
}
"""The fields that every part of a kind has; an empty one is not written down."""

_EMPTY: Mapping[type, Mapping[str, str]] = {kind: dict.fromkeys(_TEXTS.get(kind, ()), "") for kind in _PARTS.values()}


def encode_part(part: UserPart | AssistantPart) -> dict[str, object]:
    fields = {name: value for name, value in asdict(part).items() if value not in (None, "", ())}
    if isinstance(part, ToolOutput) and part.images:
        fields["images"] = [_encode_image(image) for image in part.images]
    return {"type": _KINDS[type(part)], **fields}


def _encode_image(image: Image) -> dict[str, str]:
    """Only a picture that is kept nowhere else stands in the row."""
    where = {"digest": image.digest} if image.digest else {"data": image.data}
    return {"media_type": image.media_type, **where}


def _decode_image(fields: Mapping[str, Any]) -> Image:
    image = Image(fields["media_type"], fields.get("data", ""), fields.get("digest", ""))
    if not all(isinstance(value, str) for value in (image.media_type, image.data, image.digest)):
        raise ValueError("a picture holds what it cannot")
    return image


def _decode_stored(fields: Mapping[str, Any]) -> Stored:
    stored = Stored(**fields)
    if not (isinstance(stored.digest, str) and isinstance(stored.media_type, str)):
        raise ValueError("kept bytes have no name")
    return replace(stored, size=count(stored.size), lines=count(stored.lines))


def _decode_extent(fields: Mapping[str, Any]) -> Extent:
    unit = next((known for known in UNITS if known == fields["unit"]), None)
    if unit is None:
        raise ValueError(f"{fields['unit']!r} is no unit")
    total = fields.get("total")
    return Extent(unit, count(fields["shown"]), None if total is None else count(total), count(fields.get("first", 1)))


def decode_part(part: Mapping[str, Any]) -> UserPart | AssistantPart:
    kind = _PARTS[part["type"]]
    fields = {**_EMPTY[kind], **part}
    del fields["type"]
    for name, value in fields.items():  # sessions have many parts: what is done for each of them is to be quick
        if name in _FIELDS and not isinstance(value, _FIELDS[name]):
            raise ValueError(f"a part of type {part['type']} holds what it cannot")
    if kind is ToolOutput:
        fields["images"] = tuple(_decode_image(image) for image in fields.get("images", ()))
        stored = fields.get("stored")
        fields["stored"] = _decode_stored(stored) if stored else None
        fields["pictures"] = tuple(_decode_stored(picture) for picture in fields.get("pictures", ()))
        fields["files"] = tuple(_decode_stored(file) for file in fields.get("files", ()))
        extent = fields.get("extent")
        fields["extent"] = _decode_extent(extent) if extent else None
    if kind is Opaque:
        fields["tools"] = tuple(str(name) for name in fields.get("tools", ()))
    return kind(**fields)


def as_json(body: Mapping[str, object]) -> str:
    """JSON that a database takes: half a surrogate pair, as in an undecodable file name, is written as an escape."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":"))
    return text


def count(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value
