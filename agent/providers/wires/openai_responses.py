"""OpenAI's Responses API: request bodies and stream events. Nothing is stored on the server."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ebbtide.agent.context.long_texts import sendable
from ebbtide.agent.context.prefix import in_sent_order
from ebbtide.agent.context.tool_selection import ToolSpec
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
from ebbtide.agent.providers.base import CallChunk, Chunk, ModelFacts, ReasoningChunk, Reply, Request, TextChunk
from ebbtide.agent.providers.registry import has_breakpoints
from ebbtide.agent.providers.wires.adapter import Adapter
from ebbtide.agent.providers.wires.decoder import (
    NO_IMAGE,
    CallIds,
    make_call,
    make_reply,
    openai_usage,
    output_text,
    read_arguments,
    takes_images,
)
from ebbtide.agent.providers.wires.encoding import EncodedMessages, WrittenRequest
from ebbtide.agent.providers.wires.http import Json
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.providers.wires.sdk import SdkWire, openai_client
from ebbtide.agent.providers.wires.tool_definitions import sent_schema, wire_name

QUIRKS = {
    "reasoning.summary": "summary",
    "ncrypted content": "include",
    "prompt_cache_key": "prompt_cache_key",
    "prompt_cache_breakpoint": "breakpoints",
    "custom": "free_text",
    "'function'": "free_text",
    "tool type": "free_text",
}
"""Fields that OpenAI rejects for unverified accounts and models without thinking, and some compatible servers
reject."""

FREE_TEXT = {"apply_patch": "patch"}
"""Tools that OpenAI's models call with plain text instead of JSON, and the argument that the text is."""

ALIASES = {"tool_search": "search_tools"}
"""Our tools whose names are reserved by the API: it rejects a request with a function of that name."""

LONGEST_ID = 64
"""Longest call id that the API accepts, in characters."""

LEAST_OUTPUT = 16
"""The smallest output limit that the API accepts, in tokens."""
INCOMPLETE: dict[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


def body(
    request: Request,
    facts: ModelFacts,
    quirks: frozenset[str] = frozenset(),
    written: "WrittenRequest[ResponsesWriter] | None" = None,
) -> Json:
    """The JSON body of a request. `written`: the messages already encoded for the previous request, which are
    reused."""
    namespaces = {tool.name: tool.deferred.name for tool in request.tools if tool.deferred is not None}
    is_free = "free_text" not in quirks and takes_free_text(facts.name)
    sheet = (written or WrittenRequest(ResponsesWriter)).of(request.messages, facts, tuple(namespaces.items()), is_free)
    marks = request.breakpoints.parts if "breakpoints" not in quirks and has_breakpoints(facts.name) else ()
    content: Json = {
        "model": facts.name,
        "input": sheet.items(marks, {"prompt_cache_breakpoint": {"mode": "explicit"}}),
        "max_output_tokens": max(request.max_output_tokens, LEAST_OUTPUT),
        "store": False,
        "stream": True,
    }
    if request.system.strip():
        content["instructions"] = sendable(request.system)
    if request.tools:
        content["tools"] = _tools(request.tools, is_free=is_free)
    if "prompt_cache_key" not in quirks:
        content["prompt_cache_key"] = request.session
    if facts.thinking == "effort":
        content |= _thinking(request, quirks)
    return content


def takes_free_text(name: str) -> bool:
    """Whether an OpenAI model can call tools with plain text: since GPT-5, on any server."""
    version = re.search(r"(?:^|[/:])gpt-(\d+)(?!\d|o)", name)
    return version is not None and int(version[1]) >= 5


def _tools(tools: Sequence[ToolSpec], *, is_free: bool) -> list[Json]:
    """The tool definitions. Deferred ones are grouped in namespaces, which the API's own search looks up."""
    definitions: list[Json] = []
    namespaces: dict[str, Json] = {}
    for tool in tools:
        group = tool.deferred
        if is_free and tool.kind == "builtin" and tool.name in FREE_TEXT:
            definitions.append({"type": "custom", "name": tool.name, "description": tool.description})
        elif group is None or not group.name:
            definitions.append(_function(tool))
        else:
            if group.name not in namespaces:
                about: Json = {"type": "namespace", "name": group.name, "description": group.about, "tools": []}
                namespaces[group.name] = about
                definitions.append(about)
            namespaces[group.name]["tools"].append(_function(tool))
    has_deferred = any(tool.deferred is not None for tool in tools)
    return [*definitions, {"type": "tool_search"}] if has_deferred else definitions


def _function(tool: ToolSpec) -> Json:
    definition: Json = {
        "type": "function",
        "name": ALIASES.get(tool.name, tool.name),
        "description": tool.description,
        "parameters": sent_schema(tool.schema),
        "strict": False,  # strict schemas do not allow optional parameters
    }
    return definition if tool.deferred is None else definition | {"defer_loading": True}


def _thinking(request: Request, quirks: frozenset[str]) -> Json:
    reasoning = {"effort": request.effort} if request.effort else {}
    if "summary" not in quirks and request.effort != "none":
        reasoning["summary"] = "auto"
    content: Json = {"reasoning": reasoning} if reasoning else {}
    if "include" not in quirks:
        content["include"] = ["reasoning.encrypted_content"]
    return content


class ResponsesWriter:
    """Encodes the conversation as items. Text and images of the user and of outputs can be marked for the cache; the
    model's own text cannot."""

    def __init__(self, facts: ModelFacts, namespaces: tuple[tuple[str, str], ...], is_free: bool) -> None:
        self.sheet = EncodedMessages()
        self._facts, self._namespaces = facts, dict(namespaces)
        """The namespaces of deferred tools, by tool name."""
        self._is_free = is_free
        self._kinds: dict[str, str] = {}
        """The item type that each call was encoded as."""
        self._ids = CallIds(facts.id, longest=LONGEST_ID)

    def add(self, message: Message) -> None:
        ends = self.sheet.ends
        if isinstance(message, Assistant):
            self._ids.add(message)
            self._kinds.update((call.id, self._kind_of(call)) for call in message.calls)
            self.sheet.add(_assistant_items(message, self._facts, self._ids, self._namespaces, self._kinds))
            ends += [ends[-1] if ends else None] * len(message.parts)
            return
        content: list[Json] = []
        for part in in_sent_order(message):  # outputs come first
            place = (len(self.sheet), "content", len(content))
            match part:
                case ToolOutput():
                    kind = self._kinds.get(part.call_id, "function_call")
                    output = _output(part, self._facts, self._ids, kind)
                    blocks = output["output"]
                    place = (len(self.sheet), "output", len(blocks) - 1)
                    self.sheet.add([output])
                    is_markable = isinstance(blocks, list)
                case Text(text=text) | Note(text=text) if text:
                    content.append({"type": "input_text", "text": sendable(text)})
                    is_markable = True
                case Image():
                    content.append(_image(part, self._facts))
                    is_markable = True
                case _:
                    is_markable = False
            ends.append(place if is_markable else ends[-1] if ends else None)
        self.sheet.add([{"role": "user", "content": content}] if content else [])

    def _kind_of(self, call: ToolCall) -> str:
        """The item type of a call. A call under another name was written as JSON."""
        is_free = self._is_free and call.name in FREE_TEXT and not call.called
        return "custom_tool_call" if is_free else "function_call"


def _output(output: ToolOutput, facts: ModelFacts, ids: CallIds, kind: str) -> Json:
    """The output as text or a list of blocks: always a list for models with breakpoints, so that a breakpoint does
    not change its form."""
    text = output_text(output)
    blocks = [{"type": "input_text", "text": text}, *(_image(image, facts) for image in output.images)]
    content = blocks if output.images or has_breakpoints(facts.name) else text
    return {"type": f"{kind}_output", "call_id": ids[output.call_id], "output": content}


def _image(image: Image, facts: ModelFacts) -> Json:
    if not takes_images(facts):
        return {"type": "input_text", "text": NO_IMAGE}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{image.media_type};base64,{image.data}"}


def _assistant_items(
    message: Assistant, facts: ModelFacts, ids: CallIds, namespaces: Mapping[str, str], kinds: Mapping[str, str]
) -> list[Json]:
    own = message.model == facts.id
    items: list[Json] = []
    for part in message.parts if _has_searches(message, namespaces) else _without_searches(message):
        match part:
            case Text(native=native) if own and native:
                items.append(dict(native))
            case Text(text=text):
                items += [{"role": "assistant", "content": sendable(text)}] if text else []
            case ToolCall() if kinds[part.id] == "custom_tool_call":
                items.append(_free_text_call(part, ids))
            case ToolCall():
                items.append(_call(part, ids, namespaces.get(part.name, "")))
            case Reasoning(native=native):
                # Without its encrypted content, an item only references what the server has not stored.
                items += [dict(native)] if own and native.get("encrypted_content") else []
            case ProviderItem(native=native):
                items += [dict(native)] if own else []
    while items and items[-1].get("type") == "reasoning":
        items.pop()  # the API requires each to be followed by its result
    return items


def _has_searches(message: Assistant, namespaces: Mapping[str, str]) -> bool:
    """Whether the searches in a reply are still valid: the tools they loaded are deferred now, in the same
    namespaces. The API checks calls against loaded tools; the model can search for the others again."""
    loaded = [pair for part in message.parts if isinstance(part, ProviderItem) for pair in _loaded_tools(part.native)]
    return bool(namespaces) and all(namespaces.get(name) == namespace for name, namespace in loaded)


def _loaded_tools(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The name and namespace of each tool that a search loaded."""
    for tool in (item.get("tools") or ()) if item.get("type") == "tool_search_output" else ():
        if tool.get("type") == "namespace":
            yield from ((inner["name"], tool["name"]) for inner in tool["tools"])
        else:
            yield tool["name"], ""


def _without_searches(message: Assistant) -> list[AssistantPart]:
    """The parts of a reply without its searches, and without reasoning that must be followed by one."""
    kept: list[AssistantPart] = []
    for part in message.parts:
        kind = part.native.get("type") if isinstance(part, ProviderItem) else None
        if kind == "tool_search_call" and kept and isinstance(kept[-1], Reasoning):
            kept.pop()
        if kind not in ("tool_search_call", "tool_search_output"):
            kept.append(part)
    return kept


def _call(call: ToolCall, ids: CallIds, namespace: str) -> Json:
    item: Json = {
        "type": "function_call",
        "call_id": ids[call.id],
        "name": ALIASES.get(name := call.called or call.name) or wire_name(name),
        "arguments": call.source if call.source.strip() else json.dumps(dict(call.arguments), ensure_ascii=False),
    }
    return item | {"namespace": namespace} if namespace else item


def _free_text_call(call: ToolCall, ids: CallIds) -> Json:
    """The call with its single text; a call of another form, from another wire, uses its original source."""
    text = call.arguments.get(FREE_TEXT[call.name]) if len(call.arguments) == 1 else None
    written = text if isinstance(text, str) else call.source
    return {"type": "custom_tool_call", "call_id": ids[call.id], "name": call.name, "input": written}


@dataclass(slots=True)
class ResponsesDecoder:
    """Decodes raw Responses events into chunks."""

    origin: Origin
    finished: bool = False
    _items: dict[int, Json] = field(default_factory=dict)
    """Complete items by index in the output."""
    _calls: dict[int | str, str] = field(default_factory=dict)
    """Names of the calls that have begun, by index in the output, or by id if the server sends no index."""
    _ids: dict[int | str, str] = field(default_factory=dict)
    _sizes: dict[int | str, int] = field(default_factory=dict)
    _response: Json = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.finished

    def feed(self, event: Json) -> Iterator[Chunk]:
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                yield TextChunk(sendable(event["delta"]))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield ReasoningChunk(sendable(event["delta"]))
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                yield ReasoningChunk("\n\n")
            case "response.output_item.added" if event["item"]["type"] in ("function_call", "custom_tool_call"):
                place = event.get("output_index", event["item"].get("id"))
                self._calls[place] = _our_name(event["item"]["name"])
                self._ids[place] = event["item"].get("call_id") or ""
                yield self._call_chunk(place, "")
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
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
        made = make_reply(
            [_part(item) for item in items],
            self.origin.model,
            openai_usage(usage, "input", "output"),
            self._stop(items),
        )
        return replace(made, passes=1 + sum(item["type"] == "tool_search_output" for item in items))

    def _call_chunk(self, place: int | str, piece: str) -> CallChunk:
        self._sizes[place] = self._sizes.get(place, 0) + len(piece)
        index, name, id = list(self._calls).index(place), sendable(self._calls[place]), sendable(self._ids[place])
        return CallChunk(index, name, self._sizes[place], id)

    def _stop(self, items: Sequence[Json]) -> StopReason:
        details = self._response.get("incomplete_details") or {}
        refused = any(part.get("type") == "refusal" for item in items for part in item.get("content") or ())
        return INCOMPLETE.get(details.get("reason") or "", "refusal" if refused else "end")


def _part(item: Json) -> AssistantPart:
    """An item of the output, without null fields, which the server does not accept back."""
    native = {name: value for name, value in item.items() if value is not None}
    match item["type"]:
        case "message":
            texts = (part.get("text") or part.get("refusal") or "" for part in item["content"])
            return Text(sendable("".join(texts)), native)
        case "function_call":
            return make_call(item["call_id"], _our_name(item["name"]), item["arguments"])
        case "custom_tool_call":
            name = _our_name(item["name"])
            return make_call(item["call_id"], name, _as_json(name, item["input"]))
        case "reasoning":
            parts = item.get("summary") or item.get("content") or ()
            return Reasoning(sendable("\n\n".join(part.get("text", "") for part in parts)), native)
        case "tool_search_call" | "tool_search_output":
            native.pop("created_by", None)  # the server does not accept this one back either
            return ProviderItem(native)
        case _:
            return ProviderItem(native)


def _as_json(name: str, text: str) -> str:
    """The arguments of a plain-text call. Some models write JSON anyway."""
    if text.lstrip().startswith("{") and not read_arguments(text)[1]:
        return text
    return json.dumps({FREE_TEXT.get(name, "input"): text}, ensure_ascii=False)


def _our_name(name: str) -> str:
    return next((ours for ours, alias in ALIASES.items() if alias == name), name)


ADAPTER = Adapter(
    path="/responses",
    body=lambda request, facts, _, quirks, written: body(request, facts, quirks, written),
    writer=ResponsesWriter,
    decoder=ResponsesDecoder,
    sdk=lambda origin: SdkWire("openai", origin, openai_client, lambda client: client.responses),
    quirks=QUIRKS,
)
