"""How many tokens a text will take, before a provider has counted it. Pure; knows characters, not models.

Weights by class of byte, as measured over source code, prose and tool output with current tokenizers: 0.33 token for an
ASCII letter or blank, 0.6 for an ASCII digit, newline or sign, 1.5 for any other character, 12 for each message.
"""

import json
from collections.abc import Sequence

from agent.context.select import ToolSpec
from agent.messages import Image, Message, Note, Opaque, Reasoning, Text, ToolCall, ToolOutput

LETTER, SIGN, OTHER, MESSAGE = 0.33, 0.6, 1.5, 12
IMAGE = 1600
"""Tokens of one image: what Anthropic counts for the largest it does not scale down (width x height / 750)."""

_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \t"


def estimate_text(text: str) -> int:
    """Estimated tokens of a text, rounded up; 0 for an empty one."""
    raw = text.encode("utf-8", "surrogatepass")
    ascii_only = raw.translate(None, bytes(range(128, 256)))
    letters = len(ascii_only) - len(ascii_only.translate(None, _LETTERS))
    signs = len(ascii_only) - letters
    others = len(text) - len(ascii_only)
    return -int(-(letters * LETTER + signs * SIGN + others * OTHER) // 1)


def estimate_message(message: Message) -> int:
    """Estimated tokens of a message with all its parts."""
    return MESSAGE + sum(_part(part) for part in message.parts)


def estimate_messages(messages: Sequence[Message]) -> int:
    return sum(estimate_message(message) for message in messages)


def estimate_tools(specs: Sequence[ToolSpec]) -> int:
    """Estimated tokens of the tool definitions of a request."""
    return sum(estimate_text(json.dumps([spec.name, spec.description, spec.schema])) for spec in specs)


def _part(part: Text | Note | Image | ToolOutput | Reasoning | ToolCall | Opaque) -> int:
    match part:
        case Text(text=text) | Note(text=text):
            return estimate_text(text)
        case Image():
            return IMAGE
        case ToolOutput(text=text, images=images):
            return estimate_text(text) + IMAGE * len(images)
        case Reasoning(native=native) | Opaque(native=native):
            return estimate_text(json.dumps(native))
        case ToolCall(name=name, arguments=arguments, source=source):
            return estimate_text(name) + estimate_text(source or json.dumps(arguments))
