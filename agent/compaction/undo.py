"""Undoes the last rewrite: restores the previous view, followed by all messages since. The pricing is in
`ebbtide.agent.compaction.edit_cost`."""

import asyncio
from dataclasses import dataclass, replace

from ebbtide.agent.budget.prefix import RequestDigester
from ebbtide.agent.budget.request_budget import ContextBudget
from ebbtide.agent.compaction.apply_edits import edit_pricing
from ebbtide.agent.compaction.edit_cost import (
    first_change,
    invalidated_cache_tokens,
    min_size_after_undo,
    tokens_after_prefix,
    undo_refusal,
)
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.view import RewriteUndone
from ebbtide.agent.messages import Conversation, User
from ebbtide.agent.providers.usage import drop_other_model_anchor
from ebbtide.agent.view.message_text import has_unique_ids
from ebbtide.agent.window.measure import choose_tools, last_request_record, measure_budget, measuring_copy
from ebbtide.agent.window.session_context import TurnContext, WindowContext

NOTHING_TO_UNDO = "nothing to undo: there was no rewrite, or it was too long ago"
REUSED_IDS = (
    "the previous view cannot be restored: the server has since reused ids of its calls; "
    "`/bring` restores individual parts of it"
)


@dataclass(frozen=True, slots=True)
class UndoPreview:
    """The effect of undoing the last rewrite; nothing has changed yet."""

    conversation: Conversation
    """The current conversation, unchanged."""
    view_number: int
    """Number of the previous view in the session's log."""
    event: RewriteUndone
    """The expected event."""


@dataclass(frozen=True, slots=True)
class UndoneRewrite:
    conversation: Conversation
    event: RewriteUndone


async def preview_rewrite_undo(conversation: Conversation, window: WindowContext, turn: TurnContext) -> UndoPreview:
    """Compute the effect and cost of an undo. Raises `AgentError` if there is nothing to undo or the previous view does
    not fit."""
    view_number, _, event, _ = await _measure_previous_view(conversation, window, turn)
    return UndoPreview(conversation, view_number, event)


async def undo_rewrite(conversation: Conversation, window: WindowContext, turn: TurnContext) -> UndoneRewrite:
    """Restore the view from before the last rewrite, and store it. Nothing is rewritten automatically until the view
    has grown. Raises `AgentError`, without changing anything, if there is nothing to undo or the view does not fit."""
    view_number, restored_view, event, has_same_tools = await _measure_previous_view(conversation, window, turn)
    window.model.meter.reset_counters()
    window.prefix_watch.allow_rewrite(first_change(conversation, restored_view)[0])
    window.carrying_cost_tracker.reset()
    if not has_same_tools:  # if they are the same, an earlier rewrite deferred tools, and that one is not undone
        window.tools.deferral.reset_share()
    window.tools.deferral.user_deferred = restored_view.excluded_tools
    choose_tools(window, turn.emit)
    turn.emit(event)
    await turn.recorder.record_snapshot(
        restored_view, User(()), last_request_record(window), restored_view_number=view_number
    )
    window.debug.log(
        "context/undo",
        beforeTokens=event.before_tokens,
        afterTokens=event.after_tokens,
        writtenTokens=event.written,
        heldTokens=restored_view.min_rewrite_size,
    )
    return UndoneRewrite(restored_view, event)


async def _measure_previous_view(
    conversation: Conversation, window: WindowContext, turn: TurnContext
) -> tuple[int, Conversation, RewriteUndone, bool]:
    """Return the number of the previous view, the view itself, the event, and whether the tools are unchanged."""
    model = window.model
    earlier_view = await turn.recorder.log.view_before_rewrite(conversation)
    if earlier_view is None:
        raise AgentError(NOTHING_TO_UNDO)
    view_number, restored_view, mark = earlier_view
    restored_view = replace(
        restored_view,
        pinned=conversation.pinned,
        recalls=replace(restored_view.recalls, back=conversation.recalls.back),
    )
    restored_view = drop_other_model_anchor(restored_view, model.facts.id)
    has_same_tools = mark is not None and mark.tools == RequestDigester().tools_digest(window.tools.offered_specs)
    if not has_same_tools:
        restored_view = replace(restored_view, anchor=None, anchored=0)  # the provider's count included other tools
    current_budget = measure_budget(conversation, window)
    model.meter.update_scale(conversation, current_budget)
    restored_budget, written = await asyncio.to_thread(
        _measure_undo, conversation, current_budget, restored_view, window
    )
    cost, prices = None, model.facts.prices
    if prices is not None:
        price = prices.per_token(restored_budget.used)
        cost = written * (price.input if window.prefix_watch.is_uncached else max(price.cache_write, price.input))
    event = RewriteUndone(
        current_budget.used,
        restored_budget.used,
        written,
        cost,
        restored_budget.window.available_tokens,
        not window.prefix_watch.is_uncached,
    )
    return (
        view_number,
        replace(
            restored_view,
            min_rewrite_size=min_size_after_undo(restored_budget.used, restored_budget.window.available_tokens),
        ),
        event,
        has_same_tools,
    )


def _measure_undo(
    conversation: Conversation, current_budget: ContextBudget, restored_view: Conversation, window: WindowContext
) -> tuple[ContextBudget, int]:
    """Return the budget of the previous view, and how many of its tokens must be written to the cache again. Raises
    `AgentError`."""
    restored_budget = measure_budget(restored_view, measuring_copy(window))
    refusal = undo_refusal(restored_budget) if has_unique_ids(restored_view.messages) else REUSED_IDS
    if refusal:
        raise AgentError(refusal)
    return restored_budget, _cache_write_tokens(conversation, current_budget, restored_view, restored_budget, window)


def _cache_write_tokens(
    conversation: Conversation,
    current_budget: ContextBudget,
    restored_view: Conversation,
    restored_budget: ContextBudget,
    window: WindowContext,
) -> int:
    """Count the tokens that must be written to the cache again; 0 if no request has been sent since the rewrite.
    Without a cache, count the tokens by which the next request grows."""
    if window.prefix_watch.is_uncached:
        return max(restored_budget.used - current_budget.used, 0)
    if conversation.excluded_tools != restored_view.excluded_tools:
        return restored_budget.used if window.prefix_watch.unchanged_message_count is None else 0
    invalidated = invalidated_cache_tokens(
        conversation, restored_view, edit_pricing(conversation, current_budget, window)
    )
    return min(invalidated, tokens_after_prefix(restored_budget))
