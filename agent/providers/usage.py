"""What of a reported usage still holds when a session goes on."""

from collections.abc import Sequence
from dataclasses import replace

from agent.context.estimate import (
    Counts,
    total,
)
from agent.messages import Assistant, Conversation, Opaque, Reasoning, Text, Usage, User
from agent.providers.base import Reply


def what_stays(reply: Reply) -> Usage:
    """The usage without the reasoning that is not sent back."""
    if any(isinstance(part, Reasoning | Opaque) for part in reply.message.parts):
        return reply.usage
    return replace(reply.usage, output=max(reply.usage.output - reply.usage.reasoning, 0), reasoning=0)


def counted_for(conversation: Conversation, model: str) -> Conversation:
    """The conversation as a model goes on with it: what another model counted is not taken over, since it counts in
    other tokens."""
    return replace(conversation, anchor=None, anchored=0) if is_foreign(conversation, model) else conversation


def is_foreign(conversation: Conversation, model: str) -> bool:
    """Whether another model was asked when the anchor was counted."""
    if not model or not 0 < conversation.anchored <= len(conversation.messages):
        return False
    last = conversation.messages[conversation.anchored - 1]
    return isinstance(last, Assistant) and last.model not in ("", model)


def drops_reasoning(conversation: Conversation) -> bool:
    """Whether reasoning that was counted may be left out from the next request on: the user has said something since,
    and the replies before hold reasoning."""
    unseen = conversation.messages[conversation.anchored :]
    said = any(isinstance(part, Text) for message in unseen if isinstance(message, User) for part in message.parts)
    return said and any(
        isinstance(part, Reasoning)
        for message in conversation.messages[: conversation.anchored]
        for part in message.parts
    )


def less(whole: Counts, parts: Sequence[Counts]) -> Counts:
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
