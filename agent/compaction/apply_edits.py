"""Applies manual view edits: pins, evictions, previews, summaries and deferred tools. Their effect and cost are
computed in `ebbtide.agent.compaction.view_edits`."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from ebbtide.agent.archive.session_archive import SessionArchive
from ebbtide.agent.budget.prices import dollars_per_token, unit_prices
from ebbtide.agent.budget.request_budget import ContextBudget
from ebbtide.agent.calls.output_reader import OutputReader
from ebbtide.agent.calls.policy import server_prefix
from ebbtide.agent.compaction.compact import ForcedStrategy
from ebbtide.agent.compaction.edit_cost import EditPricing, ViewEditPlan
from ebbtide.agent.compaction.rewrite import compact_now
from ebbtide.agent.compaction.room import conversation_tokens
from ebbtide.agent.compaction.view_edits import (
    EditRequest,
    Refusal,
    plan_tool_deferral,
    plan_view_edit,
    with_item_summary,
)
from ebbtide.agent.errors import AgentError, ReferenceFailed, StoreFailed
from ebbtide.agent.events.session import Event, ReplyFinished
from ebbtide.agent.events.view import ContextCompacted, Price, ViewChanged
from ebbtide.agent.messages import Conversation, Message, ToolCall, User
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.view.message_text import message_text
from ebbtide.agent.view.visible import numbered_outputs
from ebbtide.agent.window.measure import choose_tools, create_request_sizer, last_request_record, measure_budget
from ebbtide.agent.window.session_context import TurnContext, WindowContext


def edit_pricing(conversation: Conversation, budget: ContextBudget, window: WindowContext) -> EditPricing:
    """Return how view edits are measured and priced in this session."""
    model = window.model
    fixed_tokens = budget.system + budget.instructions + budget.memories + budget.skills + budget.tools
    facts = model.facts
    return EditPricing(
        model.meter.estimate_message,
        budget.used,
        fixed_tokens,
        budget.effective_window,
        unit_prices(facts.prices, is_uncached=window.prefix_watch.is_uncached),
        window.compaction_settings.caps,
        window.prefix_watch.is_cache_cold(facts),
        window.prefix_watch.unchanged_message_count,
        token_scale(budget.used - fixed_tokens, conversation, model.meter.estimate_message),
    )


def token_scale(actual_tokens: int, conversation: Conversation, count_tokens: Callable[[Message], int]) -> float:
    """Compute the ratio of actual to estimated tokens of a conversation."""
    estimated = conversation_tokens(conversation, count_tokens)
    return min(max(actual_tokens / estimated, 0.25), 3.0) if estimated else 1.0


MAX_ITEM_BYTES = 1 << 20
"""Maximum number of bytes of one item that a model summarises."""
ITEM_SUMMARY_PURPOSE = (
    "Extract what the ongoing work still needs from this text; quote verbatim where exact wording matters."
)


@dataclass(frozen=True, slots=True)
class EditPreview:
    """The plan of an edit, or the reason why it is refused. Nothing has changed yet."""

    conversation: Conversation
    plan: ViewEditPlan | Refusal
    dollars_per_token: float | None
    """Price of a fresh input token, in US dollars; None if the model's prices are unknown."""


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """The conversation after an edit."""

    conversation: Conversation
    events: tuple[Event, ...]
    """The events to show."""


async def preview_edit(
    conversation: Conversation, window: WindowContext, turn: TurnContext, request: EditRequest
) -> EditPreview:
    """Return the effect and cost of an edit without applying it."""
    return EditPreview(
        conversation, await plan_edit(request, conversation, window), dollars_per_token(window.model.facts.prices)
    )


async def apply_edit(
    conversation: Conversation, window: WindowContext, turn: TurnContext, request: EditRequest
) -> EditOutcome:
    """Apply an edit. Raises `AgentError`, without changing anything, if it is refused or no model returned a usable
    summary."""
    plan = await plan_edit(request, conversation, window)
    if isinstance(plan, Refusal):
        raise AgentError(plan.reason)
    match plan.act:
        case "summarise_before":
            return await _summarise_before(plan, conversation, window, turn)
        case "summarise":
            return await _summarise_item(plan, conversation, window, turn)
        case _:
            return await _apply_view(plan, plan.edited_conversation, conversation, window, turn)


async def plan_edit(request: EditRequest, conversation: Conversation, window: WindowContext) -> ViewEditPlan | Refusal:
    """Return the effect that an edit would have now, or the reason why it is refused."""
    if not conversation.messages:
        return Refusal("this session has no messages yet, so there is nothing to edit")
    return await asyncio.to_thread(_plan_edit, request, conversation, measure_budget(conversation, window), window)


def _plan_edit(
    request: EditRequest, conversation: Conversation, budget: ContextBudget, window: WindowContext
) -> ViewEditPlan | Refusal:
    pricing = edit_pricing(conversation, budget, window)
    match request.act:
        case "defer" | "offer":
            return _plan_tool_edit(request, conversation, pricing, window)
        case _:
            plan = plan_view_edit(request, conversation, pricing)
    if isinstance(plan, Refusal) or plan.asks_model or not plan.is_rewrite:
        return plan
    freed = pricing.used_tokens - create_request_sizer(conversation, window)(
        plan.edited_conversation
    )  # measured as for the report
    return replace(plan, freed_tokens=freed, saving_per_request=pricing.prices.read * freed)


def _plan_tool_edit(
    request: EditRequest, conversation: Conversation, pricing: EditPricing, window: WindowContext
) -> ViewEditPlan | Refusal:
    """Plan deferring one tool or all tools of a server, or offering them again."""
    names = find_deferrable_tools(request.key, window.tools.available_specs)
    if not names:
        return Refusal(f"there is no tool or server `{request.key}` to disable")
    already_disabled = names & conversation.excluded_tools
    if request.act == "offer" and not already_disabled:
        return Refusal(f"`{request.key}` is not disabled")
    if request.act == "defer" and names <= conversation.excluded_tools:
        return Refusal(f"`{request.key}` is already disabled")
    new_excluded = (
        conversation.excluded_tools | names if request.act == "defer" else conversation.excluded_tools - names
    )

    def visible_size(deferred: frozenset[str], tools: Sequence[ToolSpec]) -> int:
        return window.tools.deferral.size_with_deferred(
            deferred, tools, pricing.effective_tokens, window.model.meter.estimate_definition
        )

    old_size = visible_size(conversation.excluded_tools, window.tools.all_specs)
    new_size = visible_size(new_excluded, window.tools.available_specs)
    if request.act == "defer" and new_size >= old_size:
        return Refusal(f"disabling `{request.key}` saves nothing: the tool search takes as much")
    return plan_tool_deferral(request.act, request.key, names, conversation, pricing, old_size, new_size)


def find_deferrable_tools(name: str, tools: Sequence[ToolSpec]) -> frozenset[str]:
    """Return the deferrable tools that a name refers to: one tool, or all tools of a server."""
    names = {spec.name for spec in tools if spec.kind != "builtin"}
    server = name if name.startswith("mcp__") else f"mcp__{name}"
    return frozenset({name} & names or {tool_name for tool_name in names if server_prefix(tool_name) == server})


async def _apply_view(
    plan: ViewEditPlan,
    new_view: Conversation,
    conversation: Conversation,
    window: WindowContext,
    turn: TurnContext,
    cost: float | None = 0.0,
) -> EditOutcome:
    """Replace the view with the edited one, and record it with its cost."""
    model = window.model
    budget = measure_budget(conversation, window)
    offered_before = window.tools.offered_specs
    if new_view.excluded_tools != conversation.excluded_tools:
        window.tools.deferral.user_deferred = new_view.excluded_tools
        window.prefix_watch.allow_rewrite(plan.unchanged_message_count)
        choose_tools(window, turn.emit)
    elif plan.is_rewrite:
        window.prefix_watch.allow_rewrite(plan.unchanged_message_count)
    is_rewrite = plan.is_rewrite or window.tools.offered_specs != offered_before
    if is_rewrite:
        model.meter.update_scale(conversation, budget)
        model.meter.reset_counters()
        window.carrying_cost_tracker.reset()
    event = ViewChanged(
        plan.act,
        plan.name,
        plan.description,
        budget.used,
        measure_budget(new_view, window).used if is_rewrite else budget.used,
        budget.window.available_tokens,
        Price(plan.freed_tokens, plan.cache_write_tokens, round(plan.cost), 0, dollars_per_token(model.facts.prices))
        if is_rewrite
        else None,
        cost,
    )
    turn.emit(event)
    await turn.recorder.record_snapshot(
        new_view, User(()), last_request_record(window), conversation if is_rewrite else None
    )
    return EditOutcome(new_view, (event,))


async def _summarise_item(
    plan: ViewEditPlan, conversation: Conversation, window: WindowContext, turn: TurnContext
) -> EditOutcome:
    """Replace an item with a summary. The summary is written by a model that the user set for summaries, or by the
    session's own model."""
    model = window.model
    costs: list[float | None] = []

    def forward(event: Event) -> None:
        if isinstance(event, ReplyFinished):
            costs.append(event.cost)
        turn.emit(event)

    call, text = _summary_input(plan.key, conversation)
    data = await _fetch_item(plan.name, turn.records.archive) or text.encode("utf-8", "replace")
    reader = OutputReader(lambda: model.provider, turn.recorder.session_id, turn.interrupt, forward, window.summarisers)
    summary = await reader(call, ITEM_SUMMARY_PURPOSE, iter((data,)), len(data))
    if summary is None:
        raise AgentError(f"no model summarised `{plan.name}`: nothing has changed")
    new_view = with_item_summary(plan, summary)
    freed = round(
        conversation_tokens(conversation, model.meter.estimate_message)
        - conversation_tokens(new_view, model.meter.estimate_message)
    )
    if freed <= 0:
        raise AgentError(f"the summary of `{plan.name}` is no shorter: nothing has changed")
    cost = None if None in costs else sum(cost for cost in costs if cost is not None)
    return await _apply_view(replace(plan, freed_tokens=freed), new_view, conversation, window, turn, cost)


async def _fetch_item(ref: str, archive: SessionArchive | None) -> bytes | None:
    """Return the content of a reference, up to the maximum length for a model; None if it is not text or not stored."""
    try:
        stored = await archive.recall.fetch(ref) if archive is not None else None
    except (ReferenceFailed, StoreFailed):
        return None
    if stored is None:
        return None
    with closing(stored.content):
        return stored.content.read(0, MAX_ITEM_BYTES) if stored.media_type.startswith("text/") else None


def _summary_input(key: str, conversation: Conversation) -> tuple[ToolCall, str]:
    """Return the call that produced the item, and the text to summarise."""
    for numbered in numbered_outputs(conversation):
        if numbered.ref == key:
            return numbered.call, numbered.output.text
    message = conversation.messages[int(key.removeprefix("m")) - conversation.messages_before]
    return ToolCall("", "message", {}), message_text(message)


async def _summarise_before(
    plan: ViewEditPlan, conversation: Conversation, window: WindowContext, turn: TurnContext
) -> EditOutcome:
    """Run a compaction that summarises everything up to an item, and return the compaction's events."""
    events: list[Event] = []

    def emit(event: Event) -> None:
        turn.emit(event)
        events.append(event)

    compacted = await compact_now(
        conversation, window, replace(turn, emit=emit), "asked", forced=ForcedStrategy("summary", summary_end=plan.cut)
    )
    if compacted.result.is_interrupted:
        raise AgentError("the summary was interrupted: nothing has changed")
    if not compacted.result.strategies:
        raise AgentError("no usable summary was written: nothing has changed")
    return EditOutcome(compacted.conversation, tuple(event for event in events if isinstance(event, ContextCompacted)))
