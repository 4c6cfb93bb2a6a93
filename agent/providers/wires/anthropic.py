"""Anthropic's Messages API: request bodies and stream events."""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ebbtide.agent.context.long_texts import sendable
from ebbtide.agent.context.prefix import in_sent_order
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.errors import AuthFailed
from ebbtide.agent.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    Note,
    ProviderItem,
    Reasoning,
    StopReason,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
    UserPart,
)
from ebbtide.agent.providers.base import (
    CallChunk,
    Chunk,
    Endpoint,
    ModelFacts,
    ReasoningChunk,
    Reply,
    Request,
    TextChunk,
)
from ebbtide.agent.providers.wires.adapter import Adapter
from ebbtide.agent.providers.wires.anthropic_thinking import thinking_body
from ebbtide.agent.providers.wires.decoder import (
    NO_IMAGE,
    CallIds,
    count,
    make_call,
    make_reply,
    output_text,
    read_arguments,
    takes_images,
    written_arguments,
)
from ebbtide.agent.providers.wires.encoding import EncodedMessages, WrittenRequest
from ebbtide.agent.providers.wires.http import Json, bearer, open_client
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.providers.wires.sdk import SdkWire
from ebbtide.agent.providers.wires.tool_definitions import sent_schema, wire_name
from ebbtide.tools.lazy import dataclass

if TYPE_CHECKING:
    import anthropic

ORIGIN = "https://api.anthropic.com"

VERSION = "2026-10-21"
"""The API version that this file is written for, which is also the SDK's."""

EPHEMERAL: Json = {"type": "ephemeral"}

UNCACHEABLE_BLOCKS = ("thinking", "redacted_thinking")
"""Blocks that the API does not allow to be marked for the cache."""

HOSTED_SEARCH: Json = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
"""The API's own search for deferred tools. It needs no beta header."""

KEYS = r"[a-zA-Z0-9_.-]{1,64}"
"""Parameter names that the API accepts."""

NOTHING = "(nothing)"
"""Replaces an empty message after a reply: the API rejects empty text."""
GONE_TOOL_DESCRIPTION = "Not available any more."
"""Describes a tool that was called earlier when no tools are offered now: the API rejects calls without definitions."""

STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "model_context_window_exceeded": "overflow",
    "pause_turn": "pause",
}


def root(endpoint: Endpoint) -> str:
    """The server's address without the version, which belongs to the path."""
    return (endpoint.base_url or ORIGIN).rstrip("/").removesuffix("/v1")


def key_headers(endpoint: Endpoint) -> dict[str, str]:
    """The older key header, for servers compatible with Anthropic's earlier API."""
    return {"x-api-key": endpoint.key} if endpoint.key else {}


def headers(endpoint: Endpoint) -> dict[str, str]:
    return {"anthropic-version": VERSION} | bearer(endpoint) | key_headers(endpoint)


def make_client(origin: Origin) -> "anthropic.AsyncAnthropic":
    """Create the SDK's client. Without a key, it looks for credentials itself, but only for Anthropic's own server."""
    import anthropic  # noqa: PLC0415 - deferred: 1.5 s that other providers do not need

    endpoint, ours = origin.endpoint, origin.endpoint.base_url == ORIGIN
    headers: dict[str, Any] = dict(key_headers(endpoint))
    if not endpoint.key and not ours:
        headers["Authorization"] = anthropic.omit
    http_client = open_client(origin)
    client = anthropic.AsyncAnthropic(
        api_key=endpoint.key or (None if ours else "none"),
        default_headers=headers,
        base_url=endpoint.base_url,
        max_retries=0,
        timeout=http_client.timeout,
        http_client=http_client,
    )
    if client.api_key is None and client.auth_token is None and client.credentials is None:
        raise AuthFailed(f"no key for {origin.model}. Set `ANTHROPIC_API_KEY`.")
    return client


def body(request: Request, facts: ModelFacts, written: "WrittenRequest[AnthropicWriter] | None" = None) -> Json:
    """The JSON body of a request. `written`: the messages already encoded for the previous request, which are
    reused."""
    deferred = frozenset(tool.name for tool in request.tools if tool.deferred is not None)
    sheet = (written or WrittenRequest(AnthropicWriter)).of(request.messages, facts, deferred)
    content: Json = {
        "model": facts.name,
        "max_tokens": request.max_output_tokens,
        "messages": sheet.items(request.breakpoints.parts, {"cache_control": EPHEMERAL}),
        "stream": True,
        **thinking_body(request, facts),
    }
    if request.system.strip():
        content["system"] = _system(request)
    if request.tools:
        content["tools"] = [*map(_tool, request.tools), *([HOSTED_SEARCH] if deferred else [])]
    elif called := {wire_name(call.name): None for message in request.messages for call in _calls(message)}:
        content["tools"] = [
            {"name": name, "description": GONE_TOOL_DESCRIPTION, "input_schema": {"type": "object"}} for name in called
        ]
    return content


def _calls(message: Message) -> Sequence[ToolCall]:
    return message.calls if isinstance(message, Assistant) else ()


def _tool(tool: ToolSpec) -> Json:
    definition: Json = {
        "name": tool.name,
        "description": tool.description,
        "input_schema": sent_schema(tool.schema, KEYS),
    }
    return definition if tool.deferred is None else definition | {"defer_loading": True}


def _system(request: Request) -> list[Json]:
    """The system text as blocks that never change: the prefix shared with other sessions, then the rest."""
    ends = sorted({request.stable, len(request.system)} - {0})
    blocks = [_text(request.system[start:end]) for start, end in pairwise([0, *ends])]
    for end, block in zip(ends, blocks, strict=True):
        if end in request.breakpoints.system:
            block["cache_control"] = EPHEMERAL
    return blocks


class AnthropicWriter:
    """Encodes the conversation with alternating roles: adjacent messages of one role are merged."""

    def __init__(self, facts: ModelFacts, deferred: frozenset[str]) -> None:
        self.sheet = EncodedMessages()
        self._facts, self._deferred = facts, deferred
        self._ids = CallIds(facts.id, unsafe=r"[^a-zA-Z0-9_-]")

    def add(self, message: Message) -> None:
        role = "assistant" if isinstance(message, Assistant) else "user"
        if isinstance(message, Assistant):
            self._ids.add(message)
        has_searches = _has_searches(message, self._deferred)
        last, ends = self.sheet.last, self.sheet.ends
        before = list(last["content"]) if last and last["role"] == role else []
        index, blocks = len(self.sheet) - bool(before), list[Json]()
        for part in in_sent_order(message):
            block = None if _is_search(part) and not has_searches else _block(part, message, self._facts, self._ids)
            markable = block is not None and block.get("type") not in UNCACHEABLE_BLOCKS
            place = (index, "content", len(before) + len(blocks))
            ends.append(place if markable else ends[-1] if ends else None)
            blocks += [block] if block else []
        while blocks and role == "assistant" and blocks[-1].get("type") in UNCACHEABLE_BLOCKS:
            blocks.pop()  # the API rejects a reply that ends in a thought
        if isinstance(message, Assistant) and message.is_paused and blocks and blocks[-1]["type"] == "text":
            blocks[-1] |= {"text": str(blocks[-1]["text"]).rstrip()}  # and one that ends in whitespace
        if not blocks and role == "user" and last and not before:
            blocks.append(
                _text(NOTHING)
            )  # without it the request would end in a reply, and the model would continue that
        if blocks and before:
            self.sheet.replace_last({"role": role, "content": before + blocks})
        elif blocks:
            self.sheet.add([{"role": role, "content": blocks}])


def _has_searches(message: Message, deferred: frozenset[str]) -> bool:
    """Whether the searches in a reply are still valid: the API rejects references to tools that are not deferred
    now. The model can search for them again."""
    found = [name for part in message.parts if isinstance(part, ProviderItem) for name in part.tools]
    return bool(deferred) and deferred.issuperset(found)


def _is_search(part: UserPart | AssistantPart) -> bool:
    if not isinstance(part, ProviderItem):
        return False
    native = part.native
    by_name = native.get("type") == "server_tool_use" and str(native.get("name")).startswith("tool_search_tool")
    return by_name or native.get("type") == "tool_search_tool_result"


def _block(part: UserPart | AssistantPart, message: Message, facts: ModelFacts, ids: CallIds) -> Json | None:
    """The part as a block; None if it is not sent: empty text, and thoughts of other models."""
    own = isinstance(message, Assistant) and message.model == facts.id
    match part:
        case Text(native=native) if own and native:
            return dict(native)
        case Text(text=text) | Note(text=text):
            return _text(text) if text.strip() else None
        case Image():
            return _image(part, facts)
        case ToolOutput():
            return _output(part, facts, ids)
        case ToolCall(id=id, name=name, called=called):
            name = wire_name(called or name)
            return {"type": "tool_use", "id": ids[id], "name": name, "input": dict(written_arguments(part))}
        case Reasoning(native=native) | ProviderItem(native=native):
            return dict(native) if own else None


def _output(output: ToolOutput, facts: ModelFacts, ids: CallIds) -> Json:
    content = [_image(image, facts) for image in output.images]
    if output.text.strip() or not content:
        content.insert(0, _text(output_text(output)))
    block: Json = {"type": "tool_result", "tool_use_id": ids[output.call_id], "content": content}
    if output.status != "done" and all(part["type"] == "text" for part in content):
        block["is_error"] = True  # the API does not allow an error with an image; the text says that it is one
    return block


def _text(text: str) -> Json:
    return {"type": "text", "text": sendable(text)}


def _image(image: Image, facts: ModelFacts) -> Json:
    if not takes_images(facts):
        return _text(NO_IMAGE)
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


@dataclass(slots=True)
class AnthropicDecoder:
    """Decodes raw Messages events into chunks."""

    origin: Origin
    finished: bool = False
    _blocks: dict[int, Json] = field(default_factory=dict)
    _inputs: dict[int, list[str]] = field(default_factory=dict)
    """The pieces of a block's JSON input, joined once: joining at each piece would be quadratic."""
    _sizes: dict[int, int] = field(default_factory=dict)
    _usage: Json = field(default_factory=dict)
    _stop: StopReason = "end"

    @property
    def complete(self) -> bool:
        return self.finished

    def feed(self, event: Json) -> Iterator[Chunk]:
        match event.get("type"):
            case "message_start":
                self._count(event["message"].get("usage"))
            case "content_block_start":
                yield from self._start(event["index"], dict(event["content_block"]))
            case "content_block_delta":
                yield from self._add(event["index"], event["delta"])
            case "message_delta":
                self._count(event.get("usage"))
                self._stop = STOPS.get(event["delta"].get("stop_reason") or "", self._stop)
            case "message_stop":
                self.finished = True
            case "error":
                raise self.origin.failure(200, {}, event)

    def reply(self) -> Reply:
        usage = Usage(
            input=count(self._usage.get("input_tokens")),
            cache_read=count(self._usage.get("cache_read_input_tokens")),
            cache_write=count(self._usage.get("cache_creation_input_tokens")),
            output=count(self._usage.get("output_tokens")),
        )
        parts = [self._part(index) for index in sorted(self._blocks)]
        searches = sum(str(block["type"]).endswith("_tool_result") for block in self._blocks.values())
        return replace(make_reply(parts, self.origin.model, usage, self._stop), passes=1 + searches)

    def _count(self, usage: Json | None) -> None:
        """Update the usage: later counts replace earlier ones, and missing counts leave them unchanged."""
        self._usage |= {name: value for name, value in (usage or {}).items() if value is not None}

    def _start(self, index: int, block: Json) -> Iterator[Chunk]:
        self._blocks[index] = block
        if block["type"] == "tool_use":
            self._sizes[index] = 0
            yield self._call_chunk(index)
        elif block["type"] == "text" and block["text"]:
            yield TextChunk(sendable(block["text"]))

    def _add(self, index: int, delta: Json) -> Iterator[Chunk]:
        block = self._blocks[index]
        match delta.get("type"):
            case "text_delta":
                block["text"] += delta["text"]
                yield TextChunk(sendable(delta["text"]))
            case "thinking_delta":
                block["thinking"] += delta["thinking"]
                yield ReasoningChunk(sendable(delta["thinking"]))
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
            case "input_json_delta":
                self._inputs.setdefault(index, []).append(delta["partial_json"])
                if index in self._sizes and delta["partial_json"]:
                    self._sizes[index] += len(delta["partial_json"])
                    yield self._call_chunk(index)

    def _call_chunk(self, index: int) -> CallChunk:
        place, block = list(self._sizes).index(index), self._blocks[index]
        return CallChunk(place, sendable(block["name"]), self._sizes[index], sendable(block["id"]))

    def _part(self, index: int) -> AssistantPart:
        block, source = self._blocks[index], "".join(self._inputs.get(index, ()))
        match block["type"]:
            case "text":
                plain = set(block) <= {"type", "text", "citations"} and not block.get("citations")
                return Text(sendable(block["text"]), None if plain else block)
            case "tool_use" if not source and block.get("input"):
                return ToolCall(block["id"], block["name"], block["input"])
            case "tool_use":
                return make_call(block["id"], block["name"], source)
            case "thinking":
                block["thinking"] = sendable(block["thinking"])
                return Reasoning(block["thinking"], block)
            case "redacted_thinking":
                return Reasoning("", block)
            case "server_tool_use":
                return ProviderItem({**block, "input": dict(read_arguments(source)[0]) or block.get("input") or {}})
            case "tool_search_tool_result":
                return ProviderItem(block, tuple(_found_tools(block["content"])))
            case _:
                return ProviderItem({**block, "input": dict(read_arguments(source)[0])} if source else block)


def _found_tools(content: Json) -> Iterator[str]:
    """The names of the tools that a search found; none if it failed."""
    for reference in content.get("tool_references") or ():
        yield str(reference["tool_name"])


ADAPTER = Adapter(
    path="/v1/messages",
    body=lambda request, facts, _window, _quirks, written: body(request, facts, written),
    writer=AnthropicWriter,
    decoder=AnthropicDecoder,
    sdk=lambda origin: SdkWire("anthropic", origin, make_client, lambda client: client.messages),
    root=root,
    headers=headers,
)
"""The Messages API, of Anthropic or of a compatible server."""
