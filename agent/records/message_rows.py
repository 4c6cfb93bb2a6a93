"""Converts messages to database rows and back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from functools import cache
from typing import Any, cast, get_args

from ebbtide.agent.context.offload import text_without_insertions
from ebbtide.agent.context.references import message_digits
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    Note,
    ProviderItem,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    User,
    UserPart,
)
from ebbtide.agent.records.codec import as_json, from_json
from ebbtide.agent.records.earlier_formats import (
    gap_of_words,
    note_of_words,
    output_parted,
    problems_of_words,
    program_of_words,
)
from ebbtide.store.session_rows import MessageRow
from ebbtide.tools.outputs.new_problems import NEW_PROBLEMS
from ebbtide.tools.process.state import ProgramState


def encode_message(message: Message, position: int) -> MessageRow:
    body: dict[str, object] = {"parts": [encode_part(part) for part in message.parts]}
    if isinstance(message, Assistant):
        body["model"] = message.model
        if message.is_paused:
            body["paused"] = True
    role = "user" if isinstance(message, User) else "assistant"
    return MessageRow(position, role, as_json(body), ref=message_digits(message))


def decode_message(row: MessageRow) -> Message:
    """Return the message in a row. Raises `StoreFailed` if the row is not valid."""
    try:
        body = json.loads(row.body)
        parts = tuple([decode_part(part) for part in body["parts"]])
        kinds = _USER_PARTS if row.role == "user" else _ASSISTANT_PARTS
        for part in parts:
            if not isinstance(part, kinds):
                raise ValueError(f"it contains parts that {row.role} messages cannot have")
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
    "opaque": ProviderItem,
    "call": ToolCall,
    "output": ToolOutput,
}

_GAP = " bytes left out: "
"""Part of every text that has a gap."""

_KINDS = {kind: name for name, kind in _PARTS.items()}

_USER_PARTS: tuple[type, ...] = get_args(UserPart)

_ASSISTANT_PARTS: tuple[type, ...] = get_args(AssistantPart)


@cache
def _empty(kind: type) -> Mapping[str, str]:
    """The text fields that all parts of a kind have; empty ones are not stored."""
    return {one.name: "" for one in fields(kind) if one.type is str and one.default is MISSING}


@cache
def _names(kind: str) -> tuple[str, ...]:
    return tuple(one.name for one in fields(_PARTS[kind]))


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def encode_part(part: UserPart | AssistantPart) -> dict[str, object]:
    # Not `asdict`, which copies deeply: arguments may be large.
    held = ((name, getattr(part, name)) for name in _names(_KINDS[type(part)]))
    written = {name: _plain(value) for name, value in held if value not in (None, "", (), 0)}
    # Also store "none" where the text could be parsed as a value: records of earlier versions lack the field.
    if isinstance(part, Note | Text) and _GAP in part.text:
        written["gap"] = part.gap and asdict(part.gap)
    if isinstance(part, ToolOutput):
        if part.program or _program_of(part):
            written["program"] = part.program and _encode_program(part.program)
        if part.is_part:
            written["inserted"] = part.inserted
        if NEW_PROBLEMS in part.text:
            written["problems"] = part.problems and asdict(part.problems)
        if part.images:
            written["images"] = [_encode_image(image) for image in part.images]
    return {"type": _KINDS[type(part)], **written}


def _program_of(output: ToolOutput, ending: str = "") -> ProgramState | None:
    """The program state that an output's text describes."""
    return program_of_words(ending, text_without_insertions(output.text, output.inserted))


def _encode_program(program: ProgramState) -> dict[str, object]:
    return {name: value for name, value in asdict(program).items() if value not in (None, "") and value is not False}


def _encode_image(image: Image) -> dict[str, str]:
    """The image as stored in the row: its bytes only if they are stored nowhere else."""
    where = {"digest": image.digest} if image.digest else {"data": image.data}
    return {"media_type": image.media_type, **where}


def decode_part(part: Mapping[str, Any]) -> UserPart | AssistantPart:
    kind = _PARTS[part["type"]]
    found = {**_empty(kind), **part}
    del found["type"]
    if "images" in found:
        found["images"] = [{"data": "", **image} for image in found["images"]]
    ending = found.pop("ending", "")
    read = from_json(kind, found)
    if isinstance(read, ToolOutput) and read.is_part and "inserted" not in found:
        read = output_parted(read)
    if isinstance(read, ToolOutput) and "program" not in found:
        read = replace(read, program=_program_of(read, ending))
    if isinstance(read, ToolOutput) and "problems" not in found and NEW_PROBLEMS in read.text:
        read = replace(read, problems=problems_of_words(read.text))
    if isinstance(read, Note) and "kind" not in found:
        read = note_of_words(read)
    if isinstance(read, Note | Text) and _GAP in read.text and "gap" not in found:
        read = replace(read, gap=gap_of_words(read.text))
    return cast(UserPart | AssistantPart, read)


def contents_of(rows: Sequence[MessageRow]) -> str:
    """What the messages contain, in words for the user."""
    told = [
        "the model's last reply"
        if row.role == "assistant"
        else "the outputs of the last calls"
        if '"type":"output"' in row.body
        else "your last message"
        for row in rows
    ]
    return " and ".join(dict.fromkeys(told))
