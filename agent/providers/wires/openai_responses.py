"""OpenAI's Responses API: request bodies and stream events. Nothing is stored on the server."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from ebbtide.agent.budget.prefix import parts_in_sent_order
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
)
from ebbtide.agent.providers import wires
from ebbtide.agent.providers.base import CallChunk, Chunk, ModelFacts, ReasoningChunk, Reply, Request, TextChunk
from ebbtide.agent.providers.registry import has_breakpoints
from ebbtide.agent.providers.wires.adapter import Adapter
from ebbtide.agent.providers.wires.decoder import (
    OMITTED_IMAGE_TEXT,
    ApiName,
    CallIds,
    build_call,
    build_reply,
    can_send_images,
    output_text,
    parse_arguments,
    parse_openai_usage,
    parse_token_count,
)
from ebbtide.agent.providers.wires.encoding import EncodedMessages, RequestEncodingCache
from ebbtide.agent.providers.wires.http import JsonObject
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.providers.wires.tool_definitions import make_schema_sendable, sendable_name
from ebbtide.agent.tool_specs import SEARCH_TOOL, ToolSpec
from ebbtide.agent.view.long_texts import sendable_text
from ebbtide.tools.tool_traits import traits_of

QUIRK_CLUES = {
    "reasoning.summary": "summary",
    "ncrypted content": "include",
    "prompt_cache_key": "prompt_cache_key",
    "prompt_cache_breakpoint": "breakpoints",
    "custom": "free_text",
    "'function'": "free_text",
    "tool type": "free_text",
}
"""Error texts that reveal a rejected field, and the quirk that removes it. OpenAI rejects some fields for unverified
accounts and for models without thinking; some compatible servers do not know them."""

RESERVED_NAME_ALIASES = {SEARCH_TOOL: "search_tools"}
"""Names sent in place of tool names that the API reserves."""

WEB_SEARCH: JsonObject = {"type": "web_search"}
"""The API's built-in web search."""

MAX_CALL_ID_CHARS = 64
"""Maximum length of a call id, in characters."""

MIN_OUTPUT_TOKENS = 16
"""Minimum output limit that the API accepts, in tokens."""
INCOMPLETE_REASONS: dict[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


def build_body(
    request: Request,
    facts: ModelFacts,
    quirks: frozenset[str] = frozenset(),
    encoding_cache: "RequestEncodingCache[ResponsesEncoder] | None" = None,
    *,
    namespace: str = "",
) -> JsonObject:
    """Return the JSON body of a request. `encoding_cache`: the encoded messages of the previous request, which are
    reused. `namespace`: the namespace of tools that are not deferred; empty for none."""
    namespaces = {
        tool.name: namespace if tool.deferred_group is None else tool.deferred_group.name
        for tool in request.tools
        if namespace or tool.deferred_group is not None
    }
    uses_free_text = "free_text" not in quirks and can_send_free_text(facts.name)
    encoded = (encoding_cache or RequestEncodingCache(ResponsesEncoder)).encode(
        request.messages, facts, tuple(namespaces.items()), uses_free_text
    )
    marks = request.breakpoints.parts if "breakpoints" not in quirks and has_breakpoints(facts.name) else ()
    body: JsonObject = {
        "model": facts.name,
        "input": encoded.build_items(marks, {"prompt_cache_breakpoint": {"mode": "explicit"}}),
        "max_output_tokens": max(request.max_output_tokens, MIN_OUTPUT_TOKENS),
        "store": False,
        "stream": True,
    }
    if request.system.strip():
        body["instructions"] = sendable_text(request.system)
    if request.tools:
        body["tools"] = _tool_definitions(request.tools, uses_free_text=uses_free_text)
    if "prompt_cache_key" not in quirks:
        body["prompt_cache_key"] = request.session_id
    if facts.thinking == "effort":
        body |= _thinking_fields(request, quirks)
    if request.max_web_searches:
        body["tools"] = [*body.get("tools", ()), WEB_SEARCH]
        body["max_tool_calls"] = request.max_web_searches
        body["include"] = [*body.get("include", ()), "web_search_call.action.sources"]
    return body


def can_send_free_text(name: str) -> bool:
    """Whether an OpenAI model can call tools with plain text. GPT-5 and later can, on any server."""
    version = re.search(r"(?:^|[/:])gpt-(\d+)(?!\d|o)", name)
    return version is not None and int(version[1]) >= 5


def _tool_definitions(tools: Sequence[ToolSpec], *, uses_free_text: bool) -> list[JsonObject]:
    """Return the tool definitions. Deferred ones are grouped in namespaces, where the API's own search finds them."""
    definitions: list[JsonObject] = []
    namespaces: dict[str, JsonObject] = {}
    for tool in tools:
        group = tool.deferred_group
        if uses_free_text and tool.kind == "builtin" and traits_of(tool.name).free_text_argument:
            definitions.append({"type": "custom", "name": tool.name, "description": tool.description})
        elif group is None or not group.name:
            definitions.append(_function_definition(tool))
        else:
            if group.name not in namespaces:
                namespace: JsonObject = {
                    "type": "namespace",
                    "name": group.name,
                    "description": group.description,
                    "tools": [],
                }
                namespaces[group.name] = namespace
                definitions.append(namespace)
            namespaces[group.name]["tools"].append(_function_definition(tool))
    has_deferred = any(tool.deferred_group is not None for tool in tools)
    return [*definitions, {"type": "tool_search"}] if has_deferred else definitions


def _function_definition(tool: ToolSpec) -> JsonObject:
    definition: JsonObject = {
        "type": "function",
        "name": RESERVED_NAME_ALIASES.get(tool.name, tool.name),
        "description": tool.description,
        "parameters": make_schema_sendable(tool.schema),
        "strict": False,  # strict schemas do not allow optional parameters
    }
    return definition if tool.deferred_group is None else definition | {"defer_loading": True}


def _thinking_fields(request: Request, quirks: frozenset[str]) -> JsonObject:
    reasoning = {"effort": request.effort} if request.effort else {}
    if "summary" not in quirks and request.effort != "none":
        reasoning["summary"] = "auto"
    content: JsonObject = {"reasoning": reasoning} if reasoning else {}
    if "include" not in quirks:
        content["include"] = ["reasoning.encrypted_content"]
    return content


class ResponsesEncoder:
    """Encodes the conversation as items. Text and images of the user and of outputs can be marked for caching; the
    model's own text cannot."""

    def __init__(self, facts: ModelFacts, namespaces: tuple[tuple[str, str], ...], uses_free_text: bool) -> None:
        self.encoded_messages = EncodedMessages()
        self._facts, self._namespaces = facts, dict(namespaces)
        """Namespace of each deferred tool, by tool name."""
        self._uses_free_text = uses_free_text
        self._call_item_types: dict[str, str] = {}
        """Item type used to encode each call, by call id."""
        self._ids = CallIds(facts.id, max_chars=MAX_CALL_ID_CHARS)

    def add(self, message: Message) -> None:
        ends = self.encoded_messages.markable_ends
        if isinstance(message, Assistant):
            self._ids.add(message)
            self._call_item_types.update((call.id, self._call_item_type(call)) for call in message.calls)
            self.encoded_messages.add(
                _assistant_items(message, self._facts, self._ids, self._namespaces, self._call_item_types)
            )
            ends += [ends[-1] if ends else None] * len(message.parts)
            return
        content: list[JsonObject] = []
        for part in parts_in_sent_order(message):  # outputs are sent first
            position = (len(self.encoded_messages), "content", len(content))
            match part:
                case ToolOutput():
                    kind = self._call_item_types.get(part.call_id, "function_call")
                    output = _output_item(part, self._facts, self._ids, kind)
                    blocks = output["output"]
                    position = (len(self.encoded_messages), "output", len(blocks) - 1)
                    self.encoded_messages.add([output])
                    is_markable = isinstance(blocks, list)
                case Text(text=text) | Note(text=text) if text:
                    content.append({"type": "input_text", "text": sendable_text(text)})
                    is_markable = True
                case Image():
                    content.append(_image_block(part, self._facts))
                    is_markable = True
                case _:
                    is_markable = False
            ends.append(position if is_markable else ends[-1] if ends else None)
        self.encoded_messages.add([{"role": "user", "content": content}] if content else [])

    def _call_item_type(self, call: ToolCall) -> str:
        """Return the item type for a call. A call made under a different name from the tool's is sent as JSON."""
        uses_free_text = self._uses_free_text and bool(traits_of(call.name).free_text_argument) and not call.called
        return "custom_tool_call" if uses_free_text else "function_call"


def _output_item(output: ToolOutput, facts: ModelFacts, ids: CallIds, call_type: str) -> JsonObject:
    """Return the output as text or as a list of blocks. For models with breakpoints, it is always a list, so that
    adding a breakpoint does not change its format."""
    text = output_text(output)
    blocks = [{"type": "input_text", "text": text}, *(_image_block(image, facts) for image in output.images)]
    content = blocks if output.images or has_breakpoints(facts.name) else text
    return {"type": f"{call_type}_output", "call_id": ids[output.call_id], "output": content}


def _image_block(image: Image, facts: ModelFacts) -> JsonObject:
    if not can_send_images(facts):
        return {"type": "input_text", "text": OMITTED_IMAGE_TEXT}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{image.media_type};base64,{image.data}"}


def _assistant_items(
    message: Assistant, facts: ModelFacts, ids: CallIds, namespaces: Mapping[str, str], item_types: Mapping[str, str]
) -> list[JsonObject]:
    is_from_same_model = message.model == facts.id
    items: list[JsonObject] = []
    for part in message.parts if _has_valid_searches(message, namespaces) else _without_searches(message):
        match part:
            case Text(native=native) if is_from_same_model and native:
                items.append(dict(native))
            case Text(text=text):
                items += [{"role": "assistant", "content": sendable_text(text)}] if text else []
            case ToolCall() if item_types[part.id] == "custom_tool_call":
                items.append(_free_text_call(part, ids))
            case ToolCall():
                items.append(_call_item(part, ids, namespaces.get(part.name, "")))
            case Reasoning(native=native):
                # Without encrypted content, an item only refers to data that is not stored on the server.
                items += [dict(native)] if is_from_same_model and native.get("encrypted_content") else []
            case ProviderItem(native=native):
                items += [dict(native)] if is_from_same_model else []
    while items and items[-1].get("type") == "reasoning" and "format" not in items[-1]:
        items.pop()  # OpenAI requires reasoning to be followed by its result; OpenRouter, which adds a format, does not
    return items


def _has_valid_searches(message: Assistant, namespaces: Mapping[str, str]) -> bool:
    """Whether the searches in a reply can be sent again. The API checks calls against loaded tools, so the tools that a
    search loaded must now be deferred, in the same namespaces. If searches are omitted, the model can search again."""
    loaded = [pair for part in message.parts if isinstance(part, ProviderItem) for pair in _loaded_tools(part.native)]
    return bool(namespaces) and all(namespaces.get(name) == namespace for name, namespace in loaded)


def _loaded_tools(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and namespace of each tool that a search loaded."""
    for tool in (item.get("tools") or ()) if item.get("type") == "tool_search_output" else ():
        if tool.get("type") == "namespace":
            yield from ((nested_tool["name"], tool["name"]) for nested_tool in tool["tools"])
        else:
            yield tool["name"], ""


def _without_searches(message: Assistant) -> list[AssistantPart]:
    """Return the parts of a reply without its searches. Reasoning right before a search is also removed, because it
    must not be sent without the search."""
    parts: list[AssistantPart] = []
    for part in message.parts:
        kind = part.native.get("type") if isinstance(part, ProviderItem) else None
        if kind == "tool_search_call" and parts and isinstance(parts[-1], Reasoning):
            parts.pop()
        if kind not in ("tool_search_call", "tool_search_output"):
            parts.append(part)
    return parts


def _call_item(call: ToolCall, ids: CallIds, namespace: str) -> JsonObject:
    item: JsonObject = {
        "type": "function_call",
        "call_id": ids[call.id],
        "name": RESERVED_NAME_ALIASES.get(name := call.called or call.name) or sendable_name(name),
        "arguments": call.arguments_text,
    }
    return item | {"namespace": namespace} if namespace else item


def _free_text_call(call: ToolCall, ids: CallIds) -> JsonObject:
    """Encode a call whose only argument is plain text. If the call was made through another API and has other
    arguments, its original source is sent."""
    text = call.arguments.get(traits_of(call.name).free_text_argument) if len(call.arguments) == 1 else None
    sent_input = text if isinstance(text, str) else call.source
    return {"type": "custom_tool_call", "call_id": ids[call.id], "name": call.name, "input": sent_input}


@dataclass(slots=True)
class PartialItem:
    """An item of the output whose pieces are still arriving."""

    latest_item: JsonObject
    """The newest version of the item: as started or, later, as completed."""
    index: int | None
    text_pieces: list[str] = field(default_factory=list)
    argument_pieces: list[str] = field(default_factory=list)
    argument_chars: int = 0
    """Number of characters received so far for the arguments."""
    is_final: bool = False
    """Whether the server has sent the completed item. Some servers never do."""

    @property
    def is_call(self) -> bool:
        return self.latest_item["type"] in ("function_call", "custom_tool_call") and bool(self.latest_item.get("name"))

    @property
    def complete_item(self) -> JsonObject:
        """The item, completed with content that only its deltas contain."""
        if self.latest_item["type"] == "message" and self.text_pieces and not self.latest_item.get("content"):
            content = [{"type": "output_text", "text": "".join(self.text_pieces), "annotations": []}]
            return {**self.latest_item, "role": "assistant", "content": content}
        name = "input" if self.latest_item["type"] == "custom_tool_call" else "arguments"
        if self.argument_pieces and not self.latest_item.get(name):
            return {**self.latest_item, name: "".join(self.argument_pieces)}
        return self.latest_item


_IS_CALL = attrgetter("is_call")


@dataclass(slots=True)
class ResponsesDecoder:
    """Decodes raw Responses events into chunks."""

    origin: Origin
    is_finished: bool = False
    is_complete: bool = False
    _items: list[PartialItem] = field(default_factory=list)
    _response: JsonObject = field(default_factory=dict)

    @property
    def api(self) -> ApiName:
        return "openai"

    def feed(self, event: JsonObject) -> Iterator[Chunk]:
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                self._find_or_add_item(event, "message").text_pieces.append(event["delta"])
                yield TextChunk(sendable_text(event["delta"]))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield ReasoningChunk(sendable_text(event["delta"]))
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                yield ReasoningChunk("\n\n")
            case "response.output_item.added":
                self._items.append(PartialItem(_typed_item(event["item"]), event.get("output_index")))
                if self._items[-1].is_call:
                    yield self._call_chunk(self._items[-1])
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                call = self._find_or_add_item(event, "function_call")
                call.argument_pieces.append(event["delta"])
                call.argument_chars += len(event["delta"])
                if call.is_call:
                    yield self._call_chunk(call)
            case "response.function_call_arguments.done" if event.get("arguments"):
                self._find_or_add_item(event, "function_call").argument_pieces = [_arguments_text(event["arguments"])]
            case "response.output_item.done":
                self._store_final_item(event)
            case "response.completed" | "response.incomplete":
                self._end_reply(event["response"])
            case "response.failed":
                raise self.origin.response_error(200, {}, {"error": event["response"].get("error")})
            case "error":
                raise self.origin.response_error(200, {}, event)
            case "[DONE]":  # LM Studio and relays may end without `response.completed`
                self.is_finished = True
                self.is_complete = self.is_complete or any(item.is_final for item in self._items)
            case None if event.get("object") == "response":  # a response that was not streamed
                if event.get("status") == "failed":
                    raise self.origin.response_error(200, {}, {"error": event.get("error")})
                self._end_reply(event)

    def reply(self) -> Reply:
        items = self._output_items()
        usage = self._response.get("usage") or {}
        reply = build_reply(
            [_reply_part(item) for item in items],
            self.origin.model,
            parse_openai_usage(usage, "input", "output"),
            self._stop_reason(items),
        )
        passes = 1 + sum(item["type"] in ("tool_search_output", "web_search_call") for item in items)
        return replace(reply, pass_count=passes, web_search_count=self._web_search_count(items))

    def _web_search_count(self, items: Sequence[JsonObject]) -> int:
        """Count the web searches that cost money. Opening a page is free."""
        match self._response.get("tool_usage"):
            case {"web_search": {**counts}}:
                return parse_token_count(counts.get("num_requests"))
        searches = (item for item in items if item["type"] == "web_search_call" and item.get("status") != "failed")
        actions = (item.get("action") for item in searches)
        return sum(not isinstance(action, dict) or action.get("type", "search") == "search" for action in actions)

    def _end_reply(self, response: JsonObject) -> None:
        self._response = response
        self.is_complete = self.is_finished = True

    def _find_or_add_item(self, event: JsonObject, kind: str) -> PartialItem:
        """Find or create the item that a delta belongs to. Copilot's ids differ in each event, so the index takes
        precedence. If the server sends no index, or one index for several items, the delta belongs to the newest
        item."""
        index, item_id = event.get("output_index"), event.get("item_id")
        for item in reversed(self._items):
            if (item.index == index) if index is not None else (item.latest_item.get("id") == item_id):
                return item
        self._items.append(PartialItem({"type": kind}, index))
        return self._items[-1]

    def _store_final_item(self, event: JsonObject) -> None:
        """Store a completed item."""
        item, index = _typed_item(event["item"]), event.get("output_index")
        for partial_item in self._items:
            is_same = (
                partial_item.latest_item.get("id") == item.get("id") if index is None else partial_item.index == index
            )
            has_only_deltas = partial_item.index is None and partial_item.latest_item == {"type": item["type"]}
            if not partial_item.is_final and (is_same or has_only_deltas):
                partial_item.latest_item, partial_item.index, partial_item.is_final = item, index, True
                return
        self._items.append(PartialItem(item, index, is_final=True))

    def _output_items(self) -> list[JsonObject]:
        """Return the items of the reply, as the server completed them or as assembled from their deltas."""
        is_ordered = all(item.index is not None for item in self._items)
        ordered_items = sorted(self._items, key=lambda item: item.index or 0) if is_ordered else self._items
        whole_output = [item for item in _objects(self._response.get("output")) if "type" in item]
        return [item.complete_item for item in ordered_items] or whole_output

    def _call_chunk(self, call: PartialItem) -> CallChunk:
        index = next(index for index, item in enumerate(filter(_IS_CALL, self._items)) if item is call)
        name = sendable_text(_tool_name(call.latest_item["name"]))
        call_id = sendable_text(call.latest_item.get("call_id") or "")
        return CallChunk(index, name, call.argument_chars, call_id)

    def _stop_reason(self, items: Sequence[JsonObject]) -> StopReason:
        details = self._response.get("incomplete_details") or {}
        is_refused = any(part.get("type") == "refusal" for item in items for part in _objects(item.get("content")))
        return INCOMPLETE_REASONS.get(details.get("reason") or "", "refusal" if is_refused else "end")


def _typed_item(item: JsonObject) -> JsonObject:
    """Return the item. Raises `TypeError` or `KeyError` if it is null or has no type: then the event is skipped."""
    _ = item["type"]
    return item


def _objects(items: object) -> list[JsonObject]:
    """Return the objects in a list. Relays send null for an empty list, and in lists."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _arguments_text(arguments: object) -> str:
    """Return the arguments of a call as text. Some servers send an object."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _reply_part(item: JsonObject) -> AssistantPart:
    """Convert an item of the output to a part. Null fields are removed, because the server does not accept them when
    they are sent back."""
    native = {name: value for name, value in item.items() if value is not None}
    match item["type"]:
        case "message":
            native["content"] = content = _objects(item.get("content"))
            texts = (part.get("text") or part.get("refusal") or "" for part in content)
            return Text(sendable_text("".join(texts)), native)
        case "function_call":
            call_id = item.get("call_id") or item.get("id") or ""
            return build_call(call_id, _tool_name(item["name"]), _arguments_text(item.get("arguments") or ""))
        case "custom_tool_call":
            name = _tool_name(item["name"])
            return build_call(item["call_id"], name, _arguments_json(name, item["input"]))
        case "reasoning":
            parts = item.get("summary") or item.get("content") or ()
            return Reasoning(sendable_text("\n\n".join(part.get("text", "") for part in parts)), native)
        case "tool_search_call" | "tool_search_output":
            native.pop("created_by", None)  # the server does not accept this field when it is sent back
            return ProviderItem(native)
        case _:
            return ProviderItem(native)


def _arguments_json(name: str, text: str) -> str:
    """Convert the arguments of a plain-text call to JSON. Some models write JSON although plain text is expected."""
    if text.lstrip().startswith("{") and not parse_arguments(text)[1]:
        return text
    return json.dumps({traits_of(name).free_text_argument or "input": text}, ensure_ascii=False)


def _tool_name(name: str) -> str:
    return next((our_name for our_name, alias in RESERVED_NAME_ALIASES.items() if alias == name), name)


ADAPTER = Adapter(
    path="/responses",
    build_body=lambda request, facts, _, quirks, written: build_body(request, facts, quirks, written),
    create_encoder=ResponsesEncoder,
    create_decoder=ResponsesDecoder,
    create_sdk_wire=lambda origin: wires.sdk.SdkWire(
        "openai", origin, wires.sdk.create_openai_client, lambda client: client.responses
    ),
    quirk_by_clue=QUIRK_CLUES,
)
