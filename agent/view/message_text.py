"""Text of messages, unique call ids, and messages that the user sends during a turn ("steering")."""

import itertools
import json
from collections.abc import Sequence, Set
from dataclasses import replace

from ebbtide.agent.messages import (
    Assistant,
    Image,
    Message,
    Note,
    ProviderItem,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    User,
)


def with_unique_ids(reply: Assistant, earlier_ids: Set[str]) -> Assistant:
    """Give new ids to calls whose id is already in `earlier_ids`. Some servers restart their numbering in each reply.
    State is stored by call id, so a later output with a reused id might be treated as masked."""
    if not any(call.id in earlier_ids for call in reply.calls):
        return reply
    used_ids = {*earlier_ids, *(call.id for call in reply.calls)}
    parts = [
        replace(part, id=_unused_id(part.id, used_ids))
        if isinstance(part, ToolCall) and part.id in earlier_ids
        else part
        for part in reply.parts
    ]
    return replace(reply, parts=tuple(parts))


def has_unique_ids(messages: Sequence[Message]) -> bool:
    """Whether no two calls have the same id."""
    ids = [call.id for message in messages if isinstance(message, Assistant) for call in message.calls]
    return len(set(ids)) == len(ids)


def _unused_id(call_id: str, used_ids: set[str]) -> str:
    unused_id = next(candidate for number in itertools.count(2) if (candidate := f"{call_id}-{number}") not in used_ids)
    used_ids.add(unused_id)
    return unused_id


def message_text(message: Message) -> str:
    """Return all readable text of a message, in order."""
    return "\n\n".join(filter(None, map(_part_text, message.parts)))


def call_text(call: ToolCall) -> str:
    """Format a call as its name and arguments."""
    return f"{call.name}({call.source or json.dumps(dict(call.arguments), ensure_ascii=False)})"


def _part_text(part: Text | Image | ToolOutput | Note | Reasoning | ToolCall | ProviderItem) -> str:
    match part:
        case Note(text=text, whole=whole) | Text(text=text, whole=whole):
            return whole or text
        case ToolOutput(text=text) | Reasoning(text=text):
            return text
        case Image(media_type=media_type):
            return f"[{media_type}]"
        case ToolCall():
            return call_text(part)
        case ProviderItem():
            return ""


STEERING_NOTE = Note(
    "[The user sent this while you were working. Take it into account and continue.]", kind="meanwhile"
)


def steering_message(message: User) -> User:
    """Add a note which says that the message was sent during a turn."""
    return replace(message, parts=(STEERING_NOTE, *message.parts))


def is_steering_message(message: Message) -> bool:
    """Whether the user sent the message while a turn was already running."""
    return isinstance(message, User) and message.has_note("meanwhile")
