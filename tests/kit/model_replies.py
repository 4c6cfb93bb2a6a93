"""Any conversation as if a real model behind one of the wires had taken part in it. Pure."""

from dataclasses import replace

from ebbtide.agent.messages import (
    AssistantPart,
    Image,
    Message,
    Native,
    ProviderItem,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    User,
    UserPart,
)
from ebbtide.agent.providers.wires.decoder import build_call
from tests.kit.adapters import PIXEL, Adapter
from tests.kit.fake_frames import WireName, seal_of, signature_of


def spoken_by(message: Message, adapter: Adapter, *, own: bool) -> Message:
    """The message as this adapter's model would have said it, or as another: thoughts are signed, and pictures are
    ones."""
    if isinstance(message, User):
        return User(tuple(_pictured(part) for part in message.parts))
    parts = tuple(_issued(part, adapter.name) for part in message.parts if not isinstance(part, ProviderItem))
    return replace(message, parts=parts, model=adapter.facts.id if own else "other/model")


def thought(text: str, wire: WireName) -> Native:
    """A thought as its provider sends it."""
    match wire:
        case "anthropic":
            return {"type": "thinking", "thinking": text, "signature": signature_of(text)}
        case "responses":
            summary = [{"type": "summary_text", "text": text}]
            return {"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": seal_of(text)}
        case "chat":
            return {"reasoning_content": text}
        case "ollama":
            return {"thinking": text}


def _issued(part: AssistantPart, wire: WireName) -> AssistantPart:
    match part:
        case Reasoning(text=text):
            return Reasoning(text, thought(text, wire))
        case Text():
            return replace(part, native=None)
        case ToolCall(id=id, name=name, source=source):
            return build_call(id, name, source)
        case _:
            return part


def _pictured(part: UserPart) -> UserPart:
    match part:
        case Image():
            return replace(part, data=PIXEL)
        case ToolOutput():
            return replace(part, images=tuple(replace(image, data=PIXEL) for image in part.images))
        case _:
            return part
