"""Runs a rewrite of the view with its prices, hooks, records and debug lines. What to rewrite is decided in
`ebbtide.agent.context`."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.edit_cost import EditPricing
from ebbtide.agent.context.prompt import Instructions, build_prompt
from ebbtide.agent.context.strategies import CUT_STRATEGIES, TOOLS, room_of, size_of
from ebbtide.agent.context.view import View
from ebbtide.agent.debug import Debug
from ebbtide.agent.errors import HookRefused
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import Cause
from ebbtide.agent.messages import Conversation, Message, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.window.carrying_cost import price_by, unit_prices
from ebbtide.agent.window.compact import CompactedConversation, ForcedStrategy, compact
from ebbtide.agent.window.measure import budget_of, choose_tools, request_mark, to_request
from ebbtide.agent.window.model_summary import CompactionContext
from ebbtide.agent.window.session_context import SessionContext


async def compact_by_hand(
    conversation: Conversation, env: SessionContext, focus: str | None, hear: Callable[[Event], None]
) -> CompactedConversation:
    """Compact at the user's request. `hear` gets the events, which are not part of a turn."""

    def emit(event: Event) -> None:
        env.emit(event)
        hear(event)

    return await compact_now(conversation, replace(env, emit=emit), "asked", focus)


async def compact_now(
    conversation: Conversation,
    env: SessionContext,
    cause: Cause = "asked",
    focus: str | None = None,
    counted: int | None = None,
    chosen: ForcedStrategy | None = None,
) -> CompactedConversation:
    """Compact the conversation and record the result. `counted`: the provider's count of the request that was too
    large. `chosen`: the only strategy to try. Raises `HookRefused` if the cause is `asked`."""
    if chosen is None or chosen.strategy == "summary":
        await ask_hooks(env, cause, focus)
    compacted = await compact(conversation, await compaction_context(conversation, env, counted), cause, focus, chosen)
    await record_rewrite(conversation, compacted, env, cause, chosen)
    return compacted


async def ask_hooks(env: SessionContext, cause: Cause, focus: str | None) -> None:
    """Run the hooks before a summary. They cannot prevent one that the window needs. Raises `HookRefused` if the cause
    is `asked`."""
    if env.hooks is not None:
        answer = await env.hooks.before_compaction(_trigger_of(cause), focus or "")
        if answer.verdict == "deny" and cause == "asked":
            raise HookRefused(f"a hook prevents the compaction: {answer.reason}")


def _trigger_of(cause: Cause) -> Literal["manual", "auto"]:
    return "manual" if cause == "asked" else "auto"


async def compaction_context(
    conversation: Conversation, env: SessionContext, counted: int | None = None
) -> CompactionContext:
    """Return the context for compacting the conversation. `counted`: as in `compact_now`."""
    return await asyncio.to_thread(_compaction_context, conversation, budget_of(conversation, env), env, counted)


def _compaction_context(
    conversation: Conversation, budget: ContextBudget, env: SessionContext, counted: int | None
) -> CompactionContext:
    """Runs in a thread on a measurement of its own: a message sent meanwhile is measured by `env` itself."""

    def request(asked: Conversation) -> Request:
        prompt = build_prompt(asked, env.instructions, images=env.provider.facts.images)
        return to_request(prompt, env.offered_tools, env)

    spare = env.deferral.spare(env.tools, budget.effective_window, env.meter.size_of_tool)
    room = room_of(budget, conversation, counted, spare)
    facts, watch = env.provider.facts, env.watch
    is_uncached = watch.is_uncached
    is_cold = watch.is_cold(facts) or is_uncached
    return CompactionContext(
        env.provider,
        request,
        room,
        sizes_from(conversation, env),
        env.compacting,
        env.interrupt,
        env.emit,
        env.learned_limits,
        env.summarisers,
        is_cold,
        price_by(
            env.carrying_cost,
            conversation,
            budget,
            facts.prices,
            env.compacting,
            is_cold=is_cold,
            is_uncached=is_uncached,
        ),
    )


def sizes_from(conversation: Conversation, env: SessionContext) -> Callable[[Conversation], int]:
    """Return a function for the size in tokens of a request with a conversation derived from this one. It changes no
    figures of the session."""
    measuring = measuring_copy(env)
    measuring.meter.scale_by(conversation, budget_of(conversation, measuring))
    return lambda view: budget_of(view, measuring).used


def measuring_copy(env: SessionContext) -> SessionContext:
    """Return a copy that measures like the session, for use in another thread."""
    return replace(env, meter=env.meter.fresh_copy(), view=View())


async def record_rewrite(
    before: Conversation,
    compacted: CompactedConversation,
    env: SessionContext,
    cause: Cause,
    chosen: ForcedStrategy | None = None,
) -> None:
    """Apply the consequences of a rewrite and store it with the previous view. Does nothing if nothing was
    rewritten."""
    if not compacted.result.strategies:
        return
    env.meter.scale_by(before, budget_of(before, env))
    env.meter.reset_counters()
    kept = await asyncio.to_thread(unchanged_message_count, before, compacted.conversation, compacted.result.strategies)
    env.watch.note_rewrite(kept)
    if TOOLS in compacted.result.strategies:
        env.deferral.defer_all()
    # A mask keeps everything before the first masked output in the cache, the tools included, unless the cache is cold.
    if not set(compacted.result.strategies) <= {"mask", *CUT_STRATEGIES} or cause == "cold":
        choose_tools(env)
    if chosen is None or chosen.price is None:
        env.carrying_cost.reset()
    await env.recorder.snapshot(compacted.conversation, User(()), request_mark(env), before)
    log_rewrite(before, compacted, cause, chosen, env.debug)
    if env.hooks is not None and compacted.conversation.summary != before.summary:
        await env.hooks.after_compaction(_trigger_of(cause), compacted.conversation.summary.text)


def unchanged_message_count(before: Conversation, after: Conversation, strategies: Sequence[str]) -> int:
    """Number of messages that a rewrite left unchanged: those before the first output that changed, if nothing else
    did."""
    if not set(strategies) <= {"mask", "mask_all", "references", *CUT_STRATEGIES}:
        return 0
    messages, earlier = (build_prompt(view, Instructions("")).messages for view in (after, before))
    places = (place for place, (now, then) in enumerate(zip(messages, earlier, strict=True)) if now != then)
    return next(places, 0)


def log_rewrite(
    before: Conversation, compacted: CompactedConversation, cause: Cause, chosen: ForcedStrategy | None, debug: Debug
) -> None:
    """Log the rewrite."""
    result = compacted.result
    sizes = {"beforeTokens": result.before_tokens, "afterTokens": result.after_tokens}
    price = chosen.price if chosen else None
    if cause == "overflow":
        debug.log("context/emergency", reason=cause, strategy=result.strategies[-1], **sizes)
    elif result.strategies == ("mask",):
        outputs = len(compacted.conversation.masked - before.masked)
        removed = result.before_tokens - result.after_tokens
        debug.log("context/mask", reason=cause, outputs=outputs, removedTokens=removed, price=price)
    else:
        counts = {"beforeMessages": result.before_messages, "afterMessages": result.after_messages}
        debug.log("context/compact", reason=cause, strategies=result.strategies, price=price, **sizes, **counts)


def edit_pricing(conversation: Conversation, budget: ContextBudget, env: SessionContext) -> EditPricing:
    """Return the terms for measuring and pricing view edits in this session."""
    fixed = budget.system + budget.instructions + budget.memories + budget.skills + budget.tools
    facts = env.provider.facts
    return EditPricing(
        env.meter.size_of,
        budget.used,
        fixed,
        budget.effective_window,
        unit_prices(facts.prices, is_uncached=env.watch.is_uncached),
        env.compacting.caps,
        env.watch.is_cold(facts),
        env.watch.unchanged_messages,
        scale_of(budget.used - fixed, conversation, env.meter.size_of),
    )


def scale_of(counted: int, conversation: Conversation, size: Callable[[Message], int]) -> float:
    """Actual tokens of a conversation per estimated token."""
    estimated = size_of(conversation, size)
    return min(max(counted / estimated, 0.25), 3.0) if estimated else 1.0
