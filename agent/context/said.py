"""Messages as text for people and models to read again. Pure; it knows no provider."""

import json

from agent.messages import Image, Message, Note, Opaque, Reasoning, Text, ToolCall, ToolOutput


def message_text(message: Message) -> str:
    """All that can be read of a message, in its order."""
    return "\n\n".join(filter(None, map(_part, message.parts)))


def call_text(call: ToolCall) -> str:
    """A call as its name and its arguments."""
    return f"{call.name}({call.source or json.dumps(dict(call.arguments), ensure_ascii=False)})"


def _part(part: Text | Image | ToolOutput | Note | Reasoning | ToolCall | Opaque) -> str:
    match part:
        case Note(text=text, whole=whole) | Text(text=text, whole=whole):
            return whole or text
        case ToolOutput(text=text) | Reasoning(text=text):
            return text
        case Image(media_type=media_type):
            return f"[{media_type}]"
        case ToolCall():
            return call_text(part)
        case Opaque():
            return ""
