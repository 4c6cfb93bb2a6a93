"""Runs a compaction: one strategy after the other, from the cheapest to the last resort, until there is room. The
strategies themselves (`ebbtide.agent.context`) run in a thread, so that the interface stays responsive."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ebbtide.agent.context.apply_strategy import cut_outputs, is_enough, mask, run_strategy
from ebbtide.agent.context.carried_files import with_carried_files
from ebbtide.agent.context.compaction import (
    CompactionPlan,
    Floor,
    apply_compaction,
    can_save_enough,
    fitting_caps,
    is_worth_it,
    plan_at,
    plan_compaction,
    solve_floor,
)
from ebbtide.agent.context.mask import mask_by_keys, newly_masked
from ebbtide.agent.context.pins import PINS_STRATEGY, smaller_pins
from ebbtide.agent.context.receipt import receipt
from ebbtide.agent.context.strategies import CUT_STRATEGIES, LADDERS, TOOLS, Room, Strategy, size_of
from ebbtide.agent.context.summary import Draft
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
from ebbtide.agent.messages import Conversation
from ebbtide.agent.providers.learned_limits import FAILURES, SMALL_WINDOW_TOKENS
from ebbtide.agent.window.model_summary import CompactionContext, SummaryCost, summarise

NO_MORE = f"{FAILURES} summaries in a row were unusable, so no more are requested; `/compact` tries again"


@dataclass(frozen=True, slots=True)
class CompactResult:
    before_tokens: int
    after_tokens: int
    before_messages: int
    after_messages: int
    strategies: tuple[str, ...]
    """The strategies that ran, in order: `tools` deferred, `pins` reduced, `mask`, `share`, `summary` or `chunks` by a
    model, `ledger` without one, `mask_all`, `attachments`, `cut`, `drop`, `last`, `pictures`, `least`, `references`,
    `step`, `words`. Empty if nothing could be gained."""
    is_interrupted: bool = False
    """Interrupted by the user: the conversation is unchanged."""


@dataclass(frozen=True, slots=True)
class CompactedConversation:
    conversation: Conversation
    result: CompactResult
    problem: str = ""
    """Names the component that is too large, if even a compacted view leaves too little room."""


@dataclass(frozen=True, slots=True)
class ForcedStrategy:
    """The only strategy to try, and the price on which it was chosen, if any."""

    strategy: Strategy
    price: Price | None = None
    cut: int | None = None
    """Where a summary has to end, if that was chosen as well."""
    keys: frozenset[str] = frozenset()
    """Keys that a mask has to mask, if they were chosen as well."""


async def compact(
    conversation: Conversation,
    work: CompactionContext,
    cause: Cause,
    focus: str | None = None,
    chosen: ForcedStrategy | None = None,
) -> CompactedConversation:
    """Compact the conversation. It gets smaller or stays unchanged: if no model returns a usable summary, the ledger
    replaces the removed messages, unless a strategy was `chosen`. An interrupted compaction changes nothing."""
    if cause == "asked":
        work.learned_limits.failures, work.learned_limits.silent_writers = 0, frozenset()
    # A price on which one strategy was chosen assumes that the tools stay in the cache.
    room = work.room if chosen is None else replace(work.room, deferrable=0)
    work = replace(work, settings=replace(work.settings, caps=fitting_caps(work.settings.caps, room)))
    floor = await asyncio.to_thread(solve_floor, conversation, work.settings.caps, room)
    after, ran, writer = conversation, list[str](), ""
    if floor.deferred:
        # The provider's count included them.
        after, ran = replace(conversation, anchor=None, anchored=0), [TOOLS]
        room = room.with_tools_deferred
    if floor.pins != "whole" and chosen is None:
        smaller = smaller_pins(after, floor.pins)
        ran = ran if smaller is after else [*ran, PINS_STRATEGY]
        after = smaller
    is_done = bool(ran) and cause != "asked" and is_enough(TOOLS, after, room)
    strategies = LADDERS[cause] if chosen is None else (chosen.strategy,)
    if cause != "asked" and chosen is None and work.learned_limits.is_in_cooldown(room.effective):
        strategies = tuple(strategy for strategy in strategies if strategy not in ("summary", "chunks"))
    bill = SummaryCost(work.emit)
    pieces = (
        work.pieces if cause == "asked" or room.effective > SMALL_WINDOW_TOKENS else 1
    )  # in a small window they outweigh the work
    work = replace(work, emit=bill.record_event, pieces=pieces)
    work.emit(CompactionStarted(await asyncio.to_thread(work.size, conversation)))
    for strategy in () if is_done else strategies:
        candidate = await _try(strategy, after, work, floor, focus, chosen)
        if work.interrupt.is_requested():
            unchanged = result_of(conversation, conversation, (), work.size)
            work.emit(NothingCompacted())
            return CompactedConversation(conversation, replace(unchanged, is_interrupted=True), floor.problem)
        if candidate is None:
            continue
        is_only = chosen is not None
        is_guessed = cause == "pictures" or (strategy == "pictures" and cause == "overflow")
        has_room, helps = await asyncio.to_thread(
            _judge_outcome, strategy, after, candidate, room, work.size, is_only=is_only
        )
        if not is_guessed and not helps:
            continue
        after, ran = candidate, [*ran, strategy]
        writer = bill.model if strategy in ("summary", "chunks") else writer
        if cause == "asked" or has_room:
            break
    deferred = floor.deferred if TOOLS in ran else 0
    result = await asyncio.to_thread(result_of, conversation, after, ran, work.size, deferred)
    if "pictures" in ran and cause == "overflow":
        # The size of pictures is unknown: it was more than there was room for.
        result = replace(result, before_tokens=max(result.before_tokens, room.effective, result.after_tokens + 1))
    if ran:
        items = await asyncio.to_thread(receipt, conversation, after, ran, floor.deferred, room.ratio)
        told = event_of(result, cause, items)
        price = (chosen.price if chosen else None) or work.price_of(ran, newly_masked(conversation, after))
        work.emit(replace(told, price=price, model=writer, cost=bill.cost))
    else:
        work.emit(NothingCompacted())
    if floor.problem and (cause == "asked" or not work.learned_limits.is_floor_reported):
        work.emit(Noticed(f"{floor.problem}; use a model with a larger window for more room"))
        work.learned_limits.is_floor_reported = True
    return CompactedConversation(after, result, floor.problem)


def _judge_outcome(
    strategy: Strategy,
    before: Conversation,
    after: Conversation,
    room: Room,
    told: Callable[[Conversation], int],
    *,
    is_only: bool,
) -> tuple[bool, bool]:
    """Return whether a strategy's outcome leaves enough room, and whether it is accepted. `is_only`: no other strategy
    follows."""
    has_room = room.share(after) <= 1.0 if is_only else is_enough(strategy, after, room)
    return has_room, _helps(strategy, before, after, has_room, told)


def _helps(
    strategy: Strategy, before: Conversation, after: Conversation, has_room: bool, told: Callable[[Conversation], int]
) -> bool:
    """Whether a strategy's outcome is accepted. It must be smaller, by a tenth if a summary replaces messages. A mask
    that leaves too little room would only cost the cache that a summary is read from, and unseen outputs are cut below
    their share only if that makes enough room or nothing else can go. The last resorts must also be smaller as measured
    by `told`."""
    match strategy:
        case "mask" | "cut":
            return size_of(after) < size_of(before) and has_room
        case "summary" | "chunks" | "ledger":
            return is_worth_it(before, after)
        case "share" | "mask_all" | "attachments" | "drop" | "last" | "pictures":
            return size_of(after) < size_of(before)
        case "least" | "references" | "step" | "words":
            return size_of(after) < size_of(before) and told(after) < told(before)


async def _try(
    strategy: Strategy,
    conversation: Conversation,
    work: CompactionContext,
    floor: Floor,
    focus: str | None,
    chosen: ForcedStrategy | None = None,
) -> Conversation | None:
    cut = chosen.cut if chosen else None
    if strategy == "mask":
        return await asyncio.to_thread(_apply_mask, conversation, work, chosen)
    if strategy in CUT_STRATEGIES:
        return await asyncio.to_thread(cut_outputs, strategy, conversation, work.room)
    if strategy not in ("summary", "chunks"):
        return await asyncio.to_thread(run_strategy, strategy, conversation, work.settings.caps, floor)
    plan = None if work.learned_limits.is_broken else await asyncio.to_thread(_paying_plan, conversation, floor, cut)
    if plan is None:
        return None
    work.learned_limits.since_summary = 0
    draft = await summarise(conversation, plan, work, floor, focus, cached=strategy == "summary")
    after = await asyncio.to_thread(_smaller, conversation, plan, draft, floor) if draft else None
    if after is not None:
        work.learned_limits.failures = 0
        return after
    if draft:
        work.emit(CompactionFailed(work.provider.facts.id, "it saves too little"))
    if not work.interrupt.is_requested():
        work.learned_limits.failures += 1
    if work.learned_limits.failures == FAILURES:
        work.emit(Noticed(NO_MORE))
    return None


def _apply_mask(
    conversation: Conversation, work: CompactionContext, chosen: ForcedStrategy | None
) -> Conversation | None:
    if chosen is None or not chosen.keys:
        return mask(conversation, work.settings.caps, work.room)
    after = mask_by_keys(conversation, chosen.keys)
    return None if after is conversation else after


def _paying_plan(conversation: Conversation, floor: Floor, cut: int | None) -> CompactionPlan | None:
    """Return the plan of a summary if it can pay off."""
    if cut is None:
        plan = plan_compaction(conversation, floor.caps.tail, least=floor.least, newest=floor.caps.turns)
    else:
        plan = plan_at(conversation, cut)
    if plan is None or not can_save_enough(conversation, plan):
        return None
    return with_carried_files(conversation, plan, floor.caps)


def _smaller(conversation: Conversation, plan: CompactionPlan, draft: Draft, floor: Floor) -> Conversation | None:
    """Return the conversation with the summary if it saves enough."""
    after = apply_compaction(plan, draft, floor.caps)
    return after if is_worth_it(conversation, after) else None


def event_of(result: CompactResult, cause: Cause, items: tuple[ReceiptItem, ...]) -> ContextCompacted:
    return ContextCompacted(
        result.before_tokens,
        result.after_tokens,
        result.before_messages,
        result.after_messages,
        result.strategies,
        cause,
        items,
    )


def result_of(
    before: Conversation,
    after: Conversation,
    ran: Sequence[str],
    size: Callable[[Conversation], int],
    deferred: int = 0,
) -> CompactResult:
    """Return the result of a compaction, in sizes of whole requests with system prompt and tools, as shown everywhere.
    `deferred`: tokens of the tools deferred by it."""
    return CompactResult(size(before), size(after) - deferred, len(before.messages), len(after.messages), tuple(ran))
