"""OpenAI's Responses API: requests to bodies, events to chunks. It stores nothing at the server."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agent.context.budget import Window
from agent.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    Note,
    Opaque,
    Reasoning,
    StopReason,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
    User,
)
from agent.providers.base import CallChunk, Chunk, Endpoint, ModelFacts, ReasoningChunk, Reply, Request, TextChunk
from agent.providers.decoding import (
    NO_IMAGE,
    CallIds,
    clean,
    converse,
    count,
    make_call,
    make_reply,
    output_text,
    takes_images,
    wire_name,
)
from agent.providers.http import HttpWire, Json, Origin, Wire, bearer
from agent.providers.quirks import Quirks
from agent.providers.sdk import RawResponse, SdkWire, openai_client

if TYPE_CHECKING:
    import openai

QUIRKS = {"reasoning.summary": "summary", "ncrypted content": "include", "prompt_cache_key": "prompt_cache_key"}
"""Refused by OpenAI for unverified accounts and for models that do not think, and by some compatible servers."""

INCOMPLETE: dict[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


class OpenAIResponses:
    """A model behind the Responses API."""

    def __init__(
        self, facts: ModelFacts, window: Window, endpoint: Endpoint, wire: Literal["sdk", "http"] = "http"
    ) -> None:
        self.facts = facts
        self.window = window
        self._origin = Origin(facts.id, endpoint)
        self._wire: Wire = http_wire(self._origin) if wire == "http" else sdk_wire(self._origin)
        self._quirks = Quirks(QUIRKS)

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        def ask(quirks: frozenset[str]) -> AsyncGenerator[Chunk, None]:
            return converse(self._wire, body(request, self.facts, quirks), Decoder(self._origin), self._origin)

        return self._quirks.stream(ask)

    async def prepare(self) -> None:
        await self._wire.prepare()

    async def close(self) -> None:
        await self._wire.close()


def http_wire(origin: Origin) -> Wire:
    headers = {"accept": "text/event-stream", **bearer(origin.endpoint)}
    return HttpWire(origin, f"{origin.endpoint.base_url.rstrip('/')}/responses", headers)


def sdk_wire(origin: Origin) -> Wire:
    return SdkWire("openai", origin, openai_client, send)


def send(client: "openai.AsyncOpenAI", body: Json) -> AbstractAsyncContextManager[RawResponse]:
    return client.responses.with_streaming_response.create(**body)


def body(request: Request, facts: ModelFacts, quirks: frozenset[str] = frozenset()) -> Json:
    """The JSON body of a request."""
    content: Json = {
        "model": facts.name,
        "input": _items(request.messages, facts),
        "max_output_tokens": request.max_output_tokens,
        "store": False,
        "stream": True,
    }
    if request.system.strip():
        content["instructions"] = clean(request.system)
    if request.tools:
        content["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.schema),
                "strict": False,  # strict schemas allow no optional parameter
            }
            for tool in request.tools
        ]
    if "prompt_cache_key" not in quirks:
        content["prompt_cache_key"] = request.session
    if facts.thinking == "effort":
        content |= _thinking(request, quirks)
    return content


def _thinking(request: Request, quirks: frozenset[str]) -> Json:
    reasoning = {"effort": request.effort} if request.effort else {}
    if "summary" not in quirks and request.effort != "none":
        reasoning["summary"] = "auto"
    content: Json = {"reasoning": reasoning} if reasoning else {}
    if "include" not in quirks:
        content["include"] = ["reasoning.encrypted_content"]
    return content


def _items(messages: Sequence[Message], facts: ModelFacts) -> list[Json]:
    items: list[Json] = []
    ids = CallIds()
    for message in messages:
        if isinstance(message, Assistant):
            ids.add(message)
            items += _assistant_items(message, facts, ids)
        else:
            items += _user_items(message, facts, ids)
    return items


def _user_items(message: User, facts: ModelFacts, ids: CallIds) -> list[Json]:
    items = [_output(output, facts, ids) for output in message.outputs]
    content: list[Json] = []
    for part in message.parts:
        match part:
            case Text(text=text) | Note(text=text):
                content += [{"type": "input_text", "text": clean(text)}] if text else []
            case Image():
                content.append(_image(part, facts))
            case ToolOutput():
                continue
    return [*items, {"role": "user", "content": content}] if content else items


def _output(output: ToolOutput, facts: ModelFacts, ids: CallIds) -> Json:
    item: Json = {"type": "function_call_output", "call_id": ids[output.call_id], "output": output_text(output)}
    if output.images:
        images = [_image(image, facts) for image in output.images]
        item["output"] = [{"type": "input_text", "text": output_text(output)}, *images]
    return item


def _image(image: Image, facts: ModelFacts) -> Json:
    if not takes_images(facts):
        return {"type": "input_text", "text": NO_IMAGE}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{image.media_type};base64,{image.data}"}


def _assistant_items(message: Assistant, facts: ModelFacts, ids: CallIds) -> list[Json]:
    own = message.model == facts.id
    items: list[Json] = []
    for part in message.parts:
        match part:
            case Text(native=native) if own and native:
                items.append(dict(native))
            case Text(text=text):
                items += [{"role": "assistant", "content": clean(text)}] if text else []
            case ToolCall():
                items.append(_call(part, ids))
            case Reasoning(native=native):
                # Without its encrypted content an item is only a reference to what the server has not stored.
                items += [dict(native)] if own and native.get("encrypted_content") else []
            case Opaque(native=native):
                items += [dict(native)] if own else []
    return items


def _call(call: ToolCall, ids: CallIds) -> Json:
    return {
        "type": "function_call",
        "call_id": ids[call.id],
        "name": wire_name(call.name),
        "arguments": call.source or json.dumps(dict(call.arguments), ensure_ascii=False),
    }


@dataclass(slots=True)
class Decoder:
    """Raw Responses events in, chunks out."""

    origin: Origin
    finished: bool = False
    _items: dict[int, Json] = field(default_factory=dict)
    """Whole items by place in the output."""
    _calls: dict[int | str, str] = field(default_factory=dict)
    """Names of the calls that have begun, by place in the output, or by id where the server names no place."""
    _sizes: dict[int | str, int] = field(default_factory=dict)
    _response: Json = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.finished

    def feed(self, event: Json) -> Iterator[Chunk]:
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                yield TextChunk(clean(event["delta"]))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield ReasoningChunk(clean(event["delta"]))
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                yield ReasoningChunk("\n\n")
            case "response.output_item.added" if event["item"]["type"] == "function_call":
                place = event.get("output_index", event["item"].get("id"))
                self._calls[place] = event["item"]["name"]
                yield self._call_chunk(place, "")
            case "response.function_call_arguments.delta":
                place = event.get("output_index", event.get("item_id"))
                if place in self._calls:
                    yield self._call_chunk(place, event["delta"])
            case "response.output_item.done":
                self._items[event.get("output_index", len(self._items))] = event["item"]
            case "response.completed" | "response.incomplete":
                self._response = event["response"]
                self.finished = True
            case "response.failed":
                raise self.origin.failure(200, {}, {"error": event["response"].get("error")})
            case "error":
                raise self.origin.failure(200, {}, event)

    def reply(self) -> Reply:
        items = [self._items[index] for index in sorted(self._items)] or self._response.get("output") or []
        usage = self._response.get("usage") or {}
        return make_reply([_part(item) for item in items], self.origin.model, read_usage(usage), self._stop(items))

    def _call_chunk(self, place: int | str, piece: str) -> CallChunk:
        self._sizes[place] = self._sizes.get(place, 0) + len(piece)
        return CallChunk(list(self._calls).index(place), clean(self._calls[place]), self._sizes[place])

    def _stop(self, items: Sequence[Json]) -> StopReason:
        details = self._response.get("incomplete_details") or {}
        refused = any(part.get("type") == "refusal" for item in items for part in item.get("content") or ())
        return INCOMPLETE.get(details.get("reason") or "", "refusal" if refused else "end")


def _part(item: Json) -> AssistantPart:
    """An item of the output. Its empty fields are left out, since the server does not take them back."""
    native = {name: value for name, value in item.items() if value is not None}
    match item["type"]:
        case "message":
            texts = (part.get("text") or part.get("refusal") or "" for part in item["content"])
            return Text(clean("".join(texts)), native)
        case "function_call":
            return make_call(item["call_id"], item["name"], item["arguments"])
        case "reasoning":
            parts = item.get("summary") or item.get("content") or ()
            return Reasoning(clean("\n\n".join(part.get("text", "") for part in parts)), native)
        case _:
            return Opaque(native)


def read_usage(usage: Json) -> Usage:
    """The usage in our terms: this API counts what was cached as input too."""
    details = usage.get("input_tokens_details") or {}
    read, written = count(details.get("cached_tokens")), count(details.get("cache_write_tokens"))
    fresh = max(count(usage.get("input_tokens")) - read - written, 0)
    thought = count((usage.get("output_tokens_details") or {}).get("reasoning_tokens"))
    return Usage(fresh, read, written, count(usage.get("output_tokens")), thought)
