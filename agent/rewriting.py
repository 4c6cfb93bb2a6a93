"""Rewrites of what the model is shown, with all that has to be told of one. What to rewrite is decided in
`agent.context`."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from agent.compaction import Chosen, Compacted, Work, compact, compaction_note
from agent.context.budget import ContextBudget
from agent.context.compact import TOOLS
from agent.context.mask import old_outputs
from agent.context.prompt import Instructions, build_prompt
from agent.context.wishes import compaction_wish
from agent.debug import Debug
from agent.env import Env
from agent.events import Cause, Event
from agent.measuring import budget_of, is_over_trigger, room_of, to_request
from agent.messages import Conversation, Note, User
from agent.offering import choose_tools
from agent.providers.base import Request
from agent.rent import evaluation, price_by, price_of, unit_prices


async def pay_rent(conversation: Conversation, env: Env) -> tuple[Conversation, ContextBudget]:
    """The conversation and its budget, rewritten when what it has cost to leave it as it is has reached what that
    costs. What the user has undone is not done again before more came."""
    budget = budget_of(conversation, env)
    if budget.verdict != "fits" or budget.used < conversation.held:
        return conversation, budget
    if env.compacting.policy == "total_budget":
        if not old_outputs(conversation, env.compacting.caps.protect, env.compacting.caps.newest):
            return conversation, budget
        conversation = (await compact_now(conversation, env, "budget", chosen=Chosen("mask"))).conversation
        return conversation, budget_of(conversation, env)
    if env.compacting.policy != "rent":
        return conversation, budget
    facts = env.provider.facts
    is_cold = env.watch.is_cold(facts)
    prices = unit_prices(facts.prices)
    ruling = env.rent.rule(conversation, budget, prices, env.compacting, is_cold=is_cold)
    env.debug.say("context/rent", **evaluation(ruling, prices, is_cold))
    match ruling.act:
        case "nothing":
            return conversation, budget
        case "mask":
            chosen = Chosen("mask", price_of(ruling))
        case "compact":
            chosen = Chosen("summary", price_of(ruling))
    compacted = await compact_now(conversation, env, "cold" if is_cold else "rent", chosen=chosen)
    return compacted.conversation, budget_of(compacted.conversation, env)


async def leave_room(conversation: Conversation, env: Env) -> Conversation:
    """The conversation at the end of a turn, with old outputs masked where the next request would have to wait for
    that. No summary is asked for: whether there will be a next request is not known."""
    if not is_over_trigger(conversation, env):
        return conversation
    return (await compact_now(conversation, env, "background", chosen=Chosen("mask"))).conversation


async def compact_if_asked(conversation: Conversation, env: Env) -> Conversation:
    """The conversation compacted and a note on what that changed, when the last step's calls asked for it."""
    wish = compaction_wish(conversation.messages)
    if wish is None:
        return conversation
    compacted = await compact_now(conversation, env, "asked", wish.focus)
    told = User((Note(compaction_note(compacted.result)),))
    await env.recorder.said(told)
    return compacted.conversation.plus(told)


def unheard(event: Event) -> None:
    """What nobody listens to."""


def compact_by_hand(
    focus: str | None, hear: Callable[[Event], None]
) -> Callable[[Conversation, Env], Awaitable[Compacted]]:
    """Compacts because the user asked for it. `hear` is told what happens meanwhile, which is no part of a turn."""

    async def work(conversation: Conversation, env: Env) -> Compacted:
        def emit(event: Event) -> None:
            env.emit(event)
            hear(event)

        return await compact_now(conversation, replace(env, emit=emit), "asked", focus)

    return work


async def compact_now(
    conversation: Conversation,
    env: Env,
    cause: Cause = "asked",
    focus: str | None = None,
    counted: int | None = None,
    chosen: Chosen | None = None,
) -> Compacted:
    """Compacts the conversation and keeps the result. `counted`: what the provider counted in the request that was too
    large. `chosen`: the one strategy that is tried."""

    compacted = await compact(conversation, work_of(conversation, env, counted), cause, focus, chosen)
    await keep_rewrite(conversation, compacted, env, cause, chosen)
    return compacted


def work_of(conversation: Conversation, env: Env, counted: int | None = None) -> Work:
    """What a compaction of the conversation works with. `counted`: as above."""

    def request(asked: Conversation) -> Request:
        prompt = build_prompt(asked, env.instructions, images=env.provider.facts.images)
        return to_request(prompt, env.offered, env)

    budget = budget_of(conversation, env)
    room = room_of(budget, conversation, counted, env.deferral.spare(env.tools, env.meter.size_of_tool))
    prices, is_cold = unit_prices(env.provider.facts.prices), env.watch.is_cold(env.provider.facts)
    return Work(
        env.provider,
        request,
        room,
        env.compacting,
        env.interrupt,
        env.emit,
        env.lessons,
        env.summarisers,
        is_cold,
        price_by(env.rent, conversation, budget, prices, env.compacting, is_cold=is_cold),
    )


async def keep_rewrite(
    before: Conversation, compacted: Compacted, env: Env, cause: Cause, chosen: Chosen | None = None
) -> None:
    """Lets all that follows from a rewrite follow, and keeps it on disk with what was shown before. Nothing happens
    where nothing was rewritten."""
    if not compacted.result.strategies:
        return
    env.meter.rewritten()
    env.watch.rewritten(unchanged(before, compacted.conversation, compacted.result.strategies))
    if TOOLS in compacted.result.strategies:
        env.deferral.hold_back_all()
    # Masking keeps what stands before the first output in the cache, the tools among it, unless that is cold.
    if compacted.result.strategies != ("mask",) or cause == "cold":
        choose_tools(env)
    if chosen is None or chosen.price is None:
        env.rent.rewritten()
    await env.recorder.snapshot(compacted.conversation, User(()), before)
    say_rewrite(before, compacted, cause, chosen, env.debug)


def unchanged(before: Conversation, after: Conversation, strategies: Sequence[str]) -> int:
    """How many messages a rewrite must have left as they were: those before the first output that was masked, where it
    only masked."""
    if not set(strategies) <= {"mask", "mask_all"}:
        return 0
    masked = after.masked - before.masked
    messages = build_prompt(after, Instructions("")).messages
    places = (
        place
        for place, message in enumerate(messages)
        if isinstance(message, User) and any(output.call_id in masked for output in message.outputs)
    )
    return next(places, 0)


def say_rewrite(before: Conversation, compacted: Compacted, cause: Cause, chosen: Chosen | None, debug: Debug) -> None:
    """Writes to the debug log what was rewritten."""
    result = compacted.result
    sizes = {"beforeTokens": result.before_tokens, "afterTokens": result.after_tokens}
    price = chosen.price if chosen else None
    if cause == "overflow":
        debug.say("context/emergency", reason=cause, rung=result.strategies[-1], **sizes)
    elif result.strategies == ("mask",):
        outputs = len(compacted.conversation.masked - before.masked)
        removed = result.before_tokens - result.after_tokens
        debug.say("context/mask", reason=cause, outputs=outputs, removedTokens=removed, price=price)
    else:
        counts = {"beforeMessages": result.before_messages, "afterMessages": result.after_messages}
        debug.say("context/compact", reason=cause, strategies=result.strategies, price=price, **sizes, **counts)
