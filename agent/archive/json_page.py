"""Writes a session as JSON for programs: one object, with a line for each message and each request, piece by piece."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

from ebbtide.agent.archive.transcript_entries import AgentTalk, PositionedMessage, Redact, SessionAbout
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
from ebbtide.agent.records.codec import as_json
from ebbtide.agent.records.usage import RequestUsage, Rewrite

VERSION = 1
"""Version of the format. It changes if a field is removed or changes its meaning; new fields may be added at any
time."""


def json_pieces(
    about: SessionAbout,
    entries: Iterable[PositionedMessage],
    requests: Iterable[RequestUsage],
    rewrites: Iterable[Rewrite],
    hide: Redact,
    agents: Iterable[AgentTalk] = (),
) -> Iterator[str]:
    head = as_json({"format": "ebbtide-session", "version": VERSION, "session": hide.value(asdict(about))})
    yield head.removesuffix("}")
    yield from _list("messages", (hide.value(_entry(entry)) for entry in entries))
    yield from _list("requests", (_request(one) for one in requests))
    yield from _list("rewrites", (hide.value(asdict(one)) for one in rewrites))
    yield ',\n"agents":['
    for number, agent in enumerate(agents):
        head = as_json({"agent": hide.value(agent.name), "session": hide.value(asdict(agent.about))})
        yield f"{',' if number else ''}\n{head.removesuffix('}')}"
        yield from _list("messages", (hide.value(_entry(entry)) for entry in agent.entries()))
        yield "}"
    yield "]}\n"


def _list(name: str, values: Iterable[object]) -> Iterator[str]:
    yield f',\n"{name}":['
    for number, value in enumerate(values):
        yield f"{',' if number else ''}\n{as_json(value)}"
    yield "]"


def _entry(entry: PositionedMessage) -> dict[str, object]:
    message = entry.message
    who: dict[str, object] = (
        {"role": "assistant", "model": message.model} if isinstance(message, Assistant) else {"role": "user"}
    )
    when = {} if entry.at is None else {"at": entry.at}
    parts = [part for part in map(_part, message.parts) if part is not None]
    return {"position": entry.position, **who, **when, "parts": parts}


def _part(part: UserPart | AssistantPart) -> dict[str, object] | None:
    """A part as JSON, without provider-specific data and without image bytes."""
    match part:
        case Text(text=text):
            return {"type": "text", "text": part.whole or text}
        case Image(media_type=kind):
            return {"type": "image", "media_type": kind}
        case Note(text=text, kind=kind):
            return {"type": "note", "kind": kind, "name": part.name, "text": part.whole or text}
        case Reasoning(text=text):
            return {"type": "reasoning", "text": text} if text else None
        case ToolCall(id=id, name=name, arguments=arguments):
            return {"type": "call", "id": id, "name": name, "arguments": arguments}
        case ToolOutput():
            return _output(part)
        case ProviderItem():
            return None


def _output(output: ToolOutput) -> dict[str, object]:
    edited: Mapping[str, object] = {} if output.edited is None else {"arguments_as_run": dict(output.edited)}
    stored = {} if output.stored is None else {"stored_bytes": output.stored.size}
    images = {"images": [image.media_type for image in output.images]} if output.images else {}
    said = {"call_id": output.call_id, "status": output.status, "text": output.text}
    return {"type": "output", **said, **edited, **stored, **images}


def _request(one: RequestUsage) -> dict[str, object]:
    used = one.usage
    return {
        "at": one.at,
        "model": one.model,
        "purpose": one.purpose,
        "input": used.input,
        "cache_read": used.cache_read,
        "cache_write": used.cache_write,
        "output": used.output,
        "cost": one.cost,
    }
