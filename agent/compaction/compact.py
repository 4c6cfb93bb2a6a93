"""Runs a compaction: tries one strategy after another, from the cheapest to the last resort, until there is enough
room. The strategies run in a thread, so that the interface stays responsive."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ebbtide.agent.compaction.carried_outputs import with_carried_outputs
from ebbtide.agent.compaction.model_summary import CompactionContext, SummaryCost, summarise
from ebbtide.agent.compaction.plan import (
    CompactionLimits,
    CompactionPlan,
    apply_compaction,
    can_save_a_tenth,
    compute_limits,
    plan_at,
    plan_compaction,
    saves_a_tenth,
)
from ebbtide.agent.compaction.receipt import build_receipt
from ebbtide.agent.compaction.room import (
    DEFER_TOOLS,
    CompactionRoom,
    conversation_tokens,
    leaves_enough_room,
    reduce_caps,
)
from ebbtide.agent.compaction.strategies import (
    CUT_STRATEGIES,
    STRATEGIES_BY_CAUSE,
    Strategy,
    cut_outputs,
    mask_least_needed,
    run_strategy,
)
from ebbtide.agent.compaction.summary import Draft
from ebbtide.agent.events.session import Noticed
from ebbtide.agent.events.view import (
    Cause,
    CompactionFailed,
    CompactionStarted,
    ContextCompacted,
    NothingCompacted,
    Price,
    ReceiptItem,
)
from ebbtide.agent.eviction.carrying_costs import mask_by_keys, newly_masked_keys
from ebbtide.agent.messages import Conversation
from ebbtide.agent.providers.learned_limits import MAX_SUMMARY_FAILURES, SMALL_WINDOW_TOKENS
from ebbtide.agent.view.items import PINS_STRATEGY, shrink_pins

SUMMARIES_STOPPED = (
    f"{MAX_SUMMARY_FAILURES} summaries in a row were unusable, so no more are requested; `/compact` tries again"
)


@dataclass(frozen=True, slots=True)
class CompactionResult:
    before_tokens: int
    after_tokens: int
    previous_message_count: int
    new_message_count: int
    strategies: tuple[str, ...]
    """The strategies that took effect, in order; empty if none did. `tools` means that tools were deferred, and `pins`
    that pins were shortened; see `Strategy` for the others."""
    is_interrupted: bool = False
    """Whether the user interrupted it; the conversation is then unchanged."""


@dataclass(frozen=True, slots=True)
class CompactedConversation:
    conversation: Conversation
    result: CompactionResult
    problem: str = ""
    """Which component is too large, if even the compacted view leaves too little room; otherwise empty."""


@dataclass(frozen=True, slots=True)
class ForcedStrategy:
    """The only strategy to try, and the price for which it was chosen, if any."""

    strategy: Strategy
    price: Price | None = None
    summary_end: int | None = None
    """Index of the first message that a summary must not cover; None to choose it automatically."""
    item_keys: frozenset[str] = frozenset()
    """Keys of the items to mask; empty to choose them automatically."""


async def compact_conversation(
    conversation: Conversation,
    context: CompactionContext,
    cause: Cause,
    focus: str | None = None,
    forced_strategy: ForcedStrategy | None = None,
) -> CompactedConversation:
    """Compact the conversation. The result is smaller or unchanged. If no model returns a usable summary, the ledger
    replaces the removed messages, unless `forced_strategy` is set. An interrupted compaction changes nothing."""
    if cause == "asked":
        context.learned_limits.summary_failure_count = 0
        context.learned_limits.unresponsive_summarisers = frozenset()
    # If the strategy was chosen for its price, that price assumes that the tools stay in the cache.
    room = context.room if forced_strategy is None else replace(context.room, deferrable_tokens=0)
    context = replace(context, settings=replace(context.settings, caps=reduce_caps(context.settings.caps, room)))
    limits = await asyncio.to_thread(compute_limits, conversation, context.settings.caps, room)
    current = conversation
    applied_strategies: list[str] = []
    summary_model = ""
    if limits.deferred_tokens:
        # The provider's count is no longer valid, because it included the deferred tools.
        current = replace(conversation, anchor=None, anchored=0)
        applied_strategies = [DEFER_TOOLS]
        room = room.with_tools_deferred
    if limits.pin_form != "whole" and forced_strategy is None:
        shrunk = shrink_pins(current, limits.pin_form)
        applied_strategies = applied_strategies if shrunk is current else [*applied_strategies, PINS_STRATEGY]
        current = shrunk
    is_enough_already = bool(applied_strategies) and cause != "asked" and leaves_enough_room(DEFER_TOOLS, current, room)
    strategies = STRATEGIES_BY_CAUSE[cause] if forced_strategy is None else (forced_strategy.strategy,)
    if cause != "asked" and forced_strategy is None and context.learned_limits.is_in_cooldown(room.window_tokens):
        strategies = tuple(strategy for strategy in strategies if strategy not in ("summary", "chunks"))
    summary_cost = SummaryCost(context.emit)
    max_chunks = (
        context.max_chunks if cause == "asked" or room.window_tokens > SMALL_WINDOW_TOKENS else 1
    )  # in a small window, a summary in many chunks would cost more than the work itself
    context = replace(context, emit=summary_cost.record_event, max_chunks=max_chunks)
    context.emit(CompactionStarted(await asyncio.to_thread(context.count_tokens, conversation)))
    for strategy in () if is_enough_already else strategies:
        candidate = await _try_strategy(strategy, current, context, limits, focus, forced_strategy)
        if context.interrupt.is_requested():
            unchanged = build_compaction_result(conversation, conversation, (), context.count_tokens)
            context.emit(NothingCompacted())
            return CompactedConversation(conversation, replace(unchanged, is_interrupted=True), limits.problem)
        if candidate is None:
            continue
        is_only_strategy = forced_strategy is not None
        is_size_unknown = cause == "pictures" or (strategy == "pictures" and cause == "overflow")
        has_room = await asyncio.to_thread(
            _has_enough_room, strategy, candidate, room, is_only_strategy=is_only_strategy
        )
        is_accepted = await asyncio.to_thread(
            _is_accepted, strategy, current, candidate, context.count_tokens, has_room=has_room
        )
        if not is_size_unknown and not is_accepted:
            continue
        current = candidate
        applied_strategies = [*applied_strategies, strategy]
        summary_model = summary_cost.model if strategy in ("summary", "chunks") else summary_model
        if cause == "asked" or has_room:
            break
    deferred_tokens = limits.deferred_tokens if DEFER_TOOLS in applied_strategies else 0
    result = await asyncio.to_thread(
        build_compaction_result, conversation, current, applied_strategies, context.count_tokens, deferred_tokens
    )
    if "pictures" in applied_strategies and cause == "overflow":
        # The provider's count of images is unknown, but the request must have exceeded the available room.
        result = replace(result, before_tokens=max(result.before_tokens, room.window_tokens, result.after_tokens + 1))
    if applied_strategies:
        receipt = await asyncio.to_thread(
            build_receipt, conversation, current, applied_strategies, limits.deferred_tokens, room.raw_token_ratio
        )
        event = build_compaction_event(result, cause, receipt)
        price = (forced_strategy.price if forced_strategy else None) or context.compute_price(
            applied_strategies, newly_masked_keys(conversation, current)
        )
        context.emit(replace(event, price=price, model=summary_model, cost=summary_cost.cost))
    else:
        context.emit(NothingCompacted())
    if limits.problem and (cause == "asked" or not context.learned_limits.is_insufficient_space_reported):
        context.emit(Noticed(f"{limits.problem}; use a model with a larger window for more room"))
        context.learned_limits.is_insufficient_space_reported = True
    return CompactedConversation(current, result, limits.problem)


def _has_enough_room(
    strategy: Strategy, candidate: Conversation, room: CompactionRoom, *, is_only_strategy: bool
) -> bool:
    """Whether a strategy's outcome leaves enough room. `is_only_strategy`: no other strategy will be tried."""
    return room.used_share(candidate) <= 1.0 if is_only_strategy else leaves_enough_room(strategy, candidate, room)


def _is_accepted(
    strategy: Strategy,
    conversation: Conversation,
    candidate: Conversation,
    count_tokens: Callable[[Conversation], int],
    *,
    has_room: bool,
) -> bool:
    """Whether a strategy's outcome is accepted. It must be smaller; with a summary, by at least a tenth. `mask` and
    `cut_to_room` must also leave enough room. Otherwise, masking would only invalidate the cache that a summary needs,
    and cutting would hide unseen outputs for nothing. Summaries and the last resorts must also be smaller as measured
    by `count_tokens`, which knows the provider's counts."""
    is_smaller = conversation_tokens(candidate) < conversation_tokens(conversation)
    match strategy:
        case "mask" | "cut_to_room":
            return is_smaller and has_room
        case "summary" | "chunks" | "ledger":
            return saves_a_tenth(conversation, candidate) and count_tokens(candidate) < count_tokens(conversation)
        case "cut_to_share" | "mask_all" | "attachments" | "drop_older_turns" | "keep_last_message" | "pictures":
            return is_smaller
        case "cut_to_minimum" | "mask_unseen" | "drop_unseen_step" | "shorten_text":
            return is_smaller and count_tokens(candidate) < count_tokens(conversation)


async def _try_strategy(
    strategy: Strategy,
    conversation: Conversation,
    context: CompactionContext,
    limits: CompactionLimits,
    focus: str | None,
    forced_strategy: ForcedStrategy | None = None,
) -> Conversation | None:
    summary_end = forced_strategy.summary_end if forced_strategy else None
    if strategy == "mask":
        return await asyncio.to_thread(_apply_mask, conversation, context, forced_strategy)
    if strategy in CUT_STRATEGIES:
        return await asyncio.to_thread(cut_outputs, strategy, conversation, context.room)
    if strategy not in ("summary", "chunks"):
        return await asyncio.to_thread(run_strategy, strategy, conversation, context.settings.caps, limits)
    plan = (
        None
        if context.learned_limits.has_failed_repeatedly
        else await asyncio.to_thread(_plan_summary, conversation, limits, summary_end)
    )
    if plan is None:
        return None
    context.learned_limits.requests_since_summary = 0
    draft = await summarise(conversation, plan, context, limits, focus, reads_cache=strategy == "summary")
    compacted = await asyncio.to_thread(_with_summary, conversation, plan, draft, limits) if draft else None
    if compacted is not None:
        context.learned_limits.summary_failure_count = 0
        return compacted
    if draft:
        context.emit(CompactionFailed(context.provider.facts.id, "it saves too little"))
    if not context.interrupt.is_requested():
        context.learned_limits.summary_failure_count += 1
    if context.learned_limits.summary_failure_count == MAX_SUMMARY_FAILURES:
        context.emit(Noticed(SUMMARIES_STOPPED))
    return None


def _apply_mask(
    conversation: Conversation, context: CompactionContext, forced_strategy: ForcedStrategy | None
) -> Conversation | None:
    if forced_strategy is None or not forced_strategy.item_keys:
        return mask_least_needed(conversation, context.settings.caps, context.room)
    masked = mask_by_keys(conversation, forced_strategy.item_keys)
    return None if masked is conversation else masked


def _plan_summary(
    conversation: Conversation, limits: CompactionLimits, summary_end: int | None
) -> CompactionPlan | None:
    """Plan a summary; None if no summary would save enough."""
    if summary_end is None:
        plan = plan_compaction(
            conversation, limits.caps.tail, min_steps=limits.min_steps, max_turns=limits.caps.max_tail_turns
        )
    else:
        plan = plan_at(conversation, summary_end)
    if plan is None or not can_save_a_tenth(conversation, plan):
        return None
    return with_carried_outputs(conversation, plan, limits.caps)


def _with_summary(
    conversation: Conversation, plan: CompactionPlan, draft: Draft, limits: CompactionLimits
) -> Conversation | None:
    """Add the summary to the conversation; None if that saves too little."""
    compacted = apply_compaction(plan, draft, limits.caps)
    return compacted if saves_a_tenth(conversation, compacted) else None


def build_compaction_event(result: CompactionResult, cause: Cause, items: tuple[ReceiptItem, ...]) -> ContextCompacted:
    return ContextCompacted(
        result.before_tokens,
        result.after_tokens,
        result.previous_message_count,
        result.new_message_count,
        result.strategies,
        cause,
        items,
    )


def build_compaction_result(
    conversation: Conversation,
    compacted: Conversation,
    applied_strategies: Sequence[str],
    count_tokens: Callable[[Conversation], int],
    deferred_tokens: int = 0,
) -> CompactionResult:
    """Return the result of a compaction. Sizes are those of complete requests, with system prompt and tools.
    `deferred_tokens`: tokens of the tools that the compaction deferred."""
    return CompactionResult(
        count_tokens(conversation),
        count_tokens(compacted) - deferred_tokens,
        len(conversation.messages),
        len(compacted.messages),
        tuple(applied_strategies),
    )
