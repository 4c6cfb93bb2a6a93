"""Apply the compaction strategies that need no model, and decide whether the result is enough. Pure."""

from dataclasses import replace

from ebbtide.agent.context.compaction import (
    MIN_CAP_TOKENS,
    MIN_OUTPUT_SHARE,
    Floor,
    apply_compaction,
    fewer_pictures,
    lean_request,
    limit_unseen_outputs,
    plan_at,
    plan_compaction,
)
from ebbtide.agent.context.ledger import render_ledger
from ebbtide.agent.context.mask import mask_by_keys
from ebbtide.agent.context.old_outputs import least_wanted, mask_outputs
from ebbtide.agent.context.settings import Caps
from ebbtide.agent.context.steps import is_by_user, is_request, turn_starts, unseen_from
from ebbtide.agent.context.strategies import TOOLS, Room, Strategy, size_of
from ebbtide.agent.context.summary import non_empty_summary
from ebbtide.agent.context.unseen_outputs import (
    by_reference,
    cut_to_fit,
    named_step,
    size_of_unseen,
    unseen_outputs,
    without_named_step,
)
from ebbtide.agent.messages import Assistant, Conversation, Summary, User

AFTER_MASK = 0.5
"""Masking is enough if the seen messages then take less than this share of the room for messages; otherwise it would be
needed again soon."""
MASK_TARGET_SHARE = 0.45
"""Target share for masking. It is below `AFTER_MASK` because stubs turn out longer than estimated."""


def cut_outputs(strategy: Strategy, conversation: Conversation, room: Room) -> Conversation | None:
    """Cut unseen outputs to their share of the window ("share"), or to the room that everything else leaves ("cut"), as
    far as possible. None if nothing gets smaller."""
    if strategy == "share":
        after = limit_unseen_outputs(conversation, room)
    else:
        unseen = size_of_unseen(conversation)
        left = room.messages - (size_of(conversation) - unseen)
        if strategy == "cut" and left < min(unseen, int(MIN_OUTPUT_SHARE * room.effective / room.scale)):
            return None
        after = cut_to_fit(conversation, left)
    return None if after is conversation else after


def drop_half(conversation: Conversation, caps: Caps) -> Conversation | None:
    """Drop the older half of the turns; only the ledger remembers them. None if there is only one turn, or if the model
    has not yet seen the work of the last one."""
    seen = unseen_from(conversation.messages)
    later = [start for start in turn_starts(conversation.messages) if 0 < start <= seen]
    if not later:
        return None
    plan = plan_at(conversation, later[(len(later) - 1) // 2])
    return apply_compaction(plan, None, caps)


def last_message(conversation: Conversation, ledger: int = MIN_CAP_TOKENS) -> Conversation | None:
    """Reduce the conversation to the open request, the facts and the unseen step, whose calls may still lack outputs.
    None if there is nothing else to remove."""
    cut = unseen_from(conversation.messages)
    # The note that names a step is in view until the first reply after it.
    was_read = any(isinstance(message, Assistant) and not is_by_user(message) for message in conversation.messages)
    told = conversation.summary.request
    if not cut and (not was_read or without_named_step(told) == told):
        return None
    after = _without(conversation, cut, ledger)
    if not was_read:
        return after
    summary = replace(after.summary, request=without_named_step(after.summary.request))
    return replace(after, summary=non_empty_summary(summary, after.messages_before))


def without_step(conversation: Conversation, ledger: int = MIN_CAP_TOKENS) -> Conversation | None:
    """Drop the unseen step and name its outputs. Calls without an output stay, because their outputs are still to come.
    None if there is no such step."""
    outputs = unseen_outputs(conversation)
    if not outputs:
        return None
    after = _without(conversation, len(conversation.messages) - (1 if conversation.unanswered_calls else 0), ledger)
    request = named_step(after.summary.request, outputs)
    return replace(after, summary=replace(after.summary, request=request))


def _without(conversation: Conversation, cut: int, ledger: int) -> Conversation:
    """Keep the messages from index `cut` on, with the open request and at most `ledger` tokens of facts for everything
    before."""
    plan = plan_at(conversation, cut)
    is_shown = any(map(is_request, plan.tail))
    request = plan.request if plan.request.parts or is_shown else _last_request(conversation)
    facts = render_ledger(plan.facts, min(ledger, MIN_CAP_TOKENS))
    summary = Summary(ledger=facts, request=request, kept=plan.rest.summary.kept)
    return replace(plan.rest, summary=non_empty_summary(summary, plan.rest.messages_before))


def _last_request(conversation: Conversation) -> User:
    for message in reversed(conversation.messages):
        if is_request(message) and isinstance(message, User):
            return message
    return conversation.summary.request


def mask(conversation: Conversation, caps: Caps, room: Room) -> Conversation | None:
    """Mask the outputs least likely to be needed until there is enough room, or all that can be masked. None if nothing
    can be."""
    seen = size_of(conversation) - size_of_unseen(conversation)
    chosen = least_wanted(conversation, caps.protect, seen - int(MASK_TARGET_SHARE * room.messages), caps.newest)
    after = mask_by_keys(conversation, {item.key for item in chosen})
    return None if after is conversation else after


def run_strategy(strategy: Strategy, conversation: Conversation, caps: Caps, floor: Floor) -> Conversation | None:
    """Apply a strategy that needs no model and is neither `mask` nor one of `cut_outputs`. None if it changes
    nothing."""
    match strategy:
        case "mask_all":
            after = mask_outputs(conversation, 0)
        case "ledger":
            plan = plan_compaction(conversation, floor.caps.tail, least=floor.least, newest=caps.turns)
            return apply_compaction(plan, None, floor.caps) if plan else None
        case "attachments":
            return lean_request(conversation, floor.caps, floor.request)
        case "pictures":
            return fewer_pictures(conversation, floor.caps, floor.request)
        case "words":
            return lean_request(conversation, floor.caps, floor.request, words=True)
        case "drop":
            return drop_half(conversation, floor.caps)
        case "last":
            return last_message(conversation, floor.caps.ledger)
        case "references":
            after = by_reference(conversation)
        case "step":
            return without_step(conversation, floor.caps.ledger)
        case "mask" | "summary" | "chunks" | "share" | "cut" | "least":
            return None
    return None if after is conversation else after


def is_enough(strategy: str, conversation: Conversation, room: Room) -> bool:
    """Whether no further strategy is needed. After a mask, enough room must remain that the next mask is not due soon:
    unseen outputs can be masked then."""
    if room.share(conversation) > room.trigger:
        return False
    seen = size_of(conversation) - size_of_unseen(conversation)
    return strategy not in ("mask", TOOLS) or seen <= AFTER_MASK * room.messages
