"""Cost and savings of a manual view edit, before it is applied. No I/O.

The unit of cost is one fresh input token. Everything after the first change must be written to the provider's cache
again. Content that was removed is no longer read from the cache with each request.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ebbtide.agent.budget.prices import UnitPrices
from ebbtide.agent.budget.request_budget import ContextBudget
from ebbtide.agent.events.view import Act
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import Conversation, Message, User
from ebbtide.agent.view.visible import messages_in_view, summary_messages, visible_messages


@dataclass(frozen=True, slots=True)
class EditPricing:
    """How view edits are measured and priced."""

    count_tokens: Callable[[Message], int]
    """Returns the estimated tokens of a message."""
    used_tokens: int
    """Tokens of the next request."""
    fixed_tokens: int
    """Tokens before the messages: system prompt and tools."""
    effective_tokens: int
    """Tokens available to a request."""
    prices: UnitPrices = UnitPrices()  # noqa: RUF009  # a frozen value
    caps: CompactionCaps = CompactionCaps()  # noqa: RUF009  # a frozen value
    is_cache_cold: bool = False
    """Whether nothing of the session is in the provider's cache."""
    cached_message_count: int | None = None
    """Number of sent messages that are unchanged since the last request; None if all are."""
    scale: float = 1.0
    """Actual tokens per estimated token."""


@dataclass(frozen=True, slots=True)
class ViewEditPlan:
    """The effect of a view edit."""

    act: Act
    name: str
    """The reference of the item, or the name of a tool."""
    description: str
    edited_conversation: Conversation
    """The conversation after the edit. If a model must be asked first, this is the conversation without the model's
    text."""
    unchanged_message_count: int
    """Number of sent messages that stay unchanged."""
    freed_tokens: int = 0
    """Tokens saved in every further request; negative if the view grows."""
    cache_write_tokens: int = 0
    """Tokens that the next request must write to the cache again."""
    cost: float = 0.0
    """One-time cost, in fresh input tokens."""
    saving_per_request: float = 0.0
    """Saving per further request, in fresh input tokens."""
    asks_model: bool = False
    """Whether a model must be asked."""
    key: str = ""
    """Key of the item that a model summarises."""
    cut: int = 0
    """Number of messages that a summary would replace."""
    is_rewrite: bool = True
    """Whether the edit changes what was sent before."""

    @property
    def break_even_requests(self) -> int | None:
        """Number of requests after which the edit has paid for itself; None if it never does."""
        if self.cost <= 0:
            return 0
        return math.ceil(self.cost / self.saving_per_request) if self.saving_per_request > 0 else None


def price_edit(
    act: Act, name: str, description: str, old_view: Conversation, new_view: Conversation, pricing: EditPricing
) -> ViewEditPlan:
    """Return the plan of an edit that needs no model."""
    unchanged, first_changed = first_change(old_view, new_view)
    if first_changed is None:
        return ViewEditPlan(
            act, name, description, new_view, unchanged, is_rewrite=old_view.excluded_tools != new_view.excluded_tools
        )
    freed = round((_view_tokens(old_view, pricing) - _view_tokens(new_view, pricing)) * pricing.scale)
    invalidated_tokens = invalidated_cache_tokens(old_view, new_view, pricing)
    cost = 0.0 if pricing.is_cache_cold else (pricing.prices.write - pricing.prices.read) * invalidated_tokens
    edited = replace(new_view, anchor=None, anchored=0)
    return ViewEditPlan(
        act, name, description, edited, unchanged, freed, invalidated_tokens, cost, pricing.prices.read * freed
    )


def invalidated_cache_tokens(old_view: Conversation, new_view: Conversation, pricing: EditPricing) -> int:
    """Count the tokens that must be written to the cache again after the view changed from `old_view` to `new_view`.
    These are the tokens after the first change, except those that an earlier change has already invalidated."""
    unchanged, first_changed = first_change(old_view, new_view)
    if first_changed is None:
        return 0
    end = (
        _sent_message_count(new_view)
        if pricing.cached_message_count is None
        else min(_sent_message_count(new_view), _index_after_sent(new_view, pricing.cached_message_count))
    )
    visible = visible_messages(new_view)[first_changed:end]
    summary_prefix = (
        summary_messages(new_view.summary) if unchanged == 0 and end > 0 and pricing.cached_message_count != 0 else ()
    )
    return round(sum(map(pricing.count_tokens, (*summary_prefix, *visible))) * pricing.scale)


def _view_tokens(conversation: Conversation, pricing: EditPricing) -> int:
    return sum(map(pricing.count_tokens, messages_in_view(conversation)))


def first_change(old_view: Conversation, new_view: Conversation) -> tuple[int, int | None]:
    """Return the number of sent messages that stay unchanged, and the index of the first message of `new_view` that
    might differ (None if all are unchanged)."""
    sent_positions = sent_indices(new_view)
    if (
        summary_messages(old_view.summary) != summary_messages(new_view.summary)
        or old_view.messages_before != new_view.messages_before
    ):
        return 0, 0
    for index, (old, new) in enumerate(zip(visible_messages(old_view), visible_messages(new_view), strict=False)):
        if old != new:
            return sent_positions[index], index
    if len(old_view.messages) != len(new_view.messages):
        index = min(len(old_view.messages), len(new_view.messages) - 1)
        return sent_positions[index], index
    return (sent_positions[-1] + 1 if sent_positions else 0), None


def sent_indices(conversation: Conversation) -> tuple[int, ...]:
    """Return, for each message, the index of the sent message that contains it. Adjacent user messages are merged for
    sending."""
    indices, sent_index = list[int](), 0 if summary_messages(conversation.summary) else -1
    previous: Message | None = User(()) if sent_index == 0 else None
    for message in conversation.messages:
        if previous is None or not (isinstance(message, User) and isinstance(previous, User)):
            sent_index += 1
        indices.append(sent_index)
        previous = message
    return tuple(indices)


def _index_after_sent(conversation: Conversation, sent_count: int) -> int:
    """Return the index of the first message after the first `sent_count` sent messages."""
    indices = sent_indices(conversation)
    return next((index for index, sent_index in enumerate(indices) if sent_index >= sent_count), len(indices))


def _sent_message_count(conversation: Conversation) -> int:
    """Return the number of messages in the last request, which are those before the newest reply."""
    messages = conversation.messages
    return next((index for index in range(len(messages) - 1, -1, -1) if not isinstance(messages[index], User)), 0)


MAX_UNDO_GROWTH_TOKENS, HOLD_WINDOW_DIVISOR = 20_000, 10
"""After an undo, nothing is rewritten automatically until the view has grown by `MAX_UNDO_GROWTH_TOKENS`, or by
1/`HOLD_WINDOW_DIVISOR` of the effective window if that is less."""


def min_size_after_undo(used: int, effective: int) -> int:
    """Return the request size, in tokens, that must be reached before anything is rewritten automatically after an
    undo. `used`: size of the request after the undo. A nearly full window is rewritten in any case."""
    return used + max(min(effective // HOLD_WINDOW_DIVISOR, MAX_UNDO_GROWTH_TOKENS), 1)


def tokens_after_prefix(budget: ContextBudget) -> int:
    """Count the tokens after the system prompt and tools. A rewrite leaves only the system prompt and tools in the
    cache."""
    prefix_tokens = budget.system + budget.instructions + budget.memories + budget.skills + budget.tools
    return max(budget.used - prefix_tokens, 0)


def undo_refusal(budget: ContextBudget) -> str:
    """Return why the earlier view cannot be restored; empty if it can."""
    if budget.verdict == "fits":
        return ""
    return (
        f"the previous view now takes about {budget.used:,} tokens, and a request has room for "
        f"{budget.window.available_tokens:,}: nothing was undone; `/bring` restores individual parts of it"
    )
