"""Undo the last rewrite: restore the previous view, with everything said since. The pricing is in
`ebbtide.agent.context.edit_cost`."""

import asyncio
from dataclasses import dataclass, replace

from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.edit_cost import first_change, hold_after, undo_refusal, written_again, written_behind
from ebbtide.agent.context.message_text import has_unique_ids
from ebbtide.agent.context.prefix import Digests
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.view import RewriteUndone
from ebbtide.agent.messages import Conversation, User
from ebbtide.agent.providers.usage import counted_for
from ebbtide.agent.window.measure import budget_of, choose_tools, request_mark
from ebbtide.agent.window.rewrite import edit_pricing, measuring_copy
from ebbtide.agent.window.session_context import SessionContext

NOTHING = "nothing to undo: there was no rewrite, or it was too long ago"
SAME_IDS = (
    "the previous view cannot be restored: the server has since reused ids of its calls; "
    "`/bring` brings back single parts of it"
)


@dataclass(frozen=True, slots=True)
class UndoOffer:
    """The effect of undoing the last rewrite; nothing has changed yet."""

    conversation: Conversation
    """The current conversation."""
    number: int
    """Number of the previous view."""
    event: RewriteUndone
    """The expected event."""


@dataclass(frozen=True, slots=True)
class UndoneRewrite:
    conversation: Conversation
    event: RewriteUndone


async def offer_undo(conversation: Conversation, env: SessionContext) -> UndoOffer:
    """Return the cost of an undo. Raises `AgentError` if there is nothing to undo or the previous view does not fit."""
    number, _, event, _ = await _restore_view(conversation, env)
    return UndoOffer(conversation, number, event)


async def undo(conversation: Conversation, env: SessionContext) -> UndoneRewrite:
    """Restore the view from before the last rewrite and store that. It is not rewritten automatically until it has
    grown. Raises `AgentError`, and then nothing has changed."""
    number, restored, event, has_its_tools = await _restore_view(conversation, env)
    env.meter.reset_counters()
    env.watch.note_rewrite(first_change(conversation, restored)[0])
    env.carrying_cost.reset()
    if not has_its_tools:  # if not, an earlier rewrite deferred them, and that one stays
        env.deferral.defer_as_usual()
    env.deferral.wished = restored.held_back
    choose_tools(env)
    env.emit(event)
    await env.recorder.snapshot(restored, User(()), request_mark(env), back=number)
    env.debug.log(
        "context/undo",
        beforeTokens=event.before_tokens,
        afterTokens=event.after_tokens,
        writtenTokens=event.written,
        heldTokens=restored.held,
    )
    return UndoneRewrite(restored, event)


async def _restore_view(
    conversation: Conversation, env: SessionContext
) -> tuple[int, Conversation, RewriteUndone, bool]:
    """Return the number of the previous view, the view, the event, and whether the tools are unchanged."""
    found = await env.recorder.log.before_rewrite(conversation)
    if found is None:
        raise AgentError(NOTHING)
    number, restored, mark = found
    restored = replace(
        restored, pinned=conversation.pinned, recalls=replace(restored.recalls, back=conversation.recalls.back)
    )
    restored = counted_for(restored, env.provider.facts.id)
    has_its_tools = mark is not None and mark.tools == Digests().of_tools(env.offered_tools)
    if not has_its_tools:
        restored = replace(restored, anchor=None, anchored=0)  # it was counted with other tools
    now = budget_of(conversation, env)
    env.meter.scale_by(conversation, now)
    then, written = await asyncio.to_thread(_measure_undo, conversation, now, restored, env)
    cost, prices = None, env.provider.facts.prices
    if prices is not None:
        price = prices.at(then.used)
        cost = written * (price.input if env.watch.is_uncached else max(price.cache_write, price.input))
    event = RewriteUndone(now.used, then.used, written, cost, then.window.effective, not env.watch.is_uncached)
    return number, replace(restored, held=hold_after(then.used, then.window.effective)), event, has_its_tools


def _measure_undo(
    conversation: Conversation, now: ContextBudget, restored: Conversation, env: SessionContext
) -> tuple[ContextBudget, int]:
    """Return the budget of the previous view, and its tokens to be written to the cache again. Raises `AgentError`."""
    then = budget_of(restored, measuring_copy(env))
    refusal = undo_refusal(then) if has_unique_ids(restored.messages) else SAME_IDS
    if refusal:
        raise AgentError(refusal)
    return then, _cache_write_tokens(conversation, now, restored, then, env)


def _cache_write_tokens(
    conversation: Conversation, now: ContextBudget, restored: Conversation, then: ContextBudget, env: SessionContext
) -> int:
    """Tokens to be written to the cache again: none if no request has used the rewrite. Without a cache, the additional
    tokens of the next request."""
    if env.watch.is_uncached:
        return max(then.used - now.used, 0)
    if conversation.held_back != restored.held_back:
        return then.used if env.watch.unchanged_messages is None else 0
    behind = written_behind(conversation, restored, edit_pricing(conversation, now, env))
    return min(behind, written_again(then))
