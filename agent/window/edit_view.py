"""Apply manual view edits: pins, evictions, previews, summaries and deferred tools. Their effect and cost are computed
in `ebbtide.agent.context.view_edits`."""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from ebbtide.agent.calls.output_reader import OutputReader
from ebbtide.agent.calls.policy import server_of
from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.edit_cost import EditPricing, ViewEditPlan
from ebbtide.agent.context.mask import numbered_outputs
from ebbtide.agent.context.message_text import message_text
from ebbtide.agent.context.strategies import size_of
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.context.view_edits import EditRequest, Refusal, plan_act, plan_tools, with_item_summary
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event, ReplyFinished
from ebbtide.agent.events.view import ContextCompacted, Price, ViewChanged
from ebbtide.agent.messages import Conversation, ToolCall, User
from ebbtide.agent.window.carrying_cost import dollar_of
from ebbtide.agent.window.compact import ForcedStrategy
from ebbtide.agent.window.measure import budget_of, choose_tools, request_mark
from ebbtide.agent.window.rewrite import compact_now, edit_pricing, sizes_from
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.base import ToolError

MAX_ITEM_BYTES = 1 << 20
"""Maximum bytes of one item that a model summarises."""
PURPOSE = "Go on with the work without this text: what of it matters, letter by letter where it has to be."


@dataclass(frozen=True, slots=True)
class EditQuote:
    """The plan of an edit, or why it is refused. Nothing has changed."""

    conversation: Conversation
    plan: ViewEditPlan | Refusal
    dollars: float | None
    """US dollars per fresh input token; None if the model's prices are unknown."""


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """The conversation after an edit."""

    conversation: Conversation
    events: tuple[Event, ...]
    """The events to show."""


async def price_act(conversation: Conversation, env: SessionContext, wish: EditRequest) -> EditQuote:
    """Return the effect and cost of an edit without applying it."""
    return EditQuote(conversation, await plan_edit(wish, conversation, env), dollar_of(env.provider.facts.prices))


async def do_act(conversation: Conversation, env: SessionContext, wish: EditRequest) -> EditOutcome:
    """Apply an edit. Raises `AgentError` if it is refused or no model returned a usable summary; nothing has changed
    then."""
    plan = await plan_edit(wish, conversation, env)
    if isinstance(plan, Refusal):
        raise AgentError(plan.why)
    match plan.act:
        case "summarise_before":
            return await _summarise_before(plan, conversation, env)
        case "summarise":
            return await _summarise_item(plan, conversation, env)
        case _:
            return await _apply_view(plan, plan.after, conversation, env)


async def plan_edit(wish: EditRequest, conversation: Conversation, env: SessionContext) -> ViewEditPlan | Refusal:
    """Return the effect of an edit if it were applied now."""
    if not conversation.messages:
        return Refusal("this session has no messages yet, so there is nothing to edit")
    return await asyncio.to_thread(_plan_edit, wish, conversation, budget_of(conversation, env), env)


def _plan_edit(
    wish: EditRequest, conversation: Conversation, budget: ContextBudget, env: SessionContext
) -> ViewEditPlan | Refusal:
    terms = edit_pricing(conversation, budget, env)
    match wish.act:
        case "defer" | "offer":
            return _plan_tools(wish, conversation, terms, env)
        case _:
            plan = plan_act(wish, conversation, terms)
    if isinstance(plan, Refusal) or plan.asks or not plan.is_rewrite:
        return plan
    freed = terms.used - sizes_from(conversation, env)(plan.after)  # as it will be reported afterwards
    return replace(plan, freed=freed, saves=terms.prices.read * freed)


def _plan_tools(
    wish: EditRequest, conversation: Conversation, terms: EditPricing, env: SessionContext
) -> ViewEditPlan | Refusal:
    """Plan deferring one tool or all tools of a server, or offering them again."""
    names = tools_called(wish.key, env)
    if not names:
        return Refusal(f"there is no tool or server `{wish.key}` to keep out of requests")
    is_wished = names & conversation.held_back
    if wish.act == "offer" and not is_wished:
        return Refusal(f"`{wish.key}` is not kept out of requests")
    if wish.act == "defer" and names <= conversation.held_back:
        return Refusal(f"`{wish.key}` is already kept out of requests")
    wished = conversation.held_back | names if wish.act == "defer" else conversation.held_back - names

    def shown(held: frozenset[str], tools: Sequence[ToolSpec]) -> int:
        return env.deferral.size_with_deferred(held, tools, terms.effective, env.meter.size_of_tool)

    before, after = shown(conversation.held_back, env.tools), shown(wished, _tools_now(env))
    if wish.act == "defer" and after >= before:
        return Refusal(f"without `{wish.key}` requests would not get smaller: the tool search takes as much")
    return plan_tools(wish.act, wish.key, names, conversation, terms, before, after)


def tools_called(name: str, env: SessionContext) -> frozenset[str]:
    """Return the deferrable tools that a name means: one tool, or all of a server."""
    names = {spec.name for spec in _tools_now(env) if spec.kind != "builtin"}
    server = name if name.startswith("mcp__") else f"mcp__{name}"
    return frozenset({name} & names or {known for known in names if server_of(known) == server})


def _tools_now(env: SessionContext) -> tuple[ToolSpec, ...]:
    """Return the tools to choose from, including new tools of servers, which the edit adds to the list."""
    return (*env.own_tools, *env.server_tools.present)


async def _apply_view(
    plan: ViewEditPlan, after: Conversation, conversation: Conversation, env: SessionContext, cost: float | None = 0.0
) -> EditOutcome:
    """Continue with another view, and record it with its cost."""
    budget = budget_of(conversation, env)
    before = env.offered_tools
    if after.held_back != conversation.held_back:
        env.deferral.wished = after.held_back
        env.watch.note_rewrite(plan.unchanged_messages)
        choose_tools(env)
    elif plan.is_rewrite:
        env.watch.note_rewrite(plan.unchanged_messages)
    is_rewrite = plan.is_rewrite or env.offered_tools != before
    if is_rewrite:
        env.meter.scale_by(conversation, budget)
        env.meter.reset_counters()
        env.carrying_cost.reset()
    event = ViewChanged(
        plan.act,
        plan.name,
        plan.what,
        budget.used,
        budget_of(after, env).used if is_rewrite else budget.used,
        budget.window.effective,
        Price(plan.freed, plan.behind, round(plan.cost), 0, dollar_of(env.provider.facts.prices))
        if is_rewrite
        else None,
        cost,
    )
    env.emit(event)
    await env.recorder.snapshot(after, User(()), request_mark(env), conversation if is_rewrite else None)
    return EditOutcome(after, (event,))


async def _summarise_item(plan: ViewEditPlan, conversation: Conversation, env: SessionContext) -> EditOutcome:
    """Replace an item with a summary of it by a model: one that the user set for summaries, or the session's."""
    costs: list[float | None] = []

    def hear(event: Event) -> None:
        if isinstance(event, ReplyFinished):
            costs.append(event.cost)
        env.emit(event)

    call, text = _whole_of(plan.key, conversation)
    data = await _fetch_item(plan.name, env) or text.encode("utf-8", "replace")
    reader = OutputReader(lambda: env.provider, env.recorder.session, env.interrupt, hear, env.summarisers)
    said = await reader(call, PURPOSE, iter((data,)), len(data))
    if said is None:
        raise AgentError(f"no model summarised `{plan.name}`: nothing has changed")
    after = with_item_summary(plan, said)
    freed = round(size_of(conversation, env.meter.size_of) - size_of(after, env.meter.size_of))
    if freed <= 0:
        raise AgentError(f"the summary of `{plan.name}` is no shorter: nothing has changed")
    cost = None if None in costs else sum(cost for cost in costs if cost is not None)
    return await _apply_view(replace(plan, freed=freed), after, conversation, env, cost)


async def _fetch_item(ref: str, env: SessionContext) -> bytes | None:
    """Return the content of a reference, up to what a model reads; None if it is not text or not stored."""
    try:
        found = await env.call_runner.workspace.stored_content(ref)
    except ToolError:
        return None
    with closing(found.content):
        return found.content.read(0, MAX_ITEM_BYTES) if found.media_type.startswith("text/") else None


def _whole_of(key: str, conversation: Conversation) -> tuple[ToolCall, str]:
    """Return the text to summarise, with the call that it answers."""
    for found in numbered_outputs(conversation):
        if found.ref == key:
            return found.call, found.output.text
    message = conversation.messages[int(key.removeprefix("m")) - conversation.messages_before]
    return ToolCall("", "message", {}), message_text(message)


async def _summarise_before(plan: ViewEditPlan, conversation: Conversation, env: SessionContext) -> EditOutcome:
    """Summarise everything up to an item, with a receipt like any compaction."""
    heard: list[Event] = []

    def emit(event: Event) -> None:
        env.emit(event)
        heard.append(event)

    compacted = await compact_now(
        conversation, replace(env, emit=emit), "asked", chosen=ForcedStrategy("summary", cut=plan.cut)
    )
    if compacted.result.is_interrupted:
        raise AgentError("the summary was interrupted: nothing has changed")
    if not compacted.result.strategies:
        raise AgentError("no usable summary was written: nothing has changed")
    return EditOutcome(compacted.conversation, tuple(event for event in heard if isinstance(event, ContextCompacted)))
