"""What the contract tests run over: every adapter on every wire, and a request with everything in it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from ebbtide.agent.budget.prefix import Breakpoints
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.messages import Assistant, Image, Note, ProviderItem, Reasoning, Text, ToolCall, ToolOutput, User
from ebbtide.agent.providers.base import Chunk, Endpoint, KeySource, ModelFacts, Provider, Reply, Request
from ebbtide.agent.providers.wires import anthropic, ollama, openai_chat, openai_responses
from ebbtide.agent.providers.wires.adapter import WireProvider
from ebbtide.agent.providers.wires.chat_decoder import ChatDecoder
from ebbtide.agent.providers.wires.decoder import Decoder
from ebbtide.agent.providers.wires.http import EventReader, JsonObject, NdjsonReader, SseReader
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.tool_specs import ToolSpec
from tests.kit.fake_frames import WireName, seal_of, signature_of

Library: TypeAlias = Literal["sdk", "http"]

KEY = "sk-secret-0123456789"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WINDOW = Window(size=32_000, output=4_000)

READ = ToolSpec(
    "read",
    "Reads a file.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where it is."},
            "limit": {"type": "integer", "minimum": 1},
            "from": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "First line."},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
)
SHELL = ToolSpec("shell", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})


@dataclass(frozen=True, slots=True)
class Adapter:
    """One adapter, and what differs between adapters where the tests must know."""

    name: WireName
    make: Callable[..., Provider]
    """Takes `ModelFacts`, `Window`, `Endpoint` and `Library`, and what else `WireProvider` takes."""
    decoder: Callable[[Origin], Decoder]
    reader: Callable[[], EventReader]
    body: Callable[[Request, ModelFacts], JsonObject]
    facts: ModelFacts
    native: dict[str, Any]
    """A reasoning part as this provider sends it."""
    path: str
    has_ids: bool = True
    has_cache: bool = True


ADAPTERS = (
    Adapter(name="anthropic",
            make=partial(WireProvider, anthropic.ADAPTER),
            decoder=anthropic.AnthropicDecoder,
            reader=SseReader,
            body=anthropic.build_body,
            facts=ModelFacts("anthropic", "claude-opus-5-5", 1_000_000, 128_000, images=True, thinking="adaptive"),
            native={"type": "thinking", "thinking": "Let me see.", "signature": signature_of("Let me see.")},
            path="/v1/messages"),
    Adapter(name="responses",
            make=partial(WireProvider, openai_responses.ADAPTER),
            decoder=openai_responses.ResponsesDecoder,
            reader=SseReader,
            body=openai_responses.build_body,
            facts=ModelFacts("openai", "gpt-6-sol", 1_050_000, 128_000, images=True, thinking="effort"),
            native={"id": "rs_1",
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "Let me see."}],
                    "encrypted_content": seal_of("Let me see.")},
            path="/v1/responses"),
    Adapter(name="chat",
            make=partial(WireProvider, openai_chat.ADAPTER),
            decoder=ChatDecoder,
            reader=SseReader,
            body=openai_chat.build_body,
            facts=ModelFacts("openai-chat", "local", 32_000, 4_000, images=True),
            native={"reasoning_content": "Let me see."},
            path="/v1/chat/completions"),
    Adapter(name="ollama",
            make=partial(WireProvider, ollama.ADAPTER),
            decoder=ollama.OllamaDecoder,
            reader=NdjsonReader,
            body=lambda request, facts: ollama.build_body(request, facts, WINDOW.size),
            facts=ModelFacts("ollama", "qwen3", 32_000, 4_000, images=True, thinking="adaptive"),
            native={"thinking": "Let me see."},
            path="/api/chat",
            has_ids=False,
            has_cache=False),
)  # fmt: skip


def endpoint_of(adapter: Adapter, url: str, timeout: float = 30.0, key: str | None = KEY) -> Endpoint:
    return Endpoint(url if adapter.name in ("anthropic", "ollama") else f"{url}/v1", key, timeout)


@asynccontextmanager
async def connected(
    adapter: Adapter,
    wire: Library,
    url: str,
    timeout: float = 30.0,
    key: str | None = KEY,
    keys: KeySource | None = None,
) -> AsyncIterator[Provider]:
    """A model behind a real socket."""
    provider = adapter.make(adapter.facts, WINDOW, endpoint_of(adapter, url, timeout, key), wire, key_source=keys)
    try:
        yield provider
    finally:
        await provider.close()


def hello(text: str = "hello") -> Request:
    return Request("Be brief.", (User((Text(text),)),), (READ, SHELL), 1_000, "session-1")


def everything(adapter: Adapter) -> Request:
    """A request with every kind of part in it, of this model and of another."""
    image = Image("image/png", PIXEL)
    return Request(
        system="Be brief.",
        messages=(
            User((Text("What is in a.txt, and in the picture?"), image)),
            Assistant(
                (
                    Reasoning("Hm.", {"type": "thinking", "thinking": "Hm.", "signature": "of another"}),
                    ProviderItem({"type": "server_tool_use", "id": "x"}),
                    Text("I look."),
                    ToolCall("call_1", "read", {"path": "a.txt"}, source='{"path":"a.txt"}'),
                ),
                model="other/model",
            ),
            User((ToolOutput("call_1", "first line\nzweite Zeile ✓"),)),
            Assistant(
                (
                    Reasoning("Let me see.", adapter.native),
                    Text("Two more."),
                    ToolCall("call_2", "shell", {"command": "ls"}, source='{"command": "ls"}'),
                    ToolCall("call_1", "read", {}, source="{broken", problem="not valid JSON"),
                ),
                model=adapter.facts.id,
            ),
            User(
                (
                    Text("Go on, please."),
                    ToolOutput("call_2", "", images=(image,)),
                    ToolOutput("call_1", "the arguments are not valid JSON", status="failed"),
                )
            ),
            Assistant((Reasoning("Let me see.", adapter.native), ToolCall("call_3", "shell", {})), adapter.facts.id),
            User((ToolOutput("call_3", "denied by a rule", status="denied"), Note("[Context: 83% used.]"))),
        ),
        tools=(READ, SHELL),
        max_output_tokens=4_000,
        session_id="session-1",
        effort="high",
        shared_prefix_chars=3,
        breakpoints=Breakpoints((9,), (7, 14, 18)),
    )


async def collect(provider: Provider, request: Request) -> list[Chunk]:
    return [chunk async for chunk in provider.stream(request)]


async def last(provider: Provider, request: Request) -> Reply:
    chunks = await collect(provider, request)
    assert isinstance(chunks[-1], Reply)
    return chunks[-1]
