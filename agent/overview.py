"""Overview of a session's context and costs. Reads and draws nothing."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ebbtide.agent.calls.policy import server_of
from ebbtide.agent.context.budget import Window
from ebbtide.agent.context.last_request import RequestMark
from ebbtide.agent.context.prompt import Instructions, build_prompt
from ebbtide.agent.context.summary_cost import PerToken
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.context.view_items import ViewItem, items_of, pins_of, shared_out
from ebbtide.agent.messages import Conversation, Recalls, Usage
from ebbtide.agent.providers.base import ModelFacts, Prices
from ebbtide.agent.providers.meter import Meter
from ebbtide.agent.providers.usage import counted_for
from ebbtide.agent.records.usage import RequestUsage, Rewrite
from ebbtide.agent.window.deferral import Deferral
from ebbtide.agent.window.measure import sections_of, window_of
from ebbtide.agent.window.session_context import SessionContext


@dataclass(frozen=True, slots=True)
class SourcedNumber:
    name: str
    tokens: int
    source: str
    """Source of the number."""


@dataclass(frozen=True, slots=True)
class DeferredTools:
    """The tools whose definitions are not sent."""

    tools: int = 0
    tokens: int = 0
    """Tokens that their definitions would take."""


@dataclass(frozen=True, slots=True)
class ServerShare:
    """The tools of one server and their size."""

    name: str
    """`mcp__SERVER`."""
    offered: int
    """Number of tools whose definitions the model sees."""
    tools: int
    """Number of all its tools."""
    tokens: int
    """Estimated tokens of the definitions shown."""


@dataclass(frozen=True, slots=True)
class ToolShare:
    """One tool and its size."""

    name: str
    tokens: int
    """Estimated tokens of its definition."""
    is_shown: bool = True
    """Whether requests contain the definition."""
    is_kept_out: bool = False
    """Whether the user keeps it out of requests."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """The requests between two rewrites: each is a prefix of the next."""

    requests: tuple[RequestUsage, ...]
    rewrite: Rewrite | None = None
    """The rewrite that ended it; None for the current epoch."""

    @property
    def usage(self) -> Usage:
        return sum((asked.usage for asked in self.requests), Usage())

    @property
    def cost(self) -> float | None:
        return total_cost(self.requests)


@dataclass(frozen=True, slots=True)
class Overview:
    session: str
    title: str
    model: str
    components: tuple[SourcedNumber, ...]
    """Components of the next request."""
    window: SourcedNumber
    reserves: tuple[SourcedNumber, ...]
    """Reserves within the window."""
    effective: int
    """Tokens available to a request."""
    epochs: tuple[Epoch, ...]
    held_back: DeferredTools = DeferredTools()  # a frozen value
    servers: tuple[ServerShare, ...] = ()
    """The servers' share of the tools."""
    items: tuple[ViewItem, ...] = ()
    """The parts of the history and of what is pending, in order; their sizes add up to those two components."""
    pins: tuple[ViewItem, ...] = ()
    """Pinned content shown with the summary."""
    tools: tuple[ToolShare, ...] = ()
    """Tools that may be kept out of requests."""
    instructions: tuple[SourcedNumber, ...] = ()
    """Instruction files in the system prompt; their sizes add up to that component."""
    recalls: Recalls = Recalls()  # noqa: RUF009  # a frozen value
    """What the model has recalled of outputs that were cut or masked."""
    prices_again: tuple[float, ...] | None = ()
    """US dollars per token for what each request sent again, the newest last; None if the price is unknown or zero."""

    @property
    def used_tokens(self) -> int:
        return sum(component.tokens for component in self.components)

    @property
    def requests(self) -> tuple[RequestUsage, ...]:
        return tuple(asked for epoch in self.epochs for asked in epoch.requests)


@dataclass(frozen=True, slots=True)
class RequestSetup:
    """What the requests of a session are made with."""

    facts: ModelFacts
    window: Window
    meter: Meter
    """A copy, because measuring changes the meter of an open session."""
    instructions: Instructions
    tools: Sequence[ToolSpec]
    """Tools other than those of servers."""
    served: Sequence[ToolSpec] = ()
    """Tools of servers."""
    deferral: Deferral = field(default_factory=Deferral)
    sent: RequestMark | None = None
    """The last request, if its setup is no longer known."""
    begins_as_before: bool = True
    """Whether the next request begins like the last one; if not, that one's counts do not apply."""


MESSAGES = ("history", "pending")
"""The components made of messages."""
ALWAYS_LISTED = ("system", "instructions", "tools", "history")
"""Components listed even if they are empty."""


def request_setup(env: SessionContext) -> RequestSetup:
    """Return the request setup of an open session."""
    return RequestSetup(
        env.provider.facts,
        window_of(env),
        env.meter.fresh_copy(),
        env.instructions,
        env.own_tools,
        env.server_tools.specs,
        env.deferral,
        begins_as_before=env.watch.has_sent or env.watch.has_same_prefix(env.instructions.text, env.offered_tools),
    )


def overview_of(
    session: str,
    title: str,
    conversation: Conversation,
    equipped: RequestSetup,
    asked: Sequence[RequestUsage],
    rewritten: Sequence[Rewrite],
) -> Overview:
    """Return the size of a conversation, and the cost of its requests and rewrites so far."""
    facts, meter, deferral, sent = equipped.facts, equipped.meter, equipped.deferral, equipped.sent
    conversation = counted_for(conversation, facts.id)
    if not equipped.begins_as_before:
        conversation = replace(conversation, anchor=None, anchored=0)
    size, reserves = window_numbers(equipped.window)
    if sent is not None and sent.model == facts.id:
        meter.scale = sent.scale
    offered = deferral.offered_tools((*equipped.tools, *equipped.served))
    components = budget_by_component(
        conversation,
        equipped.instructions,
        offered,
        equipped.window,
        facts.images,
        meter,
        sent.tool_tokens if sent else None,
    )
    size_of_tool = sizes_of_tools(components, offered, meter)
    return Overview(
        session,
        title,
        facts.id,
        components,
        size,
        reserves,
        equipped.window.effective,
        epochs_of(asked, rewritten),
        DeferredTools(*(sent.held_back if sent else (len(deferral.held_back), deferral.held_tokens))),
        shares_of(equipped.served, offered, size_of_tool),
        items_in(conversation, components, meter),
        pins_of(conversation, meter.size_of),
        tools_of(conversation, equipped.served, offered, size_of_tool),
        instructions_in(equipped.instructions, components, meter),
        conversation.recalls,
        prices_again(facts.prices, asked),
    )


def prices_again(prices: Prices | None, asked: Sequence[RequestUsage]) -> tuple[float, ...] | None:
    """Return US dollars per token for what each request sent again: the cached share of the previous request at the
    cache price, the rest at the full price."""
    if prices is None or not prices.input:
        return None
    steps = [one.usage for one in asked if one.purpose == "step"]
    return tuple(
        _again(prices.at(usage.prompt), usage.cache_read, before.prompt) for before, usage in itertools.pairwise(steps)
    )


def _again(price: PerToken, read: int, sent: int) -> float:
    """`sent`: tokens of the previous request; `read`: how many of them came from the cache."""
    return price.input + (price.cache_read - price.input) * min(read / max(sent, 1), 1.0)


def budget_by_component(
    conversation: Conversation,
    instructions: Instructions,
    tools: Sequence[ToolSpec],
    window: Window,
    images: bool,
    meter: Meter,
    tool_tokens: int | None = None,
) -> tuple[SourcedNumber, ...]:
    """Return the components of the next request with these tools, each with its source. `tool_tokens`: known size of
    the definitions, if `tools` does not contain all of them."""
    prompt = build_prompt(conversation, instructions, images=images)
    budget = meter.measure(prompt, conversation, tuple(tools), window, sections_of(instructions))
    counted = conversation.anchor is not None
    if tool_tokens is not None:
        # The provider's count stays the same, whatever it is made of.
        less = min(tool_tokens - budget.tools, budget.history) if counted else 0
        budget = replace(budget, tools=tool_tokens, history=budget.history - less)
    return tuple(
        SourcedNumber(name, tokens, "counted" if counted and name == "history" else "estimated")
        for name, tokens in budget.components.items()
        if tokens or name in ALWAYS_LISTED
    )


def sizes_of_tools(
    components: Sequence[SourcedNumber], offered: Sequence[ToolSpec], meter: Meter
) -> Callable[[ToolSpec], int]:
    """Return a function for the size of a definition, scaled to the known total."""
    whole = next((number.tokens for number in components if number.name == "tools"), 0)
    estimated = sum(meter.size_of_tool(spec) for spec in offered if spec.deferred is None)
    scale = whole / estimated if whole and estimated else 1.0
    return lambda spec: round(meter.size_of_tool(spec) * scale)


def shares_of(
    served: Sequence[ToolSpec], offered: Sequence[ToolSpec], size: Callable[[ToolSpec], int]
) -> tuple[ServerShare, ...]:
    """Return the size of each server's tools. `served`: the tools of servers; `offered`: the tools in requests."""
    shown = {spec.name for spec in offered if spec.deferred is None}
    servers: dict[str, list[ToolSpec]] = {}
    for spec in served:
        servers.setdefault(server_of(spec.name), []).append(spec)
    return tuple(
        ServerShare(name, len(here), len(specs), sum(map(size, here)))
        for name, specs in servers.items()
        for here in [[spec for spec in specs if spec.name in shown]]
    )


def items_in(conversation: Conversation, components: Sequence[SourcedNumber], meter: Meter) -> tuple[ViewItem, ...]:
    """Return each part of the messages with its share of their known size."""
    whole = sum(component.tokens for component in components if component.name in MESSAGES)
    return items_of(conversation, meter.size_of, whole)


def instructions_in(
    instructions: Instructions, components: Sequence[SourcedNumber], meter: Meter
) -> tuple[SourcedNumber, ...]:
    """Return each instruction file with its share of their known size."""
    whole = next((number for number in components if number.name == "instructions"), None)
    if whole is None or not instructions.files:
        return ()
    shares = shared_out([meter.size_of_text(file.section) for file in instructions.files], whole.tokens)
    return tuple(
        SourcedNumber(file.path, share, whole.source) for file, share in zip(instructions.files, shares, strict=True)
    )


def tools_of(
    conversation: Conversation,
    served: Sequence[ToolSpec],
    offered: Sequence[ToolSpec],
    size: Callable[[ToolSpec], int],
) -> tuple[ToolShare, ...]:
    """Return the size of each tool that may be kept out of requests."""
    shown = {spec.name for spec in offered if spec.deferred is None}
    return tuple(
        ToolShare(spec.name, size(spec), spec.name in shown, spec.name in conversation.held_back)
        for spec in served
        if spec.kind != "builtin"
    )


def window_numbers(window: Window) -> tuple[SourcedNumber, tuple[SourcedNumber, ...]]:
    """Return the window and its reserves, each with its source. If requests are limited to less than the window, the
    rest counts as a reserve."""
    size = SourcedNumber("window", window.size, window.source("context_window"))
    output = SourcedNumber("output", window.output, window.source("max_output_tokens"))
    buffer = SourcedNumber("buffer", window.buffer, window.source("context_window_buffer_tokens"))
    limits = [
        (most, name, window.source(source))
        for most, name, source in (
            (window.max_input, "input limit", "max_input_tokens"),
            (window.price_tier, "price limit", "price_tier"),
        )
        if most is not None and most < window.size
    ]
    beyond = tuple(SourcedNumber(name, window.size - most, source) for most, name, source in sorted(limits)[:1])
    return size, (*beyond, output, buffer)


def epochs_of(requests: Sequence[RequestUsage], rewrites: Sequence[Rewrite]) -> tuple[Epoch, ...]:
    """Split the requests at the rewrites; the last epoch is the current one."""
    epochs: list[Epoch] = []
    start = 0
    for rewrite in rewrites:
        epochs.append(Epoch(tuple(requests[start : rewrite.requests]), rewrite))
        start = max(start, rewrite.requests)
    return (*epochs, Epoch(tuple(requests[start:])))


def total_cost(requests: Sequence[RequestUsage]) -> float | None:
    """Total in US dollars; None if the price of any request is unknown."""
    costs = [asked.cost for asked in requests]
    return None if None in costs else sum(cost for cost in costs if cost is not None)
