"""Compares reported usage with the request that was sent, and decides which counts remain valid."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ebbtide.agent.budget.request_budget import ContextBudget
from ebbtide.agent.budget.server_truncation import CountedRequest, messages_since_reply
from ebbtide.agent.messages import Assistant, Conversation, Message, ProviderItem, Reasoning, Text, Usage, User
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.tokens.estimate import TextCounts, sum_counts


def counted_request(
    visible_messages: tuple[Message, ...],
    min_tokens: int,
    counted_tokens: int,
    budget: ContextBudget,
    count_tokens: Callable[[Sequence[Message]], int],
    *,
    is_first: bool,
) -> CountedRequest:
    """Return the last measured request with the server's token count. `min_tokens`: the minimum number of tokens that
    its messages take. `count_tokens`: estimates the tokens of messages."""
    messages_after_reply = messages_since_reply(visible_messages)
    reply = visible_messages[
        len(visible_messages) - len(messages_after_reply) - 1 : len(visible_messages) - len(messages_after_reply)
    ]
    return CountedRequest(
        min_tokens,
        (count_tokens(messages_after_reply), count_tokens((*reply, *messages_after_reply))),
        counted_tokens,
        budget.used,
        budget.used - budget.history - budget.pending,
        is_first,
        budget.used > budget.window.size >= counted_tokens,
    )


def carried_usage(reply: Reply) -> Usage:
    """Return the usage without the reasoning tokens, unless the reasoning will be sent back."""
    if any(isinstance(part, Reasoning | ProviderItem) for part in reply.message.parts):
        return reply.usage
    return replace(reply.usage, output=max(reply.usage.output - reply.usage.reasoning, 0), reasoning=0)


def drop_other_model_anchor(conversation: Conversation, model: str) -> Conversation:
    """Remove the anchor if another model counted it, because tokens differ between models."""
    return (
        replace(conversation, anchor=None, anchored=0)
        if is_anchored_by_other_model(conversation, model)
        else conversation
    )


def is_anchored_by_other_model(conversation: Conversation, model: str) -> bool:
    """Whether another model counted the conversation's anchor."""
    if not model or not 0 < conversation.anchored <= len(conversation.messages):
        return False
    last = conversation.messages[conversation.anchored - 1]
    return isinstance(last, Assistant) and last.model not in ("", model)


def may_drop_reasoning(conversation: Conversation) -> bool:
    """Whether the next request might omit reasoning that was counted. This is possible if earlier replies contain
    reasoning and the user has written since then."""
    added_messages = conversation.messages[conversation.anchored :]
    has_text = any(
        isinstance(part, Text) for message in added_messages if isinstance(message, User) for part in message.parts
    )
    return has_text and any(
        isinstance(part, Reasoning)
        for message in conversation.messages[: conversation.anchored]
        for part in message.parts
    )


def subtract_counts(total: TextCounts, part_counts: Sequence[TextCounts]) -> TextCounts:
    """Subtract the counts of the parts from the counts of the whole."""
    subtracted = sum_counts(part_counts)
    return TextCounts(
        max(total.letters - subtracted.letters, 0),
        max(total.symbols - subtracted.symbols, 0),
        max(total.others - subtracted.others, 0),
        max(total.tokens - subtracted.tokens, 0.0),
        total.items,
        total.replies,
        total.exact_tokens,
    )
