"""The provider interface: requests to a model and its replies."""

from collections.abc import AsyncIterator
from dataclasses import field, replace
from typing import Protocol, TypeAlias

from ebbtide.agent.context.budget import Window
from ebbtide.agent.context.prefix import Breakpoints
from ebbtide.agent.context.secret_tokens import SecretTokens
from ebbtide.agent.context.summary_cost import PerToken
from ebbtide.agent.context.tool_selection import HostedSearch, ToolSpec
from ebbtide.agent.messages import Assistant, Message, StopReason, Usage
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens. The `long_*` prices apply to the whole request if its prompt is longer than
    `long_above`."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    long_above: int | None = None
    long_input: float | None = None
    long_output: float | None = None
    long_cache_read: float | None = None
    long_cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """The cost of one request, in US dollars."""
        price = self.at(usage.prompt)
        return (
            usage.input * price.input
            + usage.cache_read * price.cache_read
            + usage.cache_write * price.cache_write
            + usage.output * price.output
        )

    def at(self, prompt: int) -> PerToken:
        """The prices that apply to a request with a prompt of `prompt` tokens."""
        long = self.long_above is not None and prompt > self.long_above

        def price(normal: float, above: float | None) -> float:
            return (above if long and above is not None else normal) / 1_000_000

        return PerToken(
            price(self.input, self.long_input),
            price(self.output, self.long_output),
            price(self.cache_read, self.long_cache_read),
            price(self.cache_write, self.long_cache_write),
        )


SMALL_MODEL = 4e9
"""A model with at most this many parameters gets extra guidance."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model, and the source of each fact."""

    provider: str
    name: str
    context_window: int
    max_output_tokens: int
    """The most tokens that the model can produce in one reply; a request may ask for fewer."""
    max_input_tokens: int | None = None
    prices: Prices | None = None
    """None if unknown. A local model has prices of 0."""
    images: bool = False
    thinking: str = "none"
    """How thinking is requested: none, adaptive, budget (Anthropic) or effort (OpenAI)."""
    tool_search: HostedSearch = "none"
    """The provider's own search for deferred tools: plain (Anthropic), grouped (OpenAI) or none."""
    most_tools: int | None = None
    """The most tool definitions that the provider accepts in one request; None for no limit."""
    known: bool = True
    """False if only defaults are known."""
    calls_in_text: bool = False
    """Whether tool calls in the model's text are treated as calls."""
    may_repeat: bool = False
    """Whether the model may get stuck in a loop; a reply that keeps repeating itself is then stopped."""
    parameters: float | None = None
    """Number of parameters, from the server or the model's name; None if neither states it."""
    temperature: float | None = None
    """The temperature that requests set; None leaves it to the server."""
    cache_min_tokens: int = 1024
    """The shortest prefix that the provider caches."""
    cache_ttl: float = 300.0
    """How long the provider keeps a cached prefix after its last use, in seconds."""
    renews_cache: bool = False
    """Whether the provider guarantees that lifetime, and renews it with each use."""
    sources: tuple[tuple[str, str], ...] = ()
    """Pairs of fact and source: registry, config, live or default."""
    server: str = ""
    """Digest of the server's address: another server may run a different model of the same name."""

    @property
    def id(self) -> str:
        """`provider/name`, as the user writes it."""
        return f"{self.provider}/{self.name}"

    @property
    def is_small(self) -> bool:
        """Whether the model is so small that it needs guidance: such models start without looking at anything, write
        calls into their text, and report changes that they did not make."""
        return self.parameters is not None and self.parameters <= SMALL_MODEL


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    max_output_tokens: int
    session: str
    """A stable id of the session; some providers use it to route to the same cache."""
    effort: str | None = None
    """Thinking effort: none, minimal, low, medium, high, xhigh or max; None leaves it to the model."""
    stable: int = 0
    """Length in characters of the prefix of `system` that other sessions share; it is sent as a separate block."""
    breakpoints: Breakpoints = field(default_factory=Breakpoints)
    """Where the provider may cut its cache. They do not change what the model reads."""


def without_secrets(request: Request, secrets: SecretTokens) -> Request:
    """The request with secrets replaced by tokens; the same object if there are none."""
    system, messages = secrets.system(request.system), secrets.messages(request.messages)
    if system == request.system and messages is request.messages:
        return request
    stable = len(secrets.system(request.system[: request.stable])) if request.stable else 0
    return replace(request, system=system, messages=messages, stable=stable)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A provider's address, key and timeouts."""

    base_url: str = field(repr=False)
    """It may contain a password."""
    key: str | None = field(default=None, repr=False)
    """The API key; None if the server needs none."""
    timeout: float = 120.0
    """Seconds of silence, before or during a reply, after which the request fails."""
    connect_timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class TextChunk:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningChunk:
    text: str


@dataclass(frozen=True, slots=True)
class CallChunk:
    """Part of a call's arguments has arrived."""

    index: int
    name: str
    size: int
    """Characters of arguments so far."""
    id: str = ""
    """The server's id for the call; empty until it is known."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole reply to one request; always the last chunk of its stream."""

    message: Assistant
    usage: Usage
    stop_reason: StopReason
    passes: int = 1
    """How often the provider read the request for this reply: once, plus once after each of its own searches.
    `usage` may be their sum."""

    @property
    def single_pass_usage(self) -> Usage:
        """The usage of one pass over the request; empty if it is unknown."""
        return self.usage if self.passes == 1 else Usage()


Chunk: TypeAlias = TextChunk | ReasoningChunk | CallChunk | Reply


class Provider(Protocol):
    """A model that can be asked."""

    @property
    def facts(self) -> ModelFacts: ...

    @property
    def window(self) -> Window: ...

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield chunks as they arrive, ending with one `Reply`. Raises only `ProviderError`; may be cancelled at any
        await."""

    async def prepare(self) -> None:
        """Load what the first request needs, to make it faster. Optional."""

    async def close(self) -> None:
        """Close the connection. The provider must not be used afterwards."""
