"""Anthropic's Messages API: request bodies and stream events."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ebbtide.agent.budget.prefix import parts_in_sent_order
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
    OMITTED_IMAGE_TEXT,
    ApiName,
    CallIds,
    arguments_as_written,
    build_call,
    build_reply,
    can_send_images,
    output_text,
    parse_arguments,
    parse_token_count,
)
from ebbtide.agent.providers.wires.encoding import EncodedMessages, RequestEncodingCache
from ebbtide.agent.providers.wires.http import JsonObject, bearer_headers, open_httpx_client
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.providers.wires.sdk import SdkWire
from ebbtide.agent.providers.wires.tool_definitions import make_schema_sendable, sendable_name
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.view.long_texts import sendable_text
from ebbtide.tools.lazy import dataclass

if TYPE_CHECKING:
    import anthropic

OFFICIAL_URL = "https://api.anthropic.com"

API_VERSION = "2026-10-21"
"""The API version for which this module is written. The SDK uses this version as well."""

UNCACHEABLE_BLOCKS = ("thinking", "redacted_thinking")
"""Types of blocks that the API does not allow to be marked for caching."""

HOSTED_SEARCH: JsonObject = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
"""The API's own search for deferred tools. It needs no beta header."""

WEB_SEARCH: JsonObject = {"type": "web_search_20250305", "name": "web_search"}
"""The API's own web search, in the version that all models know and that runs no code on the server."""

PARAMETER_NAME_PATTERN = r"[a-zA-Z0-9_.-]{1,64}"
"""Pattern of the parameter names that the API accepts."""

EMPTY_MESSAGE_TEXT = "(nothing)"
"""Text of an empty message after a reply, since the API rejects empty text."""
REMOVED_TOOL_DESCRIPTION = "No longer available."
"""Description of a tool that was called earlier but is not offered now. It is sent if no tools are offered, because the
API rejects calls to undefined tools."""

STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "model_context_window_exceeded": "overflow",
    "pause_turn": "pause",
}


def server_url(endpoint: Endpoint) -> str:
    """Return the server's address without the API version, which is part of the path."""
    return (endpoint.base_url or OFFICIAL_URL).rstrip("/").removesuffix("/v1")


def key_headers(endpoint: Endpoint) -> dict[str, str]:
    """Return the older header for the key, for servers that follow Anthropic's earlier API."""
    return {"x-api-key": endpoint.key} if endpoint.key else {}


def build_headers(endpoint: Endpoint) -> dict[str, str]:
    return {"anthropic-version": API_VERSION} | bearer_headers(endpoint) | key_headers(endpoint)


def create_client(origin: Origin) -> "anthropic.AsyncAnthropic":
    """Create the SDK's client. Without a key, the SDK looks for credentials itself; this is allowed only for
    Anthropic's own server."""
    import anthropic  # noqa: PLC0415 - deferred: 1.5 s that other providers do not need

    endpoint, is_official = origin.endpoint, origin.endpoint.base_url == OFFICIAL_URL
    headers: dict[str, Any] = dict(key_headers(endpoint))
    if not endpoint.key and not is_official:
        headers["Authorization"] = anthropic.omit
    http_client = open_httpx_client(origin)
    client = anthropic.AsyncAnthropic(
        api_key=endpoint.key or (None if is_official else "none"),
        default_headers=headers,
        base_url=endpoint.base_url,
        max_retries=0,
        timeout=http_client.timeout,
        http_client=http_client,
    )
    if client.api_key is None and client.auth_token is None and client.credentials is None:
        raise AuthFailed(f"no key for {origin.model}. Set `ANTHROPIC_API_KEY`.")
    return client


def build_body(
    request: Request, facts: ModelFacts, encoding_cache: "RequestEncodingCache[AnthropicEncoder] | None" = None
) -> JsonObject:
    """Return the JSON body of a request. `encoding_cache`: the encoded messages of the previous request, which are
    reused."""
    deferred_names = frozenset(tool.name for tool in request.tools if tool.deferred_group is not None)
    encoded = (encoding_cache or RequestEncodingCache(AnthropicEncoder)).encode(request.messages, facts, deferred_names)
    body: JsonObject = {
        "model": facts.name,
        "max_tokens": request.max_output_tokens,
        "messages": encoded.build_items(request.breakpoints.parts, {"cache_control": _cache_control(facts)}),
        "stream": True,
        **thinking_body(request, facts),
    }
    if request.system.strip():
        body["system"] = _system_blocks(request, _cache_control(facts))
    if request.tools:
        body["tools"] = [*map(_tool_definition, request.tools), *([HOSTED_SEARCH] if deferred_names else [])]
    elif called_names := {
        sendable_name(call.name): None for message in request.messages for call in _reply_calls(message)
    }:
        body["tools"] = [
            {"name": name, "description": REMOVED_TOOL_DESCRIPTION, "input_schema": {"type": "object"}}
            for name in called_names
        ]
    if request.max_web_searches:
        body["tools"] = [*body.get("tools", ()), WEB_SEARCH | {"max_uses": request.max_web_searches}]
    return body


def _reply_calls(message: Message) -> Sequence[ToolCall]:
    return message.calls if isinstance(message, Assistant) else ()


def _tool_definition(tool: ToolSpec) -> JsonObject:
    definition: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "input_schema": make_schema_sendable(tool.schema, PARAMETER_NAME_PATTERN),
    }
    return definition if tool.deferred_group is None else definition | {"defer_loading": True}


def _cache_control(facts: ModelFacts) -> JsonObject:
    """Return the marker for the end of a cached prefix."""
    return {"type": "ephemeral"} | ({"ttl": facts.cache_lifetime} if facts.cache_lifetime else {})


def _system_blocks(request: Request, cache_control: JsonObject) -> list[JsonObject]:
    """Return the system prompt as blocks: the prefix shared with other sessions, then the remaining text."""
    block_ends = sorted({request.shared_prefix_chars, len(request.system)} - {0})
    blocks = [_text_block(request.system[start:end]) for start, end in pairwise([0, *block_ends])]
    for end, block in zip(block_ends, blocks, strict=True):
        if end in request.breakpoints.system:
            block["cache_control"] = cache_control
    return blocks


class AnthropicEncoder:
    """Encodes the conversation with alternating roles. Adjacent messages of the same role are merged."""

    def __init__(self, facts: ModelFacts, deferred_names: frozenset[str]) -> None:
        self.encoded_messages = EncodedMessages()
        self._facts, self._deferred_names = facts, deferred_names
        self._ids = CallIds(facts.id, unsafe=r"[^a-zA-Z0-9_-]")

    def add(self, message: Message) -> None:
        role = "assistant" if isinstance(message, Assistant) else "user"
        if isinstance(message, Assistant):
            self._ids.add(message)
        keeps_searches = _has_valid_searches(message, self._deferred_names)
        last_item, ends = self.encoded_messages.last, self.encoded_messages.markable_ends
        earlier_blocks = list(last_item["content"]) if last_item and last_item["role"] == role else []
        index = len(self.encoded_messages) - bool(earlier_blocks)
        blocks: list[JsonObject] = []
        for part in parts_in_sent_order(message):
            block = (
                None if _is_search(part) and not keeps_searches else _part_block(part, message, self._facts, self._ids)
            )
            is_markable = block is not None and block.get("type") not in UNCACHEABLE_BLOCKS
            position = (index, "content", len(earlier_blocks) + len(blocks))
            ends.append(position if is_markable else ends[-1] if ends else None)
            blocks += [block] if block else []
        while blocks and role == "assistant" and blocks[-1].get("type") in UNCACHEABLE_BLOCKS:
            blocks.pop()  # the API rejects a reply that ends in a thought
        if isinstance(message, Assistant) and message.is_paused and blocks and blocks[-1]["type"] == "text":
            blocks[-1] |= {"text": str(blocks[-1]["text"]).rstrip()}  # it also rejects one that ends in whitespace
        if not blocks and role == "user" and not earlier_blocks:
            blocks.append(_text_block(EMPTY_MESSAGE_TEXT))  # a model would continue a reply that comes last
        if blocks and earlier_blocks:
            self.encoded_messages.replace_last({"role": role, "content": earlier_blocks + blocks})
        elif blocks:
            self.encoded_messages.add([{"role": role, "content": blocks}])


def _has_valid_searches(message: Message, deferred_names: frozenset[str]) -> bool:
    """Whether the searches in a reply can be sent again. The API rejects references to tools that are not deferred now.
    If searches are omitted, the model can search again."""
    found_tools = [name for part in message.parts if isinstance(part, ProviderItem) for name in part.tools]
    return bool(deferred_names) and deferred_names.issuperset(found_tools)


def _is_search(part: UserPart | AssistantPart) -> bool:
    if not isinstance(part, ProviderItem):
        return False
    native = part.native
    is_search_call = native.get("type") == "server_tool_use" and str(native.get("name")).startswith("tool_search_tool")
    return is_search_call or native.get("type") == "tool_search_tool_result"


def _part_block(part: UserPart | AssistantPart, message: Message, facts: ModelFacts, ids: CallIds) -> JsonObject | None:
    """Return the part as a block. None for empty text and for another model's thoughts, which are not sent."""
    is_from_same_model = isinstance(message, Assistant) and message.model == facts.id
    match part:
        case Text(native=native) if is_from_same_model and native:
            return dict(native)
        case Text(text=text) | Note(text=text):
            return _text_block(text) if text.strip() else None
        case Image():
            return _image_block(part, facts)
        case ToolOutput():
            return _output_block(part, facts, ids)
        case ToolCall(id=call_id, name=name, called=called):
            name = sendable_name(called or name)
            return {"type": "tool_use", "id": ids[call_id], "name": name, "input": dict(arguments_as_written(part))}
        case Reasoning(native=native) | ProviderItem(native=native):
            return dict(native) if is_from_same_model else None


def _output_block(output: ToolOutput, facts: ModelFacts, ids: CallIds) -> JsonObject:
    content = [_image_block(image, facts) for image in output.images]
    if output.text.strip() or not content:
        content.insert(0, _text_block(output_text(output)))
    block: JsonObject = {"type": "tool_result", "tool_use_id": ids[output.call_id], "content": content}
    if output.status != "done" and all(part["type"] == "text" for part in content):
        block["is_error"] = True  # the API does not allow errors with images
    return block


def _text_block(text: str) -> JsonObject:
    return {"type": "text", "text": sendable_text(text)}


def _image_block(image: Image, facts: ModelFacts) -> JsonObject:
    if not can_send_images(facts):
        return _text_block(OMITTED_IMAGE_TEXT)
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


_TEXT_FIELDS = {"text": ("text",), "thinking": ("thinking",), "tool_use": ("id", "name")}
"""Text fields, by type of block."""
_BLOCK_OF_DELTA = {"text_delta": "text", "thinking_delta": "thinking"}
"""The type of block that each type of delta belongs to."""


@dataclass(slots=True)
class AnthropicDecoder:
    """Decodes raw Messages events into chunks."""

    origin: Origin
    is_finished: bool = False
    is_complete: bool = False
    """Whether a stop reason has arrived. `message_stop` is not required, because some relays do not send it."""
    _blocks: list[JsonObject] = field(default_factory=list)
    """The blocks in the order in which they started. Their indices are not unique if a relay joins several answers."""
    _position_by_index: dict[int, int] = field(default_factory=dict)
    """Position in `_blocks` of the newest block with each index."""
    _inputs: dict[int, list[str]] = field(default_factory=dict)
    """The pieces of each block's JSON input. They are joined only at the end, because joining after each piece would
    take quadratic time."""
    _argument_chars: dict[int, int] = field(default_factory=dict)
    _usage: JsonObject = field(default_factory=dict)
    _stop_reason: StopReason = "end"

    @property
    def api(self) -> ApiName:
        return "anthropic"

    def feed(self, event: JsonObject) -> Iterator[Chunk]:
        match event.get("type"):
            case "message_start":
                self._discard_broken_answer()
                self._update_usage((event.get("message") or {}).get("usage"))
            case "content_block_start":
                yield from self._start_block(event.get("index") or 0, event.get("content_block") or {})
            case "content_block_delta":
                yield from self._add_delta(event.get("index") or 0, event["delta"])
            case "message_delta":
                self._update_usage(event.get("usage"))
                self._set_stop_reason((event.get("delta") or {}).get("stop_reason"))
            case "message_stop" | "[DONE]":  # relays end every stream as OpenAI does
                self.is_complete = self.is_complete or bool(self._blocks)
                self.is_finished = True
            case "message":  # a reply that was not streamed
                self._update_usage(event.get("usage"))
                for index, block in enumerate(event["content"]):
                    yield from self._start_block(index, block)
                self._set_stop_reason(event.get("stop_reason"))
                self.is_complete = self.is_finished = True
            case "error":
                raise self.origin.response_error(200, {}, event)

    def reply(self) -> Reply:
        usage = Usage(
            input=parse_token_count(self._usage.get("input_tokens")),
            cache_read=parse_token_count(self._usage.get("cache_read_input_tokens")),
            cache_write=parse_token_count(self._usage.get("cache_creation_input_tokens")),
            output=parse_token_count(self._usage.get("output_tokens")),
            reasoning=parse_token_count((self._usage.get("output_tokens_details") or {}).get("thinking_tokens")),
        )
        parts = [self._reply_part(block_index) for block_index in range(len(self._blocks))]
        search_count = sum(str(block["type"]).endswith("_tool_result") for block in self._blocks)
        return replace(
            build_reply(parts, self.origin.model, usage, self._stop_reason),
            pass_count=1 + search_count,
            web_search_count=self._web_search_count(),
        )

    def _web_search_count(self) -> int:
        """Return the number of billed web searches. Failed searches are free."""
        if isinstance(counts := self._usage.get("server_tool_use"), dict):
            return parse_token_count(counts.get("web_search_requests"))
        return sum(
            block["type"] == "web_search_tool_result" and isinstance(block.get("content"), list)
            for block in self._blocks
        )

    def _discard_broken_answer(self) -> None:
        """Discard the blocks of an answer that broke off. A relay that retried the request sends the second answer in
        the same stream."""
        self._blocks = []
        self._position_by_index = {}
        self._inputs = {}
        self._argument_chars = {}

    def _update_usage(self, usage: JsonObject | None) -> None:
        """Update the usage. Later counts replace earlier ones; missing counts remain unchanged."""
        self._usage |= {name: value for name, value in (usage or {}).items() if value is not None}

    def _set_stop_reason(self, reason: str | None) -> None:
        if reason:
            self.is_complete = True
            self._stop_reason = STOP_REASONS.get(reason, self._stop_reason)

    def _start_block(self, index: int, block: JsonObject) -> Iterator[Chunk]:
        """Start a block. Relays omit empty fields, or send null."""
        block = {"type": "text", **block}
        for name in _TEXT_FIELDS.get(block["type"], ()):
            block[name] = block.get(name) or ""
        block_index = self._position_by_index[index] = len(self._blocks)
        self._blocks.append(block)
        if block["type"] == "tool_use":
            self._argument_chars[block_index] = 0
            yield self._call_chunk(block_index)
        elif block["type"] == "text" and block["text"]:
            yield TextChunk(sendable_text(block["text"]))
        elif block["type"] == "thinking" and block["thinking"]:
            yield ReasoningChunk(sendable_text(block["thinking"]))

    def _add_delta(self, index: int, delta: JsonObject) -> Iterator[Chunk]:
        kind = delta.get("type")
        if index not in self._position_by_index and kind in _BLOCK_OF_DELTA:  # some servers omit the start of a block
            yield from self._start_block(index, {"type": _BLOCK_OF_DELTA[kind]})
        block_index = self._position_by_index[index]
        block = self._blocks[block_index]
        match kind:
            case "text_delta" if delta.get("text"):
                block["text"] += delta["text"]
                yield TextChunk(sendable_text(delta["text"]))
            case "thinking_delta" if delta.get("thinking"):
                block["thinking"] += delta["thinking"]
                yield ReasoningChunk(sendable_text(delta["thinking"]))
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
            case "input_json_delta" if delta.get("partial_json"):
                self._inputs.setdefault(block_index, []).append(delta["partial_json"])
                if block_index in self._argument_chars:
                    self._argument_chars[block_index] += len(delta["partial_json"])
                    yield self._call_chunk(block_index)

    def _call_chunk(self, block_index: int) -> CallChunk:
        block = self._blocks[block_index]
        return CallChunk(
            list(self._argument_chars).index(block_index),
            sendable_text(block["name"]),
            self._argument_chars[block_index],
            sendable_text(block["id"]),
        )

    def _reply_part(self, block_index: int) -> AssistantPart:
        block, source = self._blocks[block_index], "".join(self._inputs.get(block_index, ()))
        match block["type"]:
            case "text":
                is_plain = set(block) <= {"type", "text", "citations"} and not block.get("citations")
                return Text(sendable_text(block["text"]), None if is_plain else block)
            case "tool_use":
                received_input = block.get("input")
                if not source and isinstance(received_input, dict) and received_input:
                    return ToolCall(block["id"], block["name"], received_input)
                source = source or (
                    received_input
                    if isinstance(received_input, str)
                    else json.dumps(received_input)
                    if received_input
                    else ""
                )
                return build_call(block["id"], block["name"], source)
            case "thinking":
                block["thinking"] = sendable_text(block["thinking"])
                return Reasoning(block["thinking"], block)
            case "redacted_thinking":
                return Reasoning("", block)
            case "server_tool_use":
                searched = {**block, "input": dict(parse_arguments(source)[0]) or block.get("input") or {}}
                return ProviderItem(_without_nulls(searched))
            case "web_search_tool_result":
                return ProviderItem(_without_nulls(block))
            case "tool_search_tool_result":
                return ProviderItem(block, tuple(_found_tools(block["content"])))
            case _:
                return ProviderItem({**block, "input": dict(parse_arguments(source)[0])} if source else block)


def _without_nulls(block: JsonObject) -> JsonObject:
    """Return the block without null fields such as `caller`, which the API does not accept when they are sent back."""
    return {name: value for name, value in block.items() if value is not None}


def _found_tools(content: JsonObject) -> Iterator[str]:
    """Yield the names of the tools that a tool search found. Yields none if the search failed."""
    for reference in content.get("tool_references") or ():
        yield str(reference["tool_name"])


ADAPTER = Adapter(
    path="/v1/messages",
    build_body=lambda request, facts, _window, _quirks, written: build_body(request, facts, written),
    create_encoder=AnthropicEncoder,
    create_decoder=AnthropicDecoder,
    create_sdk_wire=lambda origin: SdkWire("anthropic", origin, create_client, lambda client: client.messages),
    get_server_url=server_url,
    build_headers=build_headers,
)
"""Adapter for the Messages API, on Anthropic's or a compatible server."""
