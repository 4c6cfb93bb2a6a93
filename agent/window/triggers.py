"""When a turn rewrites the view. Most turns do not, so the code for rewriting is loaded only when needed."""

from typing import TYPE_CHECKING, Literal

from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.control_calls import compaction_request
from ebbtide.agent.context.old_outputs import old_items
from ebbtide.agent.errors import HookRefused
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import Cause, Price
from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.window.carrying_cost import evaluation, price_by, unit_prices
from ebbtide.agent.window.measure import budget_of, is_over_trigger
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.outputs.extent import pluralize as in_words

if TYPE_CHECKING:  # types only: loaded when needed
    from ebbtide.agent.context.strategies import Strategy
    from ebbtide.agent.window.compact import CompactedConversation, CompactResult


async def rewrite_if_due(conversation: Conversation, env: SessionContext) -> tuple[Conversation, ContextBudget]:
    """Rewrite the conversation if the accumulated carrying cost has reached the cost of a rewrite; return it with its
    budget. After an undo nothing is rewritten until the view has grown."""
    budget = budget_of(conversation, env)
    if budget.verdict != "fits" or budget.used < conversation.held:
        return conversation, budget
    if env.compacting.policy == "total_budget":
        keys = frozenset(
            item.key for item in old_items(conversation, env.compacting.caps.protect, env.compacting.caps.newest)
        )
        if not keys:
            return conversation, budget
        conversation = (await compact_conversation(conversation, env, "budget", "mask", keys=keys)).conversation
        return conversation, budget_of(conversation, env)
    if env.compacting.policy != "rent":
        return conversation, budget
    facts = env.provider.facts
    is_cold = env.watch.is_cold(facts)
    prices = unit_prices(facts.prices)
    rests = env.learned_limits.is_in_cooldown(budget.effective_window)
    ruling = env.carrying_cost.rule(conversation, budget, prices, env.compacting, is_cold=is_cold, masks_only=rests)
    env.debug.log("context/rent", **evaluation(ruling, prices, is_cold))
    if ruling.act == "nothing":
        return conversation, budget
    kind: Literal["mask", "summary"] = "mask" if ruling.act == "mask" else "summary"
    price = price_by(
        env.carrying_cost,
        conversation,
        budget,
        facts.prices,
        env.compacting,
        is_cold=is_cold,
        is_uncached=env.watch.is_uncached,
        paid=ruling.accrued,
    )
    cause: Cause = "cold" if is_cold else "rent"
    done = await compact_conversation(
        conversation, env, cause, kind, price((kind,), ruling.offer.keys), keys=ruling.offer.keys
    )
    return done.conversation, budget_of(done.conversation, env)


async def compact_between_turns(conversation: Conversation, env: SessionContext) -> Conversation:
    """Compact between turns if the next one would have to wait for it, or if the conversation is long and a summary
    will pay off."""
    due = background_compaction_due(conversation, env)
    if due is None:
        return conversation
    return (
        await compact_conversation(conversation, env, "background", "summary" if due == "summary" else None)
    ).conversation


def background_compaction_due(conversation: Conversation, env: SessionContext) -> Literal["room", "summary"] | None:
    """Return what to do between turns: make room by any strategy if the window is nearly full, or a summary if there
    are many messages. None while that would not pay off."""
    how = env.compacting
    if not how.is_automatic or how.on_full != "compact":
        return None
    budget = budget_of(conversation, env)
    if budget.verdict != "fits":
        return "room"
    rests = env.learned_limits.is_in_cooldown(budget.effective_window)
    if how.policy != "rent" or budget.used < conversation.held or rests:
        return None
    is_large, is_long = (
        budget.used_percentage >= how.background_at,
        len(conversation.messages) >= how.background_messages,
    )
    if not is_large and not is_long:
        return None
    if not env.carrying_cost.will_pay_off(conversation, budget, unit_prices(env.provider.facts.prices), how):
        return None
    return "room" if is_large else "summary"


async def correct_budget_note(conversation: Conversation, budget: ContextBudget, env: SessionContext) -> Conversation:
    """Add a note on the current room if a rewrite has made an earlier, still visible note wrong."""
    note = env.reminders.correction(conversation, 100 * budget.used / max(budget.window.effective, 1), env.watch.epoch)
    if note is None:
        return conversation
    said = User((note,))
    await env.recorder.record_user_message(said)
    return conversation.plus(said)


async def mask_after_turn(conversation: Conversation, env: SessionContext) -> Conversation:
    """Mask old outputs at the end of a turn if the next request would have to wait for that. No summary is made,
    because there may be no next request."""
    if not is_over_trigger(conversation, env):
        return conversation
    return (await compact_conversation(conversation, env, "background", "mask")).conversation


async def compact_if_asked(conversation: Conversation, env: SessionContext) -> Conversation:
    """Compact the conversation if the last step's calls asked for it, and add a note on the result."""
    wish = compaction_request(conversation.messages)
    if wish is None:
        return conversation
    try:
        done = await compact_conversation(conversation, env, "asked", focus=wish.focus)
        conversation, told = done.conversation, compaction_note(done.result)
    except HookRefused as error:
        told = f"[compact_context: nothing was compacted: {error}]"
    note = User((Note(told),))
    await env.recorder.record_user_message(note)
    return conversation.plus(note)


def compaction_note(result: "CompactResult") -> str:
    """Return the note to the model after a compaction that it asked for."""
    if result.is_interrupted:
        return "[compact_context: the user interrupted it; nothing was compacted.]"
    if not result.strategies:
        return "[compact_context: nothing was compacted; there was too little before the newest steps.]"
    return (
        f"[compact_context: about {result.before_tokens:,} tokens in {in_words(result.before_messages, 'message')} "
        f"became {result.after_tokens:,} in {result.after_messages}. Go on with the work.]"
    )


async def compact_conversation(
    conversation: Conversation,
    env: SessionContext,
    cause: Cause,
    only: "Strategy | None" = None,
    price: Price | None = None,
    focus: str | None = None,
    counted: int | None = None,
    keys: frozenset[str] = frozenset(),
) -> "CompactedConversation":
    """Load and run `compact_now`; deferred because most requests fit. `only`: the only strategy to try, with its
    `price`; `keys`: what a mask has to mask."""
    from ebbtide.agent.window.compact import ForcedStrategy  # noqa: PLC0415  # deferred: most requests fit
    from ebbtide.agent.window.rewrite import compact_now  # noqa: PLC0415  # deferred: as above

    forced = None if only is None else ForcedStrategy(only, price, keys=keys)
    return await compact_now(conversation, env, cause, focus, counted, forced)


def ignore_event(event: Event) -> None:
    """Ignore the event."""
