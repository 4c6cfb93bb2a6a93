"""The compaction strategies: their names, their order for each cause, and those that need no model. No I/O."""

from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.compaction.plan import (
    MIN_CAP_TOKENS,
    MIN_OUTPUT_SHARE,
    CompactionLimits,
    apply_compaction,
    plan_at,
    plan_compaction,
    remove_images,
    shorten_request,
)
from ebbtide.agent.compaction.room import (
    CompactionRoom,
    conversation_tokens,
    cut_to_fit,
    limit_unseen_outputs,
    mask_unseen_outputs,
    unseen_outputs,
    unseen_tokens,
    with_dropped_step_note,
    without_dropped_step_note,
)
from ebbtide.agent.events.view import Cause
from ebbtide.agent.eviction.carrying_costs import least_needed_items, mask_by_keys, mask_outputs
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import Assistant, Conversation, Summary, User
from ebbtide.agent.view.ledger import render_ledger
from ebbtide.agent.view.visible import first_unseen_index, is_request, is_user_command, non_empty_summary, turn_starts

Strategy: TypeAlias = Literal[
    "mask", "cut_to_share", "summary", "chunks", "ledger", "mask_all", "attachments", "cut_to_room",
    "drop_older_turns", "keep_last_message", "pictures", "cut_to_minimum", "mask_unseen", "drop_unseen_step",
    "shorten_text",
]  # fmt: skip
"""The strategies. `mask`: mask old outputs. `cut_to_share`: cut unseen outputs to a fair share. `summary`: have the
model that has the conversation cached, or one that the user set, write a summary. `chunks`: a summary in chunks.
`ledger`: keep facts only. `mask_all`: mask all seen outputs. `attachments`: shorten attachments of the open request.
`cut_to_room`: cut unseen outputs to the remaining room, if that leaves enough to read. `drop_older_turns`: drop the
older half of the turns. `keep_last_message`: keep only the last message and the unseen step. `pictures`: remove the
images of both. `cut_to_minimum`: cut unseen outputs as far as possible. `mask_unseen`: reduce each of them to a line.
`drop_unseen_step`: drop the step and list its outputs. `shorten_text`: shorten long user text."""

CUT_STRATEGIES: frozenset[str] = frozenset({"cut_to_share", "cut_to_room", "cut_to_minimum"})
"""Strategies that only shorten outputs that the model has not seen, so nothing that was already sent changes."""


STRATEGIES_BY_CAUSE: dict[Cause, tuple[Strategy, ...]] = {
    "full": (
        "mask", "cut_to_share", "summary", "ledger", "mask_all", "attachments", "cut_to_room", "drop_older_turns",
        "keep_last_message", "pictures", "cut_to_minimum", "mask_unseen", "drop_unseen_step",
    ),
    "background": ("mask", "summary", "ledger", "mask_all"),
    "asked": ("summary", "ledger"),
    "overflow": (
        "mask_all", "cut_to_share", "chunks", "ledger", "attachments", "cut_to_room", "drop_older_turns",
        "keep_last_message", "cut_to_minimum", "pictures", "mask_unseen", "shorten_text",
    ),
    "rent": ("mask", "summary"),
    "cold": ("mask",),
    "budget": ("mask",),
    "pictures": ("pictures", "mask_all", "ledger"),
}  # fmt: skip
"""The strategies for each cause, in the order in which they are tried. After an overflow, images are removed only when
no more text can be removed, because their size, and often the room, can only be guessed."""

MASK_TARGET_SHARE = 0.45
"""Target share for masking. It is below `MAX_SHARE_AFTER_MASK`, because stubs can turn out longer than estimated."""


def cut_outputs(strategy: Strategy, conversation: Conversation, room: CompactionRoom) -> Conversation | None:
    """Cut unseen outputs to their share of the window (`cut_to_share`) or to the room that everything else leaves
    (`cut_to_room`, `cut_to_minimum`). `cut_to_room` does not apply if too little room would remain. None if nothing
    gets smaller."""
    if strategy == "cut_to_share":
        shortened = limit_unseen_outputs(conversation, room)
    else:
        unseen_size = unseen_tokens(conversation)
        max_tokens = room.max_message_tokens - (conversation_tokens(conversation) - unseen_size)
        if strategy == "cut_to_room" and max_tokens < min(
            unseen_size, int(MIN_OUTPUT_SHARE * room.window_tokens / room.token_ratio)
        ):
            return None
        shortened = cut_to_fit(conversation, max_tokens)
    return None if shortened is conversation else shortened


def drop_older_turns(conversation: Conversation, caps: CompactionCaps) -> Conversation | None:
    """Drop the older half of the turns, but keep the ledger's facts about them. None if there is only one turn, or if
    the only possible cut would remove work that the model has not seen."""
    first_unseen = first_unseen_index(conversation.messages)
    droppable_starts = [start for start in turn_starts(conversation.messages) if 0 < start <= first_unseen]
    if not droppable_starts:
        return None
    plan = plan_at(conversation, droppable_starts[(len(droppable_starts) - 1) // 2])
    return apply_compaction(plan, None, caps)


def keep_last_message(conversation: Conversation, ledger_tokens: int = MIN_CAP_TOKENS) -> Conversation | None:
    """Reduce the conversation to the open request, the facts and the unseen step, whose calls might still lack outputs.
    None if there is nothing to remove."""
    cut = first_unseen_index(conversation.messages)
    # The note about a dropped step stays in view until the model has replied to it.
    has_replied = any(
        isinstance(message, Assistant) and not is_user_command(message) for message in conversation.messages
    )
    request = conversation.summary.request
    if not cut and (not has_replied or without_dropped_step_note(request) == request):
        return None
    remaining = _keep_from(conversation, cut, ledger_tokens)
    if not has_replied:
        return remaining
    summary = replace(remaining.summary, request=without_dropped_step_note(remaining.summary.request))
    return replace(remaining, summary=non_empty_summary(summary, remaining.messages_before))


def drop_unseen_step(conversation: Conversation, ledger_tokens: int = MIN_CAP_TOKENS) -> Conversation | None:
    """Drop the unseen step and list its outputs. Calls that have no output yet stay. None if there is no such step."""
    outputs = unseen_outputs(conversation)
    if not outputs:
        return None
    remaining = _keep_from(
        conversation, len(conversation.messages) - (1 if conversation.unanswered_calls else 0), ledger_tokens
    )
    request = with_dropped_step_note(remaining.summary.request, outputs)
    return replace(remaining, summary=replace(remaining.summary, request=request))


def _keep_from(conversation: Conversation, cut: int, ledger_tokens: int) -> Conversation:
    """Keep the messages from index `cut` on. Everything before is replaced by the open request and at most
    `ledger_tokens` tokens of facts."""
    plan = plan_at(conversation, cut)
    has_request = any(map(is_request, plan.tail_messages))
    request = plan.request if plan.request.parts or has_request else _last_request(conversation)
    facts = render_ledger(plan.ledger, min(ledger_tokens, MIN_CAP_TOKENS))
    summary = Summary(ledger=facts, request=request, pinned=plan.tail_view.summary.pinned)
    return replace(plan.tail_view, summary=non_empty_summary(summary, plan.tail_view.messages_before))


def _last_request(conversation: Conversation) -> User:
    for message in reversed(conversation.messages):
        if is_request(message) and isinstance(message, User):
            return message
    return conversation.summary.request


def mask_least_needed(conversation: Conversation, caps: CompactionCaps, room: CompactionRoom) -> Conversation | None:
    """Mask the items that are least likely to be needed, until there is enough room or nothing is left to mask. None if
    nothing can be masked."""
    seen_tokens = conversation_tokens(conversation) - unseen_tokens(conversation)
    items = least_needed_items(
        conversation,
        caps.protected_output_tokens,
        seen_tokens - int(MASK_TARGET_SHARE * room.max_message_tokens),
        caps.protected_message_count,
    )
    masked = mask_by_keys(conversation, {item.key for item in items})
    return None if masked is conversation else masked


def run_strategy(
    strategy: Strategy, conversation: Conversation, caps: CompactionCaps, limits: CompactionLimits
) -> Conversation | None:
    """Apply a strategy that needs no model and is neither `mask` nor one of `cut_outputs`. None if it changes
    nothing."""
    match strategy:
        case "mask_all":
            changed = mask_outputs(conversation, 0)
        case "ledger":
            plan = plan_compaction(
                conversation, limits.caps.tail, min_steps=limits.min_steps, max_turns=caps.max_tail_turns
            )
            return apply_compaction(plan, None, limits.caps) if plan else None
        case "attachments":
            return shorten_request(conversation, limits.caps, limits.max_request_tokens)
        case "pictures":
            return remove_images(conversation, limits.caps, limits.max_request_tokens)
        case "shorten_text":
            return shorten_request(conversation, limits.caps, limits.max_request_tokens, shorten_text=True)
        case "drop_older_turns":
            return drop_older_turns(conversation, limits.caps)
        case "keep_last_message":
            return keep_last_message(conversation, limits.caps.ledger)
        case "mask_unseen":
            changed = mask_unseen_outputs(conversation)
        case "drop_unseen_step":
            return drop_unseen_step(conversation, limits.caps.ledger)
        case "mask" | "summary" | "chunks" | "cut_to_share" | "cut_to_room" | "cut_to_minimum":
            return None
    return None if changed is conversation else changed
