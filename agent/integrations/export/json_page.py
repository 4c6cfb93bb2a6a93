"""Writes a session as JSON for programs: one object with a line for each message and request, written in
pieces."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

from ebbtide.agent.integrations.export.transcript_entries import PositionedMessage, ReadableSession
from ebbtide.agent.messages import (
    Assistant,
    AssistantPart,
    Image,
    Note,
    ProviderItem,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    UserPart,
)
from ebbtide.agent.records.codec import to_json
from ebbtide.agent.records.usage import RequestUsage

FORMAT_VERSION = 1
"""Version of the format. It increases when a field is removed or changes its meaning; new fields may be added at any
time."""


def render_json_chunks(session: ReadableSession) -> Iterator[str]:
    yield _unclosed_object({"format": "ebbtide-session", "version": FORMAT_VERSION, "session": asdict(session.details)})
    yield from _list_field("messages", map(_message_json, session.entries()))
    yield from _list_field("requests", map(_request_json, session.requests()))
    yield from _list_field("rewrites", map(asdict, session.rewrites))
    yield ',\n"agents":['
    for index, agent in enumerate(session.agents):
        yield f"{',' if index else ''}\n{_unclosed_object({'agent': agent.name, 'session': asdict(agent.details)})}"
        yield from _list_field("messages", map(_message_json, agent.entries()))
        yield "}"
    yield "]}\n"


def _unclosed_object(fields: Mapping[str, object]) -> str:
    """Return the object without its closing brace, so that more fields can follow."""
    return to_json(fields).removesuffix("}")


def _list_field(name: str, values: Iterable[object]) -> Iterator[str]:
    yield f',\n"{name}":['
    for index, value in enumerate(values):
        yield f"{',' if index else ''}\n{to_json(value)}"
    yield "]"


def _message_json(entry: PositionedMessage) -> dict[str, object]:
    message = entry.message
    author_fields: dict[str, object] = (
        {"role": "assistant", "model": message.model} if isinstance(message, Assistant) else {"role": "user"}
    )
    time_field = {} if entry.timestamp is None else {"at": entry.timestamp}
    parts = [part for part in map(_part_json, message.parts) if part is not None]
    return {"position": entry.position, **author_fields, **time_field, "parts": parts}


def _part_json(part: UserPart | AssistantPart) -> dict[str, object] | None:
    """Return a part as JSON, without provider-specific data and image bytes; None if nothing remains."""
    match part:
        case Text(text=text):
            return {"type": "text", "text": part.whole or text}
        case Image(media_type=kind):
            return {"type": "image", "media_type": kind}
        case Note(text=text, kind=kind):
            return {"type": "note", "kind": kind, "name": part.name, "text": part.whole or text}
        case Reasoning(text=text):
            return {"type": "reasoning", "text": text} if text else None
        case ToolCall(id=call_id, name=name, arguments=arguments):
            return {"type": "call", "id": call_id, "name": name, "arguments": arguments}
        case ToolOutput():
            return _output_json(part)
        case ProviderItem():
            return None


def _output_json(output: ToolOutput) -> dict[str, object]:
    edited_field: Mapping[str, object] = {} if output.edited is None else {"arguments_as_run": dict(output.edited)}
    size_field = {} if output.stored is None else {"stored_bytes": output.stored.size}
    images_field = {"images": [image.media_type for image in output.images]} if output.images else {}
    fields = {"call_id": output.call_id, "status": output.status, "text": output.text}
    return {"type": "output", **fields, **edited_field, **size_field, **images_field}


def _request_json(request: RequestUsage) -> dict[str, object]:
    token_fields = {name: getattr(request.usage, name) for name in ("input", "cache_read", "cache_write", "output")}
    return {
        "at": request.at,
        "model": request.model,
        "purpose": request.purpose,
        **token_fields,
        "cost": request.cost,
    }
