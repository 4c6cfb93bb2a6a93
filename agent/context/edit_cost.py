"""Cost and savings of a manual view edit, before it is applied. Pure.

Prices are in fresh input tokens. Everything after the first changed byte has to be written to the provider's cache
again; what is removed is no longer read from it with each request.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.carrying_costs import UnitPrices
from ebbtide.agent.context.mask import visible_messages
from ebbtide.agent.context.settings import Caps
from ebbtide.agent.context.summary import summary_messages
from ebbtide.agent.events.view import Act
from ebbtide.agent.messages import Conversation, Message, User


@dataclass(frozen=True, slots=True)
class EditPricing:
    """How view edits are measured and priced."""

    size: Callable[[Message], int]
    """Estimated tokens of a single message."""
    used: int
    """Tokens of the next request."""
    fixed: int
    """Tokens before the messages: system prompt and tools."""
    effective: int
    """Tokens available to a request."""
    prices: UnitPrices = UnitPrices()  # noqa: RUF009  # a frozen value
    caps: Caps = Caps()  # noqa: RUF009  # a frozen value
    is_cold: bool = False
    """Nothing of the session is in the provider's cache."""
    cached: int | None = None
    """Number of sent messages left unchanged since the last request; None means all."""
    scale: float = 1.0
    """Actual tokens per estimated token."""


@dataclass(frozen=True, slots=True)
class ViewEditPlan:
    """The effect of a view edit."""

    act: Act
    name: str
    """The reference of the item, or the name of a tool."""
    what: str
    after: Conversation
    """The conversation after the edit; if a model has to be asked, as far as it is known before."""
    unchanged_messages: int
    """Number of sent messages that stay unchanged."""
    freed: int = 0
    """Tokens saved in every further request; negative if the view grows."""
    behind: int = 0
    """Tokens that have to be written to the cache again."""
    cost: float = 0.0
    """One-time cost, in fresh input tokens."""
    saves: float = 0.0
    """Saving for each further request, in fresh input tokens."""
    asks: bool = False
    """Whether a model has to be asked."""
    key: str = ""
    """Key of the item that a model summarises."""
    cut: int = 0
    """Number of messages that a summary would replace."""
    is_rewrite: bool = True
    """Whether it changes what was sent before."""

    @property
    def break_even_requests(self) -> int | None:
        """Number of requests after which the edit has paid for itself; None if it never does."""
        if self.cost <= 0:
            return 0
        return math.ceil(self.cost / self.saves) if self.saves > 0 else None


def price_edit(
    act: Act, name: str, what: str, before: Conversation, after: Conversation, terms: EditPricing
) -> ViewEditPlan:
    """Return the plan of an edit that needs no model."""
    kept, first = first_change(before, after)
    if first is None:
        return ViewEditPlan(act, name, what, after, kept, is_rewrite=before.held_back != after.held_back)
    freed = round((_size(before, terms) - _size(after, terms)) * terms.scale)
    behind = written_behind(before, after, terms)
    cost = 0.0 if terms.is_cold else (terms.prices.write - terms.prices.read) * behind
    changed = replace(after, anchor=None, anchored=0)
    return ViewEditPlan(act, name, what, changed, kept, freed, behind, cost, terms.prices.read * freed)


def written_behind(before: Conversation, after: Conversation, terms: EditPricing) -> int:
    """Tokens that have to be written to the cache again after the view changed from `before` to `after`: the sent ones
    from the first change on that no earlier change has already invalidated."""
    kept, first = first_change(before, after)
    if first is None:
        return 0
    limit = (
        _sent_message_count(after)
        if terms.cached is None
        else min(_sent_message_count(after), _index_at(after, terms.cached))
    )
    shown = visible_messages(after)[first:limit]
    opening = summary_messages(after.summary) if kept == 0 and limit > 0 and terms.cached != 0 else ()
    return round(sum(map(terms.size, (*opening, *shown))) * terms.scale)


def _size(conversation: Conversation, terms: EditPricing) -> int:
    return sum(map(terms.size, (*summary_messages(conversation.summary), *visible_messages(conversation))))


def first_change(before: Conversation, after: Conversation) -> tuple[int, int | None]:
    """Return the number of sent messages that stay unchanged, and the index of the first message of `after` that may
    differ (None if all are unchanged)."""
    places = places_in_prompt(after)
    if (
        summary_messages(before.summary) != summary_messages(after.summary)
        or before.messages_before != after.messages_before
    ):
        return 0, 0
    for index, (old, new) in enumerate(zip(visible_messages(before), visible_messages(after), strict=False)):
        if old != new:
            return places[index], index
    if len(before.messages) != len(after.messages):
        index = min(len(before.messages), len(after.messages) - 1)
        return places[index], index
    return (places[-1] + 1 if places else 0), None


def places_in_prompt(conversation: Conversation) -> tuple[int, ...]:
    """Return, for each message, the index of the sent message that contains it. Adjacent messages of one role are
    merged."""
    places, place = list[int](), 0 if summary_messages(conversation.summary) else -1
    before: Message | None = User(()) if place == 0 else None
    for message in conversation.messages:
        if before is None or not (isinstance(message, User) and isinstance(before, User)):
            place += 1
        places.append(place)
        before = message
    return tuple(places)


def _index_at(conversation: Conversation, place: int) -> int:
    """Return the index of the first message after the first `place` sent ones."""
    places = places_in_prompt(conversation)
    return next((index for index, found in enumerate(places) if found >= place), len(places))


def _sent_message_count(conversation: Conversation) -> int:
    """Number of messages in the last request: all before the newest reply."""
    messages = conversation.messages
    return next((index for index in range(len(messages) - 1, -1, -1) if not isinstance(messages[index], User)), 0)


MAX_HOLD_TOKENS, PART = 20_000, 10
"""After an undo, the view must grow by this many tokens, or by 1/`PART` of the effective window if that is less, before
an automatic rewrite may happen again."""


def hold_after(used: int, effective: int) -> int:
    """Size of a request below which nothing is rewritten automatically, after an undo has made it `used` tokens. A
    nearly full window does not wait for it."""
    return used + max(min(effective // PART, MAX_HOLD_TOKENS), 1)


def written_again(budget: ContextBudget) -> int:
    """Tokens after system prompt and tools, which a rewrite leaves in the cache."""
    fixed = budget.system + budget.instructions + budget.memories + budget.skills + budget.tools
    return max(budget.used - fixed, 0)


def undo_refusal(before: ContextBudget) -> str:
    """Return why the earlier view cannot be restored; empty if it can."""
    if before.verdict == "fits":
        return ""
    return (
        f"the previous view now takes about {before.used:,} tokens, and a request has room for "
        f"{before.window.effective:,}: nothing was undone; `/bring` brings back single parts of it"
    )
