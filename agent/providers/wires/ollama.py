"""Ollama's own chat API: request bodies and stream events.

The API has no call ids, so they are generated here. If `num_ctx` is too small, Ollama silently drops the oldest
messages, and its default is small. So every request sets the context window. It always sets the same value, because
Ollama reloads the model when the value changes.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, cast

from ebbtide.agent.errors import ProviderError, RouteFailed
from ebbtide.agent.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    Note,
    Reasoning,
    StopReason,
    Text,
    ToolCall,
    Usage,
    User,
)
from ebbtide.agent.providers import wires
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
from ebbtide.agent.providers.registry import with_parameter_count, with_server_facts
from ebbtide.agent.providers.wires.adapter import Adapter
from ebbtide.agent.providers.wires.decoder import (
    OMITTED_IMAGE_TEXT,
    TOOL_IMAGES_HEADING,
    ApiName,
    arguments_as_written,
    build_call,
    build_reply,
    can_send_images,
    create_call_id,
    output_text,
    parse_token_count,
)
from ebbtide.agent.providers.wires.encoding import EncodedMessages, RequestEncodingCache
from ebbtide.agent.providers.wires.http import (
    JsonObject,
    NdjsonReader,
    bearer_headers,
    open_httpx_client,
    post_json,
    translate_errors,
)
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.providers.wires.quirks import ALTERNATION_CLUES, with_alternating_roles
from ebbtide.agent.providers.wires.tool_definitions import sendable_name
from ebbtide.agent.view.long_texts import sendable_text

if TYPE_CHECKING:
    import ollama

DEFAULT_PORT = 11434
KEEP_ALIVE = "30m"
LIVE_FACTS_TIMEOUT_S = 5.0
"""Timeout for requesting the facts about a model, in seconds. A session cannot start before this request has ended."""


async def fetch_live_facts(endpoint: Endpoint, facts: ModelFacts, configured_window: int | None = None) -> ModelFacts:
    """Update the facts with what the server reports about the model. They stay unchanged if the server does not
    respond."""
    url = server_url(endpoint)
    origin = Origin(
        facts.id, replace(endpoint, base_url=url, timeout=LIVE_FACTS_TIMEOUT_S, connect_timeout=LIVE_FACTS_TIMEOUT_S)
    )
    try:
        details = await post_json(origin, f"{url}/api/show", bearer_headers(endpoint), {"model": facts.name})
    except ProviderError:
        return facts  # the server is old or not running; the first request will report that
    info = details.get("model_info")
    info = info if isinstance(info, dict) else {}
    max_window = info.get(f"{info.get('general.architecture')}.context_length")
    capabilities = details.get("capabilities")
    updated_facts = with_server_facts(
        facts,
        max_window=max_window if isinstance(max_window, int) else None,
        capabilities=tuple(map(str, capabilities)) if isinstance(capabilities, list) else None,
        configured_window=configured_window,
    )
    server_parameters = details.get("parameters")
    has_default_temperature = not (isinstance(server_parameters, str) and "temperature" in server_parameters.split())
    return with_parameter_count(
        updated_facts, info.get("general.parameter_count"), has_default_temperature=has_default_temperature
    )


def server_url(endpoint: Endpoint) -> str:
    """Return the server's address as a URL. `OLLAMA_HOST` may lack the scheme or port, and may be a listening address
    such as `0.0.0.0`."""
    address = endpoint.base_url.rstrip("/") or "127.0.0.1"
    if "://" not in address:
        host, slash, path = address.partition("/")
        if host.count(":") > 1 and not host.startswith("["):
            host = f"[{host}]"  # an IPv6 address, which Ollama itself accepts without brackets
        has_port = host.rpartition(":")[2].isdigit() and not host.endswith("]")
        name = "127.0.0.1" if host.startswith(":") else ""
        port = "" if has_port else f":{DEFAULT_PORT}"
        address = f"http://{name}{host}{port}{slash}{path}"
    return address.replace("://0.0.0.0", "://127.0.0.1", 1)


def build_body(
    request: Request,
    facts: ModelFacts,
    window_tokens: int,
    encoding_cache: "RequestEncodingCache[OllamaEncoder] | None" = None,
    quirks: frozenset[str] = frozenset(),
) -> JsonObject:
    """Return the JSON body of a request. `window_tokens`: the model's window, in tokens. `encoding_cache`: the encoded
    messages of the previous request, which are reused."""
    items = (
        (encoding_cache or RequestEncodingCache(OllamaEncoder))
        .encode(request.messages, request.system, facts)
        .build_items()
    )
    body: JsonObject = {
        "model": facts.name,
        "messages": with_alternating_roles(items) if "alternating" in quirks else items,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": reduce_schema(tool.schema),
                },
            }
            for tool in request.tools
        ],
        "stream": True,
        "options": {"num_ctx": window_tokens, "num_predict": request.max_output_tokens},
        "keep_alive": KEEP_ALIVE,
    }
    if facts.temperature is not None:
        body["options"]["temperature"] = facts.temperature
    if facts.thinking != "none":
        has_levels = facts.thinking == "effort" and request.effort in ("low", "medium", "high")
        body["think"] = request.effort if has_levels else request.effort != "none"
    return body


def reduce_schema(schema: Mapping[str, object]) -> JsonObject:
    """Return a tool's parameters as Ollama's SDK sends them: type, items, description and enum of each property.

    An `anyOf` of a single type and null is replaced by that type, because the SDK does not send `anyOf`.
    """
    reduced: JsonObject = {"type": "object"}
    for name in ("items", "required"):
        if schema.get(name) is not None:
            reduced[name] = schema[name]
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        reduced["properties"] = {name: _reduce_property(value) for name, value in properties.items()}
    if schema.get("$defs") is not None:
        reduced["$defs"] = schema["$defs"]
    return reduced


def _reduce_property(schema: object) -> JsonObject:
    if not isinstance(schema, Mapping):
        return {}
    branches = [branch for branch in schema.get("anyOf") or () if branch != {"type": "null"}]
    if len(branches) == 1 and isinstance(branches[0], Mapping):
        schema = {**branches[0], **schema}
    return {name: schema[name] for name in ("type", "items", "description", "enum") if schema.get(name) is not None}


class OllamaEncoder:
    """Encodes the conversation without empty messages."""

    def __init__(self, system: str, facts: ModelFacts) -> None:
        self.encoded_messages = EncodedMessages()
        self._add([_encoded_message("system", system)] if system.strip() else [])
        self._facts = facts
        self._tool_names: dict[str, str] = {}

    def add(self, message: Message) -> None:
        if isinstance(message, Assistant):
            self._tool_names |= {call.id: sendable_name(call.called or call.name) for call in message.calls}
            self._add([_assistant_message(message, message.model == self._facts.id)])
        else:
            self._add(_user_messages(message, self._facts, self._tool_names))

    def _add(self, messages: Sequence[JsonObject]) -> None:
        self.encoded_messages.add(message for message in messages if len(message) > 1)


def _encoded_message(role: str, text: str, images: Sequence[Image] = (), **other_fields: object) -> JsonObject:
    """Encode a message, omitting empty fields as the SDK does."""
    fields = {"content": sendable_text(text), "images": [image.data for image in images], **other_fields}
    return {"role": role, **{name: value for name, value in fields.items() if value}}


def _user_messages(message: User, facts: ModelFacts, names: Mapping[str, str]) -> list[JsonObject]:
    """Split a user message into the API's messages. Each output becomes a separate message with its tool's name,
    because this API has no call ids."""
    converted = [
        _encoded_message("tool", output_text(output), tool_name=names.get(output.call_id, "unnamed"))
        for output in message.outputs
    ]
    images = [image for output in message.outputs for image in output.images]
    texts = [TOOL_IMAGES_HEADING] if images else []
    texts += [part.text for part in message.parts if isinstance(part, Text | Note)]
    images += [part for part in message.parts if isinstance(part, Image)]
    if not can_send_images(facts):
        texts += [OMITTED_IMAGE_TEXT] * len(images)
        images = []
    return [*converted, _encoded_message("user", "\n".join(texts), images)]


def _assistant_message(message: Assistant, keeps_thoughts: bool) -> JsonObject:
    thoughts = [str(part.native.get("thinking", "")) for part in message.parts if isinstance(part, Reasoning)]
    calls = [
        {"function": {"name": sendable_name(call.called or call.name), "arguments": dict(arguments_as_written(call))}}
        for call in message.calls
    ]
    thinking = "".join(thoughts) if keeps_thoughts else ""
    return _encoded_message("assistant", message.text, thinking=thinking, tool_calls=calls)


@dataclass(slots=True)
class OllamaDecoder:
    """Decodes the raw events of a chat into chunks."""

    origin: Origin
    make_id: Callable[[], str] = create_call_id
    is_finished: bool = False
    _texts: list[str] = field(default_factory=list)
    _thoughts: list[str] = field(default_factory=list)
    _calls: list[ToolCall] = field(default_factory=list)
    _final_event: JsonObject = field(default_factory=dict)

    @property
    def api(self) -> ApiName:
        return "ollama"

    @property
    def is_complete(self) -> bool:
        return self.is_finished

    def feed(self, event: JsonObject) -> Iterator[Chunk]:
        if event.get("error"):
            raise self.origin.response_error(200, {}, event)
        message = event.get("message") or {}
        if message.get("thinking"):
            self._thoughts.append(message["thinking"])
            yield ReasoningChunk(sendable_text(message["thinking"]))
        if message.get("content"):
            self._texts.append(message["content"])
            yield TextChunk(sendable_text(message["content"]))
        for call in message.get("tool_calls") or ():
            self._calls.append(parse_call(call["function"], self.make_id()))
            argument_chars = len(json.dumps(self._calls[-1].arguments, ensure_ascii=False))
            yield CallChunk(len(self._calls) - 1, self._calls[-1].name, argument_chars, self._calls[-1].id)
        if event.get("done"):
            self._final_event = event
            self.is_finished = True

    def reply(self) -> Reply:
        parts: list[AssistantPart] = []
        if thoughts := sendable_text("".join(self._thoughts)):
            parts.append(Reasoning(thoughts, {"thinking": thoughts}))
        parts += [Text(sendable_text("".join(self._texts))), *self._calls]
        usage = Usage(
            input=parse_token_count(self._final_event.get("prompt_eval_count")),
            output=parse_token_count(self._final_event.get("eval_count")),
        )
        stop_reason: StopReason = "max_tokens" if self._final_event.get("done_reason") == "length" else "end"
        return build_reply(parts, self.origin.model, usage, stop_reason)


def parse_call(function: JsonObject, call_id: str) -> ToolCall:
    """Build a call. This API sends arguments as an object, but compatible servers may send them as text."""
    arguments, name = function.get("arguments") or {}, function.get("name") or ""
    return build_call(call_id, name, arguments if isinstance(arguments, str) else json.dumps(arguments))


class OllamaSdkWire:
    """Sends requests through Ollama's SDK, which is built on httpx instead of httpx2."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._client: ollama.AsyncClient | None = None

    async def prepare(self) -> None:
        with suppress(RouteFailed):  # the first request will report the error
            await _import_sdk()

    async def events(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        if self._client is None:
            await _import_sdk()
        with translate_sdk_errors(self._origin):
            if self._client is None:
                self._client = create_client(self._origin)
            # The SDK declares an iterator but returns a generator, which holds its connection until the generator is
            # closed.
            stream = cast("AsyncGenerator[ollama.ChatResponse, None]", await self._client.chat(**body))
            async with aclosing(stream):
                async for part in stream:
                    yield part.model_dump(exclude_none=True)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()  # type: ignore[no-untyped-call]  # the SDK has no types here
            self._client = None


async def _import_sdk() -> None:
    """Import the SDK. On import, it creates a client with the proxies and certificates set in the environment. Raises
    `RouteFailed` if those are unusable."""
    try:
        await asyncio.to_thread(import_module, "ollama")
    except Exception as error:
        raise wires.proxies.client_error(error) from error


def create_client(origin: Origin) -> "ollama.AsyncClient":
    import ollama  # noqa: PLC0415 - deferred: 0.4 s that other providers do not need

    # Only these headers are sent: the SDK would send a key that it finds in the environment to any server.
    sent_headers = {"user-agent", "content-type", "accept"}
    transport = wires.httpx_bridge.HttpxTransport(
        open_httpx_client(origin), origin, sent_headers, bearer_headers(origin.endpoint)
    )
    return ollama.AsyncClient(host=origin.endpoint.base_url, follow_redirects=False, transport=transport)


@contextmanager
def translate_sdk_errors(origin: Origin) -> Iterator[None]:
    """Convert exceptions of Ollama's SDK into provider errors."""
    import ollama  # noqa: PLC0415 - deferred: see `create_client`

    with translate_errors(origin):
        try:
            yield
        except ollama.ResponseError as error:
            raise origin.response_error(200, {}, {"error": error.error}) from error  # raised in the middle of a reply


ADAPTER = Adapter(
    path="/api/chat",
    build_body=lambda request, facts, window, quirks, written: build_body(request, facts, window.size, written, quirks),
    create_encoder=OllamaEncoder,
    create_decoder=OllamaDecoder,
    create_sdk_wire=OllamaSdkWire,
    get_server_url=server_url,
    create_reader=NdjsonReader,
    quirk_by_clue=ALTERNATION_CLUES,
)
