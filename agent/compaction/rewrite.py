"""Rewrites of the view: when one is due during and between turns, its hooks, and its records.
`ebbtide.agent.compaction.plan` and `ebbtide.agent.eviction` decide what to rewrite. Most turns rewrite nothing, so
these modules are loaded only when needed."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from ebbtide.agent import compaction
from ebbtide.agent.budget.prices import unit_prices
from ebbtide.agent.budget.request_budget import ContextBudget
from ebbtide.agent.control_calls import compaction_request
from ebbtide.agent.errors import HookRefused
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import Cause, Price
from ebbtide.agent.eviction.carrying_costs import create_rewrite_pricer, decision_debug_fields, old_maskable_items
from ebbtide.agent.logs.debug_log import DebugLog
from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.providers.base import Request
from ebbtide.agent.window.measure import (
    MeasuredConversation,
    choose_tools,
    create_request,
    create_request_sizer,
    is_compaction_needed,
    last_request_record,
    measure_budget,
)
from ebbtide.agent.window.session_context import TurnContext, WindowContext
from ebbtide.tools.outputs.extent import pluralize

if TYPE_CHECKING:  # types only: loaded when needed
    from ebbtide.agent.compaction.compact import CompactedConversation, CompactionResult, ForcedStrategy
    from ebbtide.agent.compaction.model_summary import CompactionContext
    from ebbtide.agent.compaction.strategies import Strategy


async def rewrite_if_due(
    conversation: Conversation, budget: ContextBudget, window: WindowContext, turn: TurnContext
) -> MeasuredConversation:
    """Rewrite the conversation if its accumulated carrying cost has reached the cost of a rewrite. Return it with its
    budget. After an undo, nothing is rewritten until the view has grown."""
    if budget.verdict != "fits" or budget.used < conversation.min_rewrite_size:
        return conversation, budget
    settings, facts, prefix_watch = window.compaction_settings, window.model.facts, window.prefix_watch
    cause: Cause
    if settings.policy == "total_budget":
        keys = frozenset(
            item.key
            for item in old_maskable_items(
                conversation, settings.caps.protected_output_tokens, settings.caps.protected_message_count
            )
        )
        if not keys:
            return conversation, budget
        cause, forced_strategy = "budget", force_strategy("mask", keys=keys)
    elif settings.policy == "cost":
        is_cold, prices = prefix_watch.is_cache_cold(facts), unit_prices(facts.prices)
        is_cooling_down = window.model.learned_limits.is_in_cooldown(budget.effective_window)
        decision = window.carrying_cost_tracker.decide(
            conversation, budget, prices, settings, is_cold=is_cold, masks_only=is_cooling_down
        )
        window.debug.log("context/cost", **decision_debug_fields(decision, prices, is_cold))
        if decision.action == "nothing":
            return conversation, budget
        price = create_rewrite_pricer(
            window.carrying_cost_tracker,
            conversation,
            budget,
            facts.prices,
            settings,
            is_cold=is_cold,
            is_uncached=prefix_watch.is_uncached,
            triggering_cost=decision.triggering_cost,
        )
        strategy: Strategy = "mask" if decision.action == "mask" else "summary"
        cause, keys = "cold" if is_cold else "rent", decision.offer.keys
        forced_strategy = force_strategy(strategy, price((strategy,), keys), keys)
    else:
        return conversation, budget
    compacted, budget = await compact_and_measure(conversation, budget, window, turn, cause, forced_strategy)
    return compacted.conversation, budget


async def compact_to_fit(
    conversation: Conversation, budget: ContextBudget, window: WindowContext, turn: TurnContext
) -> tuple[Conversation, ContextBudget, str]:
    """Compact a conversation that is too large. Return it with its budget and a message about any component that is
    still too large (otherwise empty). As a last resort, a summary is tried even if one was written recently."""
    compacted, budget = await compact_and_measure(conversation, budget, window, turn, "full")
    limits = window.model.learned_limits
    if budget.is_blocked and limits.is_in_cooldown(budget.effective_window) and not turn.interrupt.is_requested():
        limits.end_cooldown()
        compacted, budget = await compact_and_measure(compacted.conversation, budget, window, turn, "full")
    return compacted.conversation, budget, compacted.problem


async def add_budget_correction(
    conversation: Conversation, budget: ContextBudget, window: WindowContext, turn: TurnContext
) -> MeasuredConversation:
    """If a rewrite made a visible note about context usage wrong, add a note with the current usage."""
    if budget.verdict != "fits":
        return conversation, budget
    used_percent = 100 * budget.used / max(budget.window.available_tokens, 1)
    note = window.reminders.correction_note(conversation, used_percent, window.prefix_watch.rewrite_count)
    if note is None:
        return conversation, budget
    message = User((note,))
    await turn.recorder.record_user_message(message)
    conversation = conversation.plus(message)
    return conversation, measure_budget(conversation, window)


async def compact_between_turns(conversation: Conversation, window: WindowContext, turn: TurnContext) -> Conversation:
    """Compact between turns, if the next turn would have to wait for a compaction, or if the conversation is long and a
    summary will pay off."""
    due = background_compaction_due(conversation, window)
    if due is None:
        return conversation
    forced_strategy = force_strategy("summary") if due == "summary" else None
    return (await compact_now(conversation, window, turn, "background", forced=forced_strategy)).conversation


def background_compaction_due(conversation: Conversation, window: WindowContext) -> Literal["room", "summary"] | None:
    """Decide which compaction is due between turns: `room` (free space by any strategy) if the window is nearly full,
    `summary` if there are many messages. None if neither is the case or it would not pay off."""
    settings = window.compaction_settings
    if not settings.is_automatic or settings.on_full != "compact":
        return None
    budget = measure_budget(conversation, window)
    if budget.verdict != "fits":
        return "room"
    is_cooling_down = window.model.learned_limits.is_in_cooldown(budget.effective_window)
    if settings.policy != "cost" or budget.used < conversation.min_rewrite_size or is_cooling_down:
        return None
    is_large = budget.used_share >= settings.background_share
    is_long = len(conversation.messages) >= settings.background_message_count
    if not is_large and not is_long:
        return None
    if not window.carrying_cost_tracker.will_pay_off(
        conversation, budget, unit_prices(window.model.facts.prices), settings
    ):
        return None
    return "room" if is_large else "summary"


async def mask_after_turn(conversation: Conversation, window: WindowContext, turn: TurnContext) -> Conversation:
    """Mask old outputs at the end of a turn, if the next request would otherwise have to wait for masking. No summary
    is written, because there might be no next request."""
    if not is_compaction_needed(conversation, window):
        return conversation
    return (await compact_now(conversation, window, turn, "background", forced=force_strategy("mask"))).conversation


async def compact_if_requested(conversation: Conversation, window: WindowContext, turn: TurnContext) -> Conversation:
    """Compact the conversation if the last step's calls asked for it, and add a note on the result."""
    requested = compaction_request(conversation.messages)
    if requested is None:
        return conversation
    try:
        compacted = await compact_now(conversation, window, turn, "asked", requested.focus)
        conversation, report = compacted.conversation, compaction_note(compacted.result)
    except HookRefused as error:
        report = f"[compact_context: nothing was compacted: {error}]"
    message = User((Note(report),))
    await turn.recorder.record_user_message(message)
    return conversation.plus(message)


def compaction_note(result: "CompactionResult") -> str:
    """Format the note that tells the model the result of a compaction that it asked for."""
    if result.is_interrupted:
        return "[compact_context: the user interrupted it; nothing was compacted.]"
    if not result.strategies:
        return "[compact_context: nothing was compacted; there was too little before the newest steps.]"
    return (
        f"[compact_context: about {result.before_tokens:,} tokens in "
        f"{pluralize(result.previous_message_count, 'message')} "
        f"became {result.after_tokens:,} in {result.new_message_count}. Go on with the work.]"
    )


async def compact_manually(
    conversation: Conversation,
    window: WindowContext,
    turn: TurnContext,
    focus: str | None,
    on_event: Callable[[Event], None],
) -> "CompactedConversation":
    """Compact at the user's request. `on_event` receives the events, because no turn is running to show them."""

    def emit(event: Event) -> None:
        turn.emit(event)
        on_event(event)

    return await compact_now(conversation, window, replace(turn, emit=emit), "asked", focus)


def ignore_event(event: Event) -> None:
    """Ignore the event."""


def force_strategy(
    strategy: "Strategy", price: Price | None = None, keys: frozenset[str] = frozenset()
) -> "ForcedStrategy":
    """Force a single strategy. `price`: the price for which it was chosen; `keys`: the items to mask, if the strategy
    is a mask."""
    return compaction.compact.ForcedStrategy(strategy, price, item_keys=keys)


async def compact_and_measure(
    conversation: Conversation,
    budget: ContextBudget,
    window: WindowContext,
    turn: TurnContext,
    cause: Cause,
    forced_strategy: "ForcedStrategy | None" = None,
    counted_tokens: int | None = None,
) -> "tuple[CompactedConversation, ContextBudget]":
    """Compact the conversation and measure the result. `budget`: the conversation's budget. `forced_strategy`: the only
    strategy to try. `counted_tokens`: the provider's token count of the request, if the provider rejected it as too
    large."""
    compacted = await _compact(conversation, budget, window, turn, cause, None, counted_tokens, forced_strategy)
    return compacted, measure_budget(compacted.conversation, window)


async def compact_now(
    conversation: Conversation,
    window: WindowContext,
    turn: TurnContext,
    cause: Cause = "asked",
    focus: str | None = None,
    *,
    forced: "ForcedStrategy | None" = None,
) -> "CompactedConversation":
    """Compact the conversation and record the result. `forced`: the only strategy to try. Raises `HookRefused` if the
    cause is `asked`."""
    return await _compact(conversation, measure_budget(conversation, window), window, turn, cause, focus, None, forced)


async def _compact(
    conversation: Conversation,
    budget: ContextBudget,
    window: WindowContext,
    turn: TurnContext,
    cause: Cause,
    focus: str | None,
    counted_tokens: int | None,
    forced_strategy: "ForcedStrategy | None",
) -> "CompactedConversation":
    if forced_strategy is None or forced_strategy.strategy == "summary":
        await run_compaction_hooks(turn, cause, focus)
    context = await build_compaction_context(conversation, budget, window, turn, counted_tokens)
    compacted = await compaction.compact.compact_conversation(conversation, context, cause, focus, forced_strategy)
    await record_rewrite(conversation, budget, compacted, window, turn, cause, forced_strategy)
    return compacted


async def run_compaction_hooks(turn: TurnContext, cause: Cause, focus: str | None) -> None:
    """Run the hooks that precede a summary. Raises `HookRefused` if a hook prevents a summary that the user or the
    model asked for. A summary needed to fit the window cannot be prevented."""
    if turn.hooks is not None:
        answer = await turn.hooks.ask_before_compaction(_trigger_of(cause), focus or "")
        if answer.verdict == "deny" and cause == "asked":
            raise HookRefused(f"a hook prevents the compaction: {answer.reason}")


def _trigger_of(cause: Cause) -> Literal["manual", "auto"]:
    return "manual" if cause == "asked" else "auto"


async def build_compaction_context(
    conversation: Conversation,
    budget: ContextBudget,
    window: WindowContext,
    turn: TurnContext,
    counted_tokens: int | None = None,
) -> "CompactionContext":
    """Return the context for compacting the conversation. `counted_tokens`: as in `compact_and_measure`."""
    return await asyncio.to_thread(_build_context_in_thread, conversation, budget, window, turn, counted_tokens)


def _build_context_in_thread(
    conversation: Conversation,
    budget: ContextBudget,
    window: WindowContext,
    turn: TurnContext,
    counted_tokens: int | None,
) -> "CompactionContext":
    """Build the context. This runs in a thread and measures with copies, because the session might be measuring a new
    message at the same time."""

    model = window.model

    def build_request(conversation_to_send: Conversation) -> Request:
        prompt = build_prompt(conversation_to_send, window.instructions, supports_images=model.facts.images)
        return create_request(prompt, window.tools.offered_specs, window)

    deferrable_share = window.tools.deferral.deferrable_share(
        window.tools.all_specs,
        window.tools.available_specs,
        budget.effective_window,
        model.meter.estimate_definition,
    )
    room = compaction.room.measure_room(budget, conversation, counted_tokens, deferrable_share)
    facts, prefix_watch = model.facts, window.prefix_watch
    is_uncached = prefix_watch.is_uncached
    is_cold = prefix_watch.is_cache_cold(facts) or is_uncached
    return compaction.model_summary.CompactionContext(
        model.provider,
        build_request,
        room,
        create_request_sizer(conversation, window),
        window.compaction_settings,
        turn.interrupt,
        turn.emit,
        model.learned_limits,
        window.summarisers,
        is_cold,
        create_rewrite_pricer(
            window.carrying_cost_tracker,
            conversation,
            budget,
            facts.prices,
            window.compaction_settings,
            is_cold=is_cold,
            is_uncached=is_uncached,
        ),
    )


async def record_rewrite(
    old_view: Conversation,
    budget: ContextBudget,
    compacted: "CompactedConversation",
    window: WindowContext,
    turn: TurnContext,
    cause: Cause,
    forced_strategy: "ForcedStrategy | None" = None,
) -> None:
    """Update everything that depends on the view, and store the rewrite with the previous view. `budget`: the budget of
    `old_view`. Does nothing if nothing was rewritten."""
    strategies, new_view = compacted.result.strategies, compacted.conversation
    if not strategies:
        return
    window.model.meter.update_scale(old_view, budget)
    window.model.meter.reset_counters()
    window.prefix_watch.allow_rewrite(await asyncio.to_thread(unchanged_message_count, old_view, new_view, strategies))
    if compaction.room.DEFER_TOOLS in strategies:
        window.tools.deferral.defer_all()
    # Masking keeps the cache valid up to the first masked output, and so it keeps the tools cached. Unless the cache is
    # cold, the tools are left as they are.
    if not set(strategies) <= {"mask", *compaction.strategies.CUT_STRATEGIES} or cause == "cold":
        choose_tools(window, turn.emit)
    if forced_strategy is None or forced_strategy.price is None:
        window.carrying_cost_tracker.reset()
    await turn.recorder.record_snapshot(new_view, User(()), last_request_record(window), old_view)
    log_rewrite(old_view, compacted, cause, forced_strategy, window.debug)
    if turn.hooks is not None and new_view.summary != old_view.summary:
        await turn.hooks.report_compaction(_trigger_of(cause), new_view.summary.text)


def unchanged_message_count(old_view: Conversation, new_view: Conversation, strategies: Sequence[str]) -> int:
    """Count the messages that a rewrite left unchanged: those before the first changed output, or 0 if anything other
    than outputs was changed."""
    if not set(strategies) <= {"mask", "mask_all", "mask_unseen", *compaction.strategies.CUT_STRATEGIES}:
        return 0
    new_messages, old_messages = (build_prompt(view, Instructions("")).messages for view in (new_view, old_view))
    changed_indices = (
        index for index, (new, old) in enumerate(zip(new_messages, old_messages, strict=True)) if new != old
    )
    return next(changed_indices, 0)


def log_rewrite(
    old_view: Conversation,
    compacted: "CompactedConversation",
    cause: Cause,
    forced_strategy: "ForcedStrategy | None",
    debug: DebugLog,
) -> None:
    """Write the rewrite to the debug log."""
    result = compacted.result
    sizes = {"beforeTokens": result.before_tokens, "afterTokens": result.after_tokens}
    price = forced_strategy.price if forced_strategy else None
    if cause == "overflow":
        debug.log("context/emergency", reason=cause, strategy=result.strategies[-1], **sizes)
    elif result.strategies == ("mask",):
        output_count = len(compacted.conversation.masked - old_view.masked)
        removed_tokens = result.before_tokens - result.after_tokens
        debug.log("context/mask", reason=cause, outputs=output_count, removedTokens=removed_tokens, price=price)
    else:
        counts = {"beforeMessages": result.previous_message_count, "afterMessages": result.new_message_count}
        debug.log("context/compact", reason=cause, strategies=result.strategies, price=price, **sizes, **counts)
