"""Converts messages to database rows and back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from functools import cache
from typing import Any, cast, get_args

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
from ebbtide.agent.records.codec import from_json, to_json
from ebbtide.agent.records.earlier_formats import (
    parse_elision,
    parse_new_problems,
    parse_program_state,
    with_parsed_kind,
    with_parsed_ranges,
)
from ebbtide.agent.view.previews import text_without_insertions
from ebbtide.agent.view.references import message_digits
from ebbtide.store.session_rows import MessageRow
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.outputs.new_problems import NEW_PROBLEMS
from ebbtide.tools.process.state import ProgramState


def encode_message(message: Message, position: int) -> MessageRow:
    body: dict[str, object] = {"parts": [encode_part(part) for part in message.parts]}
    if isinstance(message, Assistant):
        body["model"] = message.model
        if message.is_paused:
            body["paused"] = True
    role = "user" if isinstance(message, User) else "assistant"
    return MessageRow(position, role, to_json(body), ref=message_digits(message))


def decode_message(row: MessageRow) -> Message:
    """Return the message in a row. Raises `StoreFailed` if the row is not valid."""
    try:
        body = json.loads(row.body)
        parts = tuple([decode_part(part) for part in body["parts"]])
        part_types = _USER_PARTS if row.role == "user" else _ASSISTANT_PARTS
        for part in parts:
            if not isinstance(part, part_types):
                raise ValueError(f"it contains parts that {row.role} messages cannot have")
        if row.role == "user":
            return User(cast(tuple[UserPart, ...], parts))
        return Assistant(cast(tuple[AssistantPart, ...], parts), str(body["model"]), body.get("paused") is True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreFailed(f"message {row.position} of the session cannot be read: {error}", "corrupt") from error


_PART_TYPES: Mapping[str, type] = {
    "text": Text,
    "image": Image,
    "note": Note,
    "reasoning": Reasoning,
    "opaque": ProviderItem,
    "call": ToolCall,
    "output": ToolOutput,
}

_OMISSION_PHRASE = " bytes left out: "
"""A phrase that occurs in every note about omitted text."""

_PART_NAMES = {kind: name for name, kind in _PART_TYPES.items()}

_USER_PARTS: tuple[type, ...] = get_args(UserPart)

_ASSISTANT_PARTS: tuple[type, ...] = get_args(AssistantPart)


@cache
def _empty_text_fields(part_type: type) -> Mapping[str, str]:
    """Return the required text fields of a part type, each as an empty string. Empty fields are not stored."""
    return {field.name: "" for field in fields(part_type) if field.type is str and field.default is MISSING}


@cache
def _field_names(part_name: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(_PART_TYPES[part_name]))


def _plain_value(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_plain_value, value))
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def encode_part(part: UserPart | AssistantPart) -> dict[str, object]:
    # `asdict` is avoided because it copies deeply, and arguments may be large.
    pairs = ((name, getattr(part, name)) for name in _field_names(_PART_NAMES[type(part)]))
    encoded = {name: _plain_value(value) for name, value in pairs if value not in (None, "", (), 0)}
    # If the text seems to describe the value, store the field even if it is null. Records of earlier versions lack the
    # field, so a missing field means that the text must be parsed.
    if isinstance(part, Note | Text) and _OMISSION_PHRASE in part.text:
        encoded["gap"] = part.gap and asdict(part.gap)
    if isinstance(part, ToolOutput):
        if part.program or _parse_described_program(part):
            encoded["program"] = part.program and _encode_program(part.program)
        if part.is_part:
            encoded["inserted"] = part.inserted
        if NEW_PROBLEMS in part.text:
            encoded["problems"] = part.problems and asdict(part.problems)
        if part.images:
            encoded["images"] = [_encode_image(image) for image in part.images]
    return {"type": _PART_NAMES[type(part)], **encoded}


def _parse_described_program(output: ToolOutput, exit_text: str = "") -> ProgramState | None:
    """Parse the program state that an output's text describes. None if the text describes no program."""
    return parse_program_state(exit_text, text_without_insertions(output.text, output.inserted))


def _encode_program(program: ProgramState) -> dict[str, object]:
    return {name: value for name, value in asdict(program).items() if value not in (None, "") and value is not False}


def _encode_image(image: Image) -> dict[str, str]:
    """Return the image as stored in the row; its bytes are included only if they are stored nowhere else."""
    location = {"digest": image.digest} if image.digest else {"data": image.data}
    return {"media_type": image.media_type, **location}


def decode_part(part: Mapping[str, Any]) -> UserPart | AssistantPart:
    part_type = _PART_TYPES[part["type"]]
    part_fields = {**_empty_text_fields(part_type), **part}
    del part_fields["type"]
    if "images" in part_fields:
        part_fields["images"] = [{"data": "", **image} for image in part_fields["images"]]
    exit_text = part_fields.pop("ending", "")
    decoded = from_json(part_type, part_fields)
    if isinstance(decoded, ToolOutput) and decoded.is_part and "inserted" not in part_fields:
        decoded = with_parsed_ranges(decoded)
    if isinstance(decoded, ToolOutput) and "program" not in part_fields:
        decoded = replace(decoded, program=_parse_described_program(decoded, exit_text))
    if isinstance(decoded, ToolOutput) and "problems" not in part_fields and NEW_PROBLEMS in decoded.text:
        decoded = replace(decoded, problems=parse_new_problems(decoded.text))
    if isinstance(decoded, Note) and "kind" not in part_fields:
        decoded = with_parsed_kind(decoded)
    if isinstance(decoded, Note | Text) and _OMISSION_PHRASE in decoded.text and "gap" not in part_fields:
        decoded = replace(decoded, gap=parse_elision(decoded.text))
    return cast(UserPart | AssistantPart, decoded)


def describe_messages(rows: Sequence[MessageRow]) -> str:
    """Describe the contents of the messages, for the user."""
    descriptions = [
        "the model's last reply"
        if row.role == "assistant"
        else "the outputs of the last calls"
        if '"type":"output"' in row.body
        else "your last message"
        for row in rows
    ]
    return " and ".join(dict.fromkeys(descriptions))


def session_title(text: str) -> str:
    """Return the session's title: the first line of the user's message, at most 80 characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    first_line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return ellipsize(first_line, 80)
