"""Compares reported usage with what was sent, and decides what of it is still valid later."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.estimate import (
    Counts,
    total,
)
from ebbtide.agent.context.server_truncation import CountedRequest, since_reply
from ebbtide.agent.messages import Assistant, Conversation, Message, ProviderItem, Reasoning, Text, Usage, User
from ebbtide.agent.providers.base import Reply

_NEWEST = 64
"""Messages that are estimated one by one if fewer tokens were counted than expected."""


def sent_of(
    shown: tuple[Message, ...],
    sizes: tuple[int, int],
    counted: int,
    budget: ContextBudget,
    size_of: Callable[[Sequence[Message]], int],
    *,
    is_first: bool,
) -> CountedRequest:
    """The last measured request, with the tokens counted for it. `sizes`: the minimum tokens of its messages, and an
    estimate with fixed weights. `size_of`: estimates the tokens of messages."""
    outputs = since_reply(shown)
    reply = shown[len(shown) - len(outputs) - 1 : len(shown) - len(outputs)]
    opening = budget.used - budget.history - budget.pending
    newest = (size_of((message,)) for message in reversed(shown[-_NEWEST:] if counted < budget.used else ()))
    return CountedRequest(
        sizes[0],
        (size_of(outputs), size_of((*reply, *outputs))),
        counted,
        budget.used,
        opening,
        is_first,
        budget.used > budget.window.size >= counted,
        sizes[1],
        tuple(accumulate(newest, initial=opening))[1:],
    )


def carried_usage(reply: Reply) -> Usage:
    """The usage without reasoning that is not sent back."""
    if any(isinstance(part, Reasoning | ProviderItem) for part in reply.message.parts):
        return reply.usage
    return replace(reply.usage, output=max(reply.usage.output - reply.usage.reasoning, 0), reasoning=0)


def counted_for(conversation: Conversation, model: str) -> Conversation:
    """The conversation for use with a model: counts by another model are dropped, since its tokens differ."""
    return replace(conversation, anchor=None, anchored=0) if is_foreign(conversation, model) else conversation


def is_foreign(conversation: Conversation, model: str) -> bool:
    """Whether the anchor was counted by another model."""
    if not model or not 0 < conversation.anchored <= len(conversation.messages):
        return False
    last = conversation.messages[conversation.anchored - 1]
    return isinstance(last, Assistant) and last.model not in ("", model)


def drops_reasoning(conversation: Conversation) -> bool:
    """Whether the next request may leave out reasoning that was counted: the user has written since, and earlier
    replies contain reasoning."""
    unseen = conversation.messages[conversation.anchored :]
    said = any(isinstance(part, Text) for message in unseen if isinstance(message, User) for part in message.parts)
    return said and any(
        isinstance(part, Reasoning)
        for message in conversation.messages[: conversation.anchored]
        for part in message.parts
    )


def subtract_counts(whole: Counts, parts: Sequence[Counts]) -> Counts:
    """The counts without those of their parts."""
    gone = total(parts)
    return Counts(
        max(whole.letters - gone.letters, 0),
        max(whole.signs - gone.signs, 0),
        max(whole.others - gone.others, 0),
        max(whole.tokens - gone.tokens, 0.0),
        whole.items,
        whole.replies,
        whole.exact,
    )
