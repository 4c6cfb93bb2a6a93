"""Overview of a session's context and costs. No I/O."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ebbtide.agent.budget.cache_lifetime import PastRequest, lifetime_of, lifetime_saving
from ebbtide.agent.budget.last_request import RequestRecord
from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.budget.summary_cost import DollarsPerToken
from ebbtide.agent.calls.policy import server_prefix
from ebbtide.agent.messages import Conversation, Recalls, Usage
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.providers.base import ModelFacts
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.providers.usage import drop_other_model_anchor
from ebbtide.agent.records.usage import RequestUsage, Rewrite
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.view.items import ViewItem, pin_items, proportional_shares, view_items
from ebbtide.agent.window.deferral import ToolDeferral
from ebbtide.agent.window.measure import budget_sections
from ebbtide.agent.window.session_context import WindowContext


@dataclass(frozen=True, slots=True)
class TokenCount:
    name: str
    tokens: int
    source: str
    """Where the number comes from."""


@dataclass(frozen=True, slots=True)
class DeferredTools:
    """Tools whose definitions are not sent."""

    tools: int = 0
    tokens: int = 0
    """Tokens that their definitions would take."""


@dataclass(frozen=True, slots=True)
class ServerShare:
    """A server's tools and their size."""

    name: str
    """`mcp__SERVER`."""
    offered_count: int
    """Number of tools whose definitions the model sees."""
    tools: int
    """Total number of the server's tools."""
    tokens: int
    """Estimated tokens of the definitions that the model sees."""


@dataclass(frozen=True, slots=True)
class ToolShare:
    """One tool and its size."""

    name: str
    tokens: int
    """Estimated tokens of its definition."""
    is_sent: bool = True
    """Whether requests contain the definition."""
    is_excluded: bool = False
    """Whether the user has excluded its definition from requests."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """The requests between two rewrites. Each request is a prefix of the next."""

    requests: tuple[RequestUsage, ...]
    rewrite: Rewrite | None = None
    """The rewrite that ended the epoch; None for the current one."""

    @property
    def usage(self) -> Usage:
        return sum((request.usage for request in self.requests), Usage())

    @property
    def cost(self) -> float | None:
        return total_cost(self.requests)


@dataclass(frozen=True, slots=True)
class Overview:
    session: str
    title: str
    model: str
    components: tuple[TokenCount, ...]
    """Components of the next request."""
    window: TokenCount
    reserves: tuple[TokenCount, ...]
    """Reserves within the window."""
    effective: int
    """Tokens available to a request."""
    epochs: tuple[Epoch, ...]
    deferred: DeferredTools = DeferredTools()  # a frozen value
    servers: tuple[ServerShare, ...] = ()
    """Each server's tools and their size."""
    items: tuple[ViewItem, ...] = ()
    """The parts of the history and of pending messages, in order. Their sizes add up to the sizes of those two
    components."""
    pins: tuple[ViewItem, ...] = ()
    """Pinned content shown with the summary."""
    tools: tuple[ToolShare, ...] = ()
    """Tools that the user may exclude from requests."""
    instructions: tuple[TokenCount, ...] = ()
    """Instruction files in the system prompt. Their sizes add up to the size of the `instructions` component."""
    recalls: Recalls = Recalls()  # noqa: RUF009  # a frozen value
    """Which outputs were cut or masked, and which of them the model has recalled."""
    cache_lifetime: str = ""
    """The name of the cache lifetime that requests ask for; empty for the API's default."""
    prices_again: tuple[float, ...] | None = ()
    """Price of sending a token again, in US dollars, for each request except the first. None if the price is unknown or
    zero."""

    @property
    def used_tokens(self) -> int:
        return sum(component.tokens for component in self.components)

    @property
    def cache_saving(self) -> float:
        """Share of the input cost that the cache lifetime has saved in this session, compared with the default
        lifetime."""
        past = [PastRequest(self.session, asked.at, asked.usage.prompt) for asked in self.requests if asked.at]
        return lifetime_saving(past, lifetime_of(self.cache_lifetime))

    @property
    def requests(self) -> tuple[RequestUsage, ...]:
        return tuple(request for epoch in self.epochs for request in epoch.requests)


@dataclass(frozen=True, slots=True)
class RequestSetup:
    """What a session needs to build its requests."""

    facts: ModelFacts
    window: Window
    meter: TokenMeter
    """A copy, because measuring changes a meter, and an open session's meter must stay unchanged."""
    instructions: Instructions
    tools: Sequence[ToolSpec]
    """All tools except those of MCP servers."""
    mcp_tools: Sequence[ToolSpec] = ()
    """Tools of MCP servers."""
    deferral: ToolDeferral = field(default_factory=ToolDeferral)
    last_request: RequestRecord | None = None
    """The last request of a session that is not open. The exact setup of such a session is unknown."""
    has_same_prefix: bool = True
    """Whether the next request begins like the last one. If not, the provider's counts for the last request do not
    apply."""


MESSAGE_COMPONENTS = ("history", "pending")
"""The components made up of messages."""
ALWAYS_LISTED_COMPONENTS = ("system", "instructions", "tools", "history")
"""Components listed even if they are empty."""


def create_request_setup(window: WindowContext) -> RequestSetup:
    """Return the request setup of an open session."""
    model = window.model
    return RequestSetup(
        model.facts,
        model.known_window,
        model.meter.fresh_copy(),
        window.instructions,
        window.tools.own_specs,
        window.tools.server_tools.listed_specs,
        window.tools.deferral,
        has_same_prefix=window.prefix_watch.has_sent
        or window.prefix_watch.has_same_prefix(window.instructions.text, window.tools.offered_specs),
    )


def build_overview(
    session: str,
    title: str,
    conversation: Conversation,
    setup: RequestSetup,
    requests: Sequence[RequestUsage],
    rewrites: Sequence[Rewrite],
) -> Overview:
    """Build the overview of a session: the size of its conversation, and the cost of its requests and rewrites so
    far."""
    facts = setup.facts
    meter = setup.meter
    deferral = setup.deferral
    last_request = setup.last_request
    conversation = drop_other_model_anchor(conversation, facts.id)
    if not setup.has_same_prefix:
        conversation = replace(conversation, anchor=None, anchored=0)
    window_number, reserves = window_and_reserves(setup.window)
    if last_request is not None and last_request.model == facts.id:
        meter.scale = last_request.scale
    offered_specs = deferral.offered_tools((*setup.tools, *setup.mcp_tools))
    components = budget_by_component(
        conversation,
        setup.instructions,
        offered_specs,
        setup.window,
        facts.images,
        meter,
        last_request.tool_tokens if last_request else None,
    )
    count_tool_tokens = create_tool_token_counter(components, offered_specs, meter)
    return Overview(
        session,
        title,
        facts.id,
        components,
        window_number,
        reserves,
        setup.window.available_tokens,
        split_into_epochs(requests, rewrites),
        DeferredTools(
            *(last_request.held_back if last_request else (len(deferral.deferred_names), deferral.deferred_tokens))
        ),
        server_shares(setup.mcp_tools, offered_specs, count_tool_tokens),
        message_items(conversation, components, meter),
        pin_items(conversation, meter.estimate_message),
        tool_shares(conversation, setup.mcp_tools, offered_specs, count_tool_tokens),
        instruction_shares(setup.instructions, components, meter),
        conversation.recalls,
        facts.cache_lifetime,
        resend_prices(facts.prices, requests),
    )


def resend_prices(prices: Prices | None, requests: Sequence[RequestUsage]) -> tuple[float, ...] | None:
    """Compute the price of sending a token again, in US dollars, for each request except the first. Cached tokens cost
    the cache price, all others the full price."""
    if prices is None or not prices.input:
        return None
    step_usages = [request.usage for request in requests if request.purpose == "step"]
    return tuple(
        _resend_price(prices.per_token(usage.prompt), usage.cache_read, previous_usage.prompt)
        for previous_usage, usage in itertools.pairwise(step_usages)
    )


def _resend_price(price: DollarsPerToken, cached_tokens: int, sent_tokens: int) -> float:
    """Average the price of tokens that are sent again. `sent_tokens`: tokens of the previous request. `cached_tokens`:
    how many of them came from the cache."""
    return price.input + (price.cache_read - price.input) * min(cached_tokens / max(sent_tokens, 1), 1.0)


def budget_by_component(
    conversation: Conversation,
    instructions: Instructions,
    tools: Sequence[ToolSpec],
    window: Window,
    supports_images: bool,
    meter: TokenMeter,
    tool_tokens: int | None = None,
) -> tuple[TokenCount, ...]:
    """Estimate the size of each component of the next request with these tools, and say where each number comes from.
    `tool_tokens`: tokens of all definitions, if known and `tools` does not contain all of them."""
    prompt = build_prompt(conversation, instructions, supports_images=supports_images)
    budget = meter.measure(prompt, conversation, tuple(tools), window, budget_sections(instructions))
    is_counted = conversation.anchor is not None
    if tool_tokens is not None:
        # The provider counted the whole request, so tokens added to the tools must be subtracted from the history.
        moved_tokens = min(tool_tokens - budget.tools, budget.history) if is_counted else 0
        budget = replace(budget, tools=tool_tokens, history=budget.history - moved_tokens)
    return tuple(
        TokenCount(name, tokens, "counted" if is_counted and name == "history" else "estimated")
        for name, tokens in budget.components.items()
        if tokens or name in ALWAYS_LISTED_COMPONENTS
    )


def create_tool_token_counter(
    components: Sequence[TokenCount], offered_specs: Sequence[ToolSpec], meter: TokenMeter
) -> Callable[[ToolSpec], int]:
    """Create a token estimator for tool definitions. Its estimates are scaled so that they add up to the known
    total."""
    total_tokens = next((component.tokens for component in components if component.name == "tools"), 0)
    estimated_tokens = sum(meter.estimate_definition(spec) for spec in offered_specs if spec.deferred_group is None)
    scale = total_tokens / estimated_tokens if total_tokens and estimated_tokens else 1.0
    return lambda spec: round(meter.estimate_definition(spec) * scale)


def server_shares(
    server_specs: Sequence[ToolSpec], offered: Sequence[ToolSpec], count_tokens: Callable[[ToolSpec], int]
) -> tuple[ServerShare, ...]:
    """Return the size of each server's tools. `server_specs`: all server tools. `offered`: the tools in requests."""
    offered_names = {spec.name for spec in offered if spec.deferred_group is None}
    servers: dict[str, list[ToolSpec]] = {}
    for spec in server_specs:
        servers.setdefault(server_prefix(spec.name), []).append(spec)
    return tuple(
        ServerShare(name, len(offered_specs), len(specs), sum(map(count_tokens, offered_specs)))
        for name, specs in servers.items()
        for offered_specs in [[spec for spec in specs if spec.name in offered_names]]
    )


def message_items(
    conversation: Conversation, components: Sequence[TokenCount], meter: TokenMeter
) -> tuple[ViewItem, ...]:
    """List the parts of all messages. Their sizes are scaled to add up to the known total."""
    total_tokens = sum(component.tokens for component in components if component.name in MESSAGE_COMPONENTS)
    return view_items(conversation, meter.estimate_message, total_tokens)


def instruction_shares(
    instructions: Instructions, components: Sequence[TokenCount], meter: TokenMeter
) -> tuple[TokenCount, ...]:
    """List the instruction files. Their sizes are scaled to add up to the known total."""
    component = next((number for number in components if number.name == "instructions"), None)
    if component is None or not instructions.files:
        return ()
    shares = proportional_shares(
        [meter.estimate_text(file.section_text) for file in instructions.files], component.tokens
    )
    return tuple(
        TokenCount(file.path, share, component.source) for file, share in zip(instructions.files, shares, strict=True)
    )


def tool_shares(
    conversation: Conversation,
    server_specs: Sequence[ToolSpec],
    offered_specs: Sequence[ToolSpec],
    count_tokens: Callable[[ToolSpec], int],
) -> tuple[ToolShare, ...]:
    """Return each tool that the user may exclude from requests, with its size."""
    offered_names = {spec.name for spec in offered_specs if spec.deferred_group is None}
    return tuple(
        ToolShare(spec.name, count_tokens(spec), spec.name in offered_names, spec.name in conversation.excluded_tools)
        for spec in server_specs
        if spec.kind != "builtin"
    )


def window_and_reserves(window: Window) -> tuple[TokenCount, tuple[TokenCount, ...]]:
    """Return the window and its reserves, each with its source. If requests are limited to less than the window, the
    difference counts as a reserve."""
    window_count = TokenCount("window", window.size, window.source_of("context_window"))
    output_number = TokenCount("output", window.output, window.source_of("max_output_tokens"))
    buffer_number = TokenCount("buffer", window.buffer, window.source_of("context_window_buffer_tokens"))
    limits = [
        (limit, name, window.source_of(source))
        for limit, name, source in (
            (window.max_input, "input limit", "max_input_tokens"),
            (window.price_tier, "price limit", "price_tier"),
        )
        if limit is not None and limit < window.size
    ]
    limit_reserve = tuple(TokenCount(name, window.size - limit, source) for limit, name, source in sorted(limits)[:1])
    return window_count, (*limit_reserve, output_number, buffer_number)


def split_into_epochs(requests: Sequence[RequestUsage], rewrites: Sequence[Rewrite]) -> tuple[Epoch, ...]:
    """Split the requests at the rewrites. The last epoch is the current one."""
    epochs: list[Epoch] = []
    start = 0
    for rewrite in rewrites:
        epochs.append(Epoch(tuple(requests[start : rewrite.requests]), rewrite))
        start = max(start, rewrite.requests)
    return (*epochs, Epoch(tuple(requests[start:])))


def total_cost(requests: Sequence[RequestUsage]) -> float | None:
    """Return the total in US dollars; None if the price of any request is unknown."""
    costs = [request.cost for request in requests]
    return None if None in costs else sum(cost for cost in costs if cost is not None)
