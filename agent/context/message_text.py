"""Message text, unique call ids, and steering messages sent during a turn. Pure."""

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


def with_unique_ids(reply: Assistant, earlier: Set[str]) -> Assistant:
    """Return the reply with new ids for calls whose id is already in use. Some servers restart their numbering in each
    reply, and state is stored by call id, so a later output would count as masked."""
    if not any(call.id in earlier for call in reply.calls):
        return reply
    taken = {*earlier, *(call.id for call in reply.calls)}
    parts = [
        replace(part, id=_free(part.id, taken)) if isinstance(part, ToolCall) and part.id in earlier else part
        for part in reply.parts
    ]
    return replace(reply, parts=tuple(parts))


def has_unique_ids(shown: Sequence[Message]) -> bool:
    """Whether no two calls have the same id."""
    ids = [call.id for message in shown if isinstance(message, Assistant) for call in message.calls]
    return len(set(ids)) == len(ids)


def _free(id: str, taken: set[str]) -> str:
    free = next(name for number in itertools.count(2) if (name := f"{id}-{number}") not in taken)
    taken.add(free)
    return free


def message_text(message: Message) -> str:
    """Return all readable text of a message, in order."""
    return "\n\n".join(filter(None, map(_part, message.parts)))


def call_text(call: ToolCall) -> str:
    """Return a call as its name and arguments."""
    return f"{call.name}({call.source or json.dumps(dict(call.arguments), ensure_ascii=False)})"


def _part(part: Text | Image | ToolOutput | Note | Reasoning | ToolCall | ProviderItem) -> str:
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
    "[The user says this while you work. Take it into account, and go on with what you were asked.]", kind="meanwhile"
)


def steering_message(message: User) -> User:
    """Return the message as the model sees it in the middle of a turn."""
    return replace(message, parts=(STEERING_NOTE, *message.parts))


def is_steering_message(message: Message) -> bool:
    """Whether the message was sent while its turn was running."""
    return isinstance(message, User) and message.has_note("meanwhile")
