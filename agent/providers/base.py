"""The seam between the agent and a model: what is asked, what comes back."""

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
    """US dollars per million tokens. `long_*` hold for a whole request whose prompt is longer than `long_above`."""

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
        """US dollars of one request."""
        price = self.at(usage.prompt)
        return (
            usage.input * price.input
            + usage.cache_read * price.cache_read
            + usage.cache_write * price.cache_write
            + usage.output * price.output
        )

    def at(self, prompt: int) -> PerToken:
        """The prices that hold for a request with a prompt of so many tokens."""
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
"""Weights of a model that is led by the hand, at most."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model, each fact with its source."""

    provider: str
    name: str
    context_window: int
    max_output_tokens: int
    """The most the model can produce in one reply; a request may ask for less."""
    max_input_tokens: int | None = None
    prices: Prices | None = None
    """None when they are not known. A local model has prices of 0."""
    images: bool = False
    thinking: str = "none"
    """How the model is told to think: none, adaptive, budget (Anthropic) or effort (OpenAI)."""
    tool_search: HostedSearch = "none"
    """How its provider finds tools that are held back: plain (Anthropic), grouped (OpenAI), or none of its own."""
    most_tools: int | None = None
    """How many definitions of tools its provider takes in one request, where there is a limit."""
    known: bool = True
    """False when nothing but defaults is known of it."""
    calls_in_text: bool = False
    """Whether calls that it writes into its text are taken as calls."""
    may_repeat: bool = False
    """Whether it is one of those that may fall into a circle: a reply that says the same without end is stopped."""
    parameters: float | None = None
    """How many weights it has, as its server or its name says; None where neither does."""
    temperature: float | None = None
    """What requests state of it; None where it is left to the server."""
    cache_min_tokens: int = 1024
    """The shortest beginning of a request that its provider caches."""
    cache_ttl: float = 300.0
    """Seconds after its last use for which a provider keeps what it has cached."""
    renews_cache: bool = False
    """Whether its provider says that the cache is kept for so long, and for so long again with each use."""
    sources: tuple[tuple[str, str], ...] = ()
    """Pairs of fact and source: registry, config, live or default."""
    server: str = ""
    """Digest of the address at which it is reached: another server may run another model of the name."""

    @property
    def id(self) -> str:
        """`provider/name`, as the user writes it."""
        return f"{self.provider}/{self.name}"

    @property
    def is_small(self) -> bool:
        """Whether it is one of those that need to be led: they begin without a look at anything, write calls into
        their text and tell of changes that they have not made."""
        return self.parameters is not None and self.parameters <= SMALL_MODEL


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    max_output_tokens: int
    session: str
    """A stable id of the session, which some providers use to route to the same cache."""
    effort: str | None = None
    """How hard to think: none, minimal, low, medium, high, xhigh or max; None leaves it to the model."""
    stable: int = 0
    """Characters of `system` that other sessions begin with, too; they are sent as a block of their own."""
    breakpoints: Breakpoints = field(default_factory=Breakpoints)
    """Where the provider may cut its cache. It changes nothing of what the model is told."""


def without_secrets(request: Request, secrets: SecretTokens) -> Request:
    """The request with tokens in the place of secrets; the same object where there are none."""
    system, messages = secrets.system(request.system), secrets.messages(request.messages)
    if system == request.system and messages is request.messages:
        return request
    stable = len(secrets.system(request.system[: request.stable])) if request.stable else 0
    return replace(request, system=system, messages=messages, stable=stable)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a provider is reached and how it knows us."""

    base_url: str = field(repr=False)
    """It may hold a password."""
    key: str | None = field(default=None, repr=False)
    """The API key; None for a server that wants none."""
    timeout: float = 120.0
    """Seconds without anything of an answer, before its beginning or in it, after which the request has failed."""
    connect_timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class TextChunk:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningChunk:
    text: str


@dataclass(frozen=True, slots=True)
class CallChunk:
    """A piece of a call's arguments has arrived."""

    index: int
    name: str
    size: int
    """Characters of arguments so far."""
    id: str = ""
    """As the server has named the call; empty where it has not yet."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole answer to one request; always the last chunk of its stream."""

    message: Assistant
    usage: Usage
    stop_reason: StopReason
    passes: int = 1
    """How often the provider has read the request for this reply: once more after each search of its own. `usage` may
    be the sum."""

    @property
    def single_pass_usage(self) -> Usage:
        """What the request took when it was read once; nothing where that cannot be told."""
        return self.usage if self.passes == 1 else Usage()


Chunk: TypeAlias = TextChunk | ReasoningChunk | CallChunk | Reply


class Provider(Protocol):
    """A model at the other end of a wire."""

    @property
    def facts(self) -> ModelFacts: ...

    @property
    def window(self) -> Window: ...

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Chunks as they arrive, ending in one `Reply`. Raises only `ProviderError`; may be cancelled at any await."""

    async def prepare(self) -> None:
        """Loads what the first request needs, so that it need not wait for it. A request works without it, too."""

    async def close(self) -> None:
        """Gives back the connection. The provider is not used afterwards."""
