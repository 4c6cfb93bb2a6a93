"""Ollama's own chat API: request bodies and stream events.

The API has no call ids, so they are generated here. Ollama silently drops the oldest messages if `num_ctx` is too
small, and its default is small. So every request states the window, and always the same one, since a change reloads
the model."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, cast

from ebbtide.agent.context.long_texts import sendable
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
from ebbtide.agent.providers.registry import with_live, with_parameters
from ebbtide.agent.providers.wires.adapter import Adapter
from ebbtide.agent.providers.wires.decoder import (
    NO_IMAGE,
    TOOL_IMAGES,
    count,
    make_call,
    make_reply,
    new_id,
    output_text,
    takes_images,
    written_arguments,
)
from ebbtide.agent.providers.wires.encoding import EncodedMessages, WrittenRequest
from ebbtide.agent.providers.wires.http import Json, NdjsonReader, bearer, open_client, post_json, translate_errors
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.providers.wires.quirks import ALTERNATION, alternating
from ebbtide.agent.providers.wires.tool_definitions import wire_name

if TYPE_CHECKING:
    import ollama

PORT = 11434
KEEP_ALIVE = "30m"
LIVE_TIMEOUT = 5.0
"""Timeout for the server's facts about a model, in seconds; it delays the start of a session."""


async def live_facts(endpoint: Endpoint, facts: ModelFacts, set_window: int | None = None) -> ModelFacts:
    """The facts updated with what the server knows of the model; unchanged if it does not respond."""
    url = root(endpoint)
    origin = Origin(facts.id, replace(endpoint, base_url=url, timeout=LIVE_TIMEOUT, connect_timeout=LIVE_TIMEOUT))
    try:
        shown = await post_json(origin, f"{url}/api/show", bearer(endpoint), {"model": facts.name})
    except ProviderError:
        return facts  # an old server, or none: the first request reports the error
    info = shown.get("model_info")
    info = info if isinstance(info, dict) else {}
    length = info.get(f"{info.get('general.architecture')}.context_length")
    capabilities = shown.get("capabilities")
    found = with_live(
        facts,
        longest=length if isinstance(length, int) else None,
        capabilities=tuple(map(str, capabilities)) if isinstance(capabilities, list) else None,
        set_window=set_window,
    )
    chosen = shown.get("parameters")
    is_usual = not (isinstance(chosen, str) and "temperature" in chosen.split())
    return with_parameters(found, info.get("general.parameter_count"), has_usual_sampling=is_usual)


def root(endpoint: Endpoint) -> str:
    """The server's address as a URL. `OLLAMA_HOST` may lack scheme and port, and may be a listening address."""
    address = endpoint.base_url.rstrip("/") or "127.0.0.1"
    if "://" not in address:
        host, slash, path = address.partition("/")
        has_port = host.rpartition(":")[2].isdigit() and not host.endswith("]")
        address = (
            f"http://{'127.0.0.1' if host.startswith(':') else ''}{host}{'' if has_port else f':{PORT}'}{slash}{path}"
        )
    return address.replace("://0.0.0.0", "://127.0.0.1", 1)


def body(
    request: Request,
    facts: ModelFacts,
    window: int,
    written: "WrittenRequest[OllamaWriter] | None" = None,
    quirks: frozenset[str] = frozenset(),
) -> Json:
    """The JSON body of a request, with the window for the model. `written`: the messages already encoded for the
    previous request, which are reused."""
    items = (written or WrittenRequest(OllamaWriter)).of(request.messages, request.system, facts).items()
    content: Json = {
        "model": facts.name,
        "messages": alternating(items) if "alternating" in quirks else items,
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
        "options": {"num_ctx": window, "num_predict": request.max_output_tokens},
        "keep_alive": KEEP_ALIVE,
    }
    if facts.temperature is not None:
        content["options"]["temperature"] = facts.temperature
    if facts.thinking != "none":
        levels = facts.thinking == "effort" and request.effort in ("low", "medium", "high")
        content["think"] = request.effort if levels else request.effort != "none"
    return content


def reduce_schema(schema: Mapping[str, object]) -> Json:
    """A tool's parameters as Ollama's SDK sends them: type, items, description and enum of each property.

    An `anyOf` with a single branch besides null is replaced by that branch, since nothing else would be left."""
    reduced: Json = {"type": "object"}
    for name in ("items", "required"):
        if schema.get(name) is not None:
            reduced[name] = schema[name]
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        reduced["properties"] = {name: _reduce_property(value) for name, value in properties.items()}
    if schema.get("$defs") is not None:
        reduced["$defs"] = schema["$defs"]
    return reduced


def _reduce_property(schema: object) -> Json:
    if not isinstance(schema, Mapping):
        return {}
    branches = [branch for branch in schema.get("anyOf") or () if branch != {"type": "null"}]
    if len(branches) == 1 and isinstance(branches[0], Mapping):
        schema = {**branches[0], **schema}
    return {name: schema[name] for name in ("type", "items", "description", "enum") if schema.get(name) is not None}


class OllamaWriter:
    """Encodes the conversation, without empty messages."""

    def __init__(self, system: str, facts: ModelFacts) -> None:
        self.sheet = EncodedMessages()
        self._add([_message("system", system)] if system.strip() else [])
        self._facts = facts
        self._names: dict[str, str] = {}

    def add(self, message: Message) -> None:
        if isinstance(message, Assistant):
            self._names |= {call.id: wire_name(call.called or call.name) for call in message.calls}
            self._add([_assistant(message, message.model == self._facts.id)])
        else:
            self._add(_user(message, self._facts, self._names))

    def _add(self, messages: Sequence[Json]) -> None:
        self.sheet.add(message for message in messages if len(message) > 1)


def _message(role: str, text: str, images: Sequence[Image] = (), **more: object) -> Json:
    """A message without empty fields, which the SDK leaves out."""
    fields = {"content": sendable(text), "images": [image.data for image in images], **more}
    return {"role": role, **{name: value for name, value in fields.items() if value}}


def _user(message: User, facts: ModelFacts, names: Mapping[str, str]) -> list[Json]:
    """Outputs as separate messages, with the name of their tool: this API has no ids."""
    converted = [
        _message("tool", output_text(output), tool_name=names.get(output.call_id, "unnamed"))
        for output in message.outputs
    ]
    images = [image for output in message.outputs for image in output.images]
    texts = [TOOL_IMAGES] if images else []
    texts += [part.text for part in message.parts if isinstance(part, Text | Note)]
    images += [part for part in message.parts if isinstance(part, Image)]
    if not takes_images(facts):
        texts += [NO_IMAGE] * len(images)
        images = []
    return [*converted, _message("user", "\n".join(texts), images)]


def _assistant(message: Assistant, keeps_thoughts: bool) -> Json:
    thoughts = [str(part.native.get("thinking", "")) for part in message.parts if isinstance(part, Reasoning)]
    calls = [
        {"function": {"name": wire_name(call.called or call.name), "arguments": dict(written_arguments(call))}}
        for call in message.calls
    ]
    thinking = "".join(thoughts) if keeps_thoughts else ""
    return _message("assistant", message.text, thinking=thinking, tool_calls=calls)


@dataclass(slots=True)
class OllamaDecoder:
    """Decodes the raw lines of a chat into chunks."""

    origin: Origin
    make_id: Callable[[], str] = new_id
    finished: bool = False
    _texts: list[str] = field(default_factory=list)
    _thoughts: list[str] = field(default_factory=list)
    _calls: list[ToolCall] = field(default_factory=list)
    _last: Json = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.finished

    def feed(self, event: Json) -> Iterator[Chunk]:
        if event.get("error"):
            raise self.origin.failure(200, {}, event)
        message = event.get("message") or {}
        if message.get("thinking"):
            self._thoughts.append(message["thinking"])
            yield ReasoningChunk(sendable(message["thinking"]))
        if message.get("content"):
            self._texts.append(message["content"])
            yield TextChunk(sendable(message["content"]))
        for call in message.get("tool_calls") or ():
            self._calls.append(read_call(call["function"], self.make_id()))
            size = len(json.dumps(self._calls[-1].arguments, ensure_ascii=False))
            yield CallChunk(len(self._calls) - 1, self._calls[-1].name, size, self._calls[-1].id)
        if event.get("done"):
            self._last = event
            self.finished = True

    def reply(self) -> Reply:
        parts: list[AssistantPart] = []
        if thoughts := sendable("".join(self._thoughts)):
            parts.append(Reasoning(thoughts, {"thinking": thoughts}))
        parts += [Text(sendable("".join(self._texts))), *self._calls]
        usage = Usage(input=count(self._last.get("prompt_eval_count")), output=count(self._last.get("eval_count")))
        stop: StopReason = "max_tokens" if self._last.get("done_reason") == "length" else "end"
        return make_reply(parts, self.origin.model, usage, stop)


def read_call(function: Json, id: str) -> ToolCall:
    """Build a call. This wire sends its arguments as an object, but compatible servers may send text."""
    arguments, name = function.get("arguments") or {}, function.get("name") or ""
    return make_call(id, name, arguments if isinstance(arguments, str) else json.dumps(arguments))


class OllamaSdkWire:
    """The wire over Ollama's SDK, which is built on httpx instead of httpx2."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._client: ollama.AsyncClient | None = None

    async def prepare(self) -> None:
        with suppress(RouteFailed):  # the first request reports it
            await _load()

    async def events(self, body: Json) -> AsyncGenerator[Json, None]:
        if self._client is None:
            await _load()
        with translate_sdk_errors(self._origin):
            if self._client is None:
                self._client = make_client(self._origin)
            # Typed as an iterator by the SDK. It is a generator, which keeps its connection until it is closed.
            stream = cast("AsyncGenerator[ollama.ChatResponse, None]", await self._client.chat(**body))
            async with aclosing(stream):
                async for part in stream:
                    yield part.model_dump(exclude_none=True)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()  # type: ignore[no-untyped-call]  # the SDK has no types here
            self._client = None


async def _load() -> None:
    """Import the SDK, which creates a client at once, with the environment's proxies and certificates. Raises
    `RouteFailed` if those are unusable."""
    try:
        await asyncio.to_thread(import_module, "ollama")
    except Exception as error:
        from ebbtide.agent.providers.wires import proxies  # noqa: PLC0415 - deferred: only needed for this error

        raise proxies.no_client(error) from error


def make_client(origin: Origin) -> "ollama.AsyncClient":
    import ollama  # noqa: PLC0415 - deferred: 0.4 s that other providers do not need

    from ebbtide.agent.providers.wires.httpx_bridge import Bridge  # noqa: PLC0415 - deferred: only Ollama's SDK is built on httpx

    # Send only these headers: the SDK would send a key from the environment to any server.
    own = {"user-agent", "content-type", "accept"}
    transport = Bridge(open_client(origin), origin, own, bearer(origin.endpoint))
    return ollama.AsyncClient(host=origin.endpoint.base_url, follow_redirects=False, transport=transport)


@contextmanager
def translate_sdk_errors(origin: Origin) -> Iterator[None]:
    """Convert exceptions of Ollama's SDK into provider errors."""
    import ollama  # noqa: PLC0415 - deferred: see `make_client`

    with translate_errors(origin):
        try:
            yield
        except ollama.ResponseError as error:
            raise origin.failure(200, {}, {"error": error.error}) from error  # in the middle of a reply


ADAPTER = Adapter(
    path="/api/chat",
    body=lambda request, facts, window, quirks, written: body(request, facts, window.size, written, quirks),
    writer=OllamaWriter,
    decoder=OllamaDecoder,
    sdk=OllamaSdkWire,
    root=root,
    reader=NdjsonReader,
    quirks=ALTERNATION,
)
