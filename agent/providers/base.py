"""The provider interface: requests to a model and its replies."""

from collections.abc import AsyncIterator
from dataclasses import field, replace
from typing import Protocol, TypeAlias

from ebbtide.agent.budget.prefix import Breakpoints
from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.messages import Assistant, AssistantPart, Message, ProviderItem, StopReason, Usage
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.tool_specs import HostedSearch, ToolSpec
from ebbtide.tools.lazy import dataclass

MAX_SMALL_MODEL_PARAMETERS = 4e9
"""Maximum number of parameters of a small model, which gets extra guidance."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about a model, with their sources."""

    provider: str
    name: str
    context_window: int
    max_output_tokens: int
    """Maximum number of tokens that the model can produce in one reply; a request may set a lower limit."""
    max_input_tokens: int | None = None
    prices: Prices | None = None
    """None if unknown. A local model has prices of 0."""
    images: bool = False
    thinking: str = "none"
    """How thinking is requested: `none`, `adaptive`, `budget` (Anthropic) or `effort` (OpenAI)."""
    tool_search: HostedSearch = "none"
    """The provider's own search for deferred tools: `plain` (Anthropic), `grouped` (OpenAI) or `none`."""
    searches_web: bool = False
    """Whether the provider searches the web itself, if a request allows that."""
    dollars_per_search: float = 0.01
    """Price of one web search by the provider, in addition to the tokens of its results."""
    max_tools: int | None = None
    """Maximum number of tool definitions that the provider accepts in one request; None if there is no limit."""
    is_known: bool = True
    """Whether anything but the defaults is known about the model."""
    writes_calls_as_text: bool = False
    """Whether calls that the model writes as text are run as tool calls."""
    may_repeat: bool = False
    """Whether the model may get stuck in a loop. If so, a reply that keeps repeating itself is stopped."""
    parameter_count: float | None = None
    """Number of parameters, from the server or the model's name; None if neither states it."""
    temperature: float | None = None
    """Temperature set in requests; None leaves it to the server."""
    cache_min_tokens: int = 1024
    """Length of the shortest prefix that the provider caches, in tokens."""
    cache_ttl: float = 300.0
    """Seconds for which the provider keeps a cached prefix after its last use."""
    cache_lifetime: str = ""
    """The API's name of the cache lifetime that requests ask for; empty for the API's default."""
    renews_cache: bool = False
    """Whether the provider guarantees `cache_ttl`, counted from the last use."""
    sources: tuple[tuple[str, str], ...] = ()
    """Pairs of a fact's name and its source: `registry`, `config`, `live` or `default`."""
    server_digest: str = ""
    """Digest of the server's address, because another server may run a different model under the same name."""

    @property
    def id(self) -> str:
        """`provider/name`, as the user writes it."""
        return f"{self.provider}/{self.name}"

    @property
    def is_small(self) -> bool:
        """Whether the model is so small that it needs extra guidance. Small models start work without looking at any
        file, write calls as plain text, and report changes that they did not make."""
        return self.parameter_count is not None and self.parameter_count <= MAX_SMALL_MODEL_PARAMETERS


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    max_output_tokens: int
    session_id: str
    """Stable id of the session. Some providers use it to route requests to the same cache."""
    effort: str | None = None
    """Thinking effort: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`; None leaves it to the model."""
    shared_prefix_chars: int = 0
    """Number of characters at the start of `system` that other sessions also send. They are sent as a separate block.
    """
    breakpoints: Breakpoints = field(default_factory=Breakpoints)
    """Positions at which a cached prefix can end. They do not change what the model reads."""
    max_web_searches: int = 0
    """Maximum number of web searches by the provider itself; 0 disables its search."""


def without_secrets(request: Request, secrets: SecretTokens) -> Request:
    """Return the request with secrets replaced by tokens. A request without secrets is returned unchanged."""
    system, messages = secrets.hide_in_system(request.system), secrets.hide_in_messages(request.messages)
    if system == request.system and messages is request.messages:
        return request
    shared_prefix_chars = (
        len(secrets.hide_in_system(request.system[: request.shared_prefix_chars])) if request.shared_prefix_chars else 0
    )
    return replace(request, system=system, messages=messages, shared_prefix_chars=shared_prefix_chars)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A provider's address, key and timeouts."""

    base_url: str = field(repr=False)
    """The server's address. `repr` hides it because it may contain a password."""
    key: str | None = field(default=None, repr=False)
    """The API key; None if the server needs none."""
    timeout: float = 120.0
    """Seconds of silence, before or during a reply, after which a request fails."""
    connect_timeout: float = 10.0
    is_gateway: bool = False
    """Whether this address is a gateway that signs in to the cloud itself, so that requests are sent unsigned."""


class KeySource(Protocol):
    """Supplies a provider's key, if the key may change while the program runs."""

    @property
    def renewal_statuses(self) -> frozenset[int]:
        """The HTTP statuses that mean that a newer key may be accepted."""

    async def get_key(self) -> str:
        """Return the current key. Raises `AuthFailed` if there is none."""

    async def renew_key(self, rejected_key: str) -> str:
        """Return a key to replace `rejected_key`, which the server has rejected. Returns `rejected_key` itself if there
        is no other. Raises `AuthFailed` if there is no key."""


@dataclass(frozen=True, slots=True)
class TextChunk:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningChunk:
    text: str


@dataclass(frozen=True, slots=True)
class CallChunk:
    """Notice that another piece of a call's arguments has arrived."""

    index: int
    name: str
    argument_chars: int
    """Number of characters of the arguments that have arrived so far."""
    id: str = ""
    """The server's id for the call; empty until it is known."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply. It is always the last chunk of a stream."""

    message: Assistant
    usage: Usage
    stop_reason: StopReason
    pass_count: int = 1
    """How often the provider read the request: once, plus once after each of its own searches. `usage` may be the sum
    of all passes."""
    web_search_count: int = 0
    """Number of web searches that the provider charges for."""
    billed_dollars: float | None = None
    """Cost of the request in US dollars, if the provider states it."""
    skipped_frame_count: int = 0
    """Number of unreadable frames that were skipped."""

    @property
    def single_pass_usage(self) -> Usage:
        """Usage of the reply if it took a single pass. Otherwise empty, because the usage of each pass is unknown."""
        return self.usage if self.pass_count == 1 else Usage()


def is_web_search_result(part: AssistantPart) -> bool:
    """Whether a part of a reply is a result of the provider's own web search, or the reason why the search failed."""
    return isinstance(part, ProviderItem) and part.native.get("type") in ("web_search_tool_result", "web_search_call")


Chunk: TypeAlias = TextChunk | ReasoningChunk | CallChunk | Reply


class Provider(Protocol):
    """A model that answers requests."""

    @property
    def facts(self) -> ModelFacts: ...

    @property
    def window(self) -> Window: ...

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield chunks as they arrive, ending with one `Reply`. Raises only `ProviderError`; may be cancelled at any
        await."""

    async def prepare(self) -> None:
        """Load in advance what the first request needs. Calling this is optional."""

    async def close(self) -> None:
        """Close the connection. The provider must not be used afterwards."""
