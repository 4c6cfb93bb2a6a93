"""What a change of a view by hand frees and costs, before it is done. Pure.

Prices are in tokens of fresh input. What stays behind the first byte that changes has to be written to the provider's
cache again; what leaves is not read from it any more with each request.
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
    """By what acts are measured and priced."""

    size: Callable[[Message], int]
    """Estimated tokens of a message by itself."""
    used: int
    """Tokens of the next request."""
    fixed: int
    """Of those, what stands before the messages: system text and tools."""
    effective: int
    """What a request may take."""
    prices: UnitPrices = UnitPrices()  # noqa: RUF009  # a frozen value
    caps: Caps = Caps()  # noqa: RUF009  # a frozen value
    is_cold: bool = False
    """The provider has nothing of the session in its cache any more."""
    cached: int | None = None
    """How many of the messages that are sent were left as they are by what was changed since the last request; None:
    all."""
    scale: float = 1.0
    """Tokens that the provider counts for one that is estimated."""


@dataclass(frozen=True, slots=True)
class ViewEditPlan:
    """What an act would do."""

    act: Act
    name: str
    """The reference of what is meant, or the name of a tool."""
    what: str
    after: Conversation
    """What the act makes of the conversation; where a model has to be asked, what is known of that before."""
    unchanged_messages: int
    """How many of the messages that are sent stay as they are."""
    freed: int = 0
    """Tokens that no further request takes; below zero where it gets larger."""
    behind: int = 0
    """Tokens that have to be written to the cache again."""
    cost: float = 0.0
    """What it costs now, in tokens of fresh input."""
    saves: float = 0.0
    """What each further request costs less, in tokens of fresh input."""
    asks: bool = False
    """A model has to be asked."""
    key: str = ""
    """Of the item that a model sums up."""
    cut: int = 0
    """How many messages a summary would stand for."""
    is_rewrite: bool = True
    """Whether it changes what was sent before."""

    @property
    def break_even_requests(self) -> int | None:
        """The requests after which it has paid for itself; None when it never does."""
        if self.cost <= 0:
            return 0
        return math.ceil(self.cost / self.saves) if self.saves > 0 else None


def price_edit(
    act: Act, name: str, what: str, before: Conversation, after: Conversation, terms: EditPricing
) -> ViewEditPlan:
    """The plan of a change that needs nobody to be asked."""
    kept, first = first_change(before, after)
    if first is None:
        return ViewEditPlan(act, name, what, after, kept, is_rewrite=before.held_back != after.held_back)
    freed = round((_size(before, terms) - _size(after, terms)) * terms.scale)
    behind = written_behind(before, after, terms)
    cost = 0.0 if terms.is_cold else (terms.prices.write - terms.prices.read) * behind
    changed = replace(after, anchor=None, anchored=0)
    return ViewEditPlan(act, name, what, changed, kept, freed, behind, cost, terms.prices.read * freed)


def written_behind(before: Conversation, after: Conversation, terms: EditPricing) -> int:
    """Tokens of a view that a provider has to write to its cache again because the one before it was another: those
    from the first change on that were sent, and that no change since then has already cost."""
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
    """How many of the messages that are sent stay as they are, and the index of the first message of the later view
    that may not; None when all are shown as before."""
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
    """For each message, which of the messages that are sent it is, or is a part of: neighbours of one role are one."""
    places, place = list[int](), 0 if summary_messages(conversation.summary) else -1
    before: Message | None = User(()) if place == 0 else None
    for message in conversation.messages:
        if before is None or not (isinstance(message, User) and isinstance(before, User)):
            place += 1
        places.append(place)
        before = message
    return tuple(places)


def _index_at(conversation: Conversation, place: int) -> int:
    """The index of the first message that is not among so many of those that are sent."""
    places = places_in_prompt(conversation)
    return next((index for index, found in enumerate(places) if found >= place), len(places))


def _sent_message_count(conversation: Conversation) -> int:
    """How many of the messages the last request held: all before the newest reply."""
    messages = conversation.messages
    return next((index for index in range(len(messages) - 1, -1, -1) if not isinstance(messages[index], User)), 0)


MAX_HOLD_TOKENS, PART = 20_000, 10
"""Tokens that must come before a rewrite that was undone may happen again unasked: at most so many, or that part of
what a request may take."""


def hold_after(used: int, effective: int) -> int:
    """The size of a request below which nothing is rewritten unasked, after an undo has made it `used` tokens. A window
    that is nearly full does not wait for it."""
    return used + max(min(effective // PART, MAX_HOLD_TOKENS), 1)


def written_again(budget: ContextBudget) -> int:
    """Tokens of a request that stand behind its system text and its tools, which a rewrite leaves in the cache."""
    fixed = budget.system + budget.instructions + budget.memories + budget.skills + budget.tools
    return max(budget.used - fixed, 0)


def undo_refusal(before: ContextBudget) -> str:
    """Why the view from before cannot be shown again; empty when it can."""
    if before.verdict == "fits":
        return ""
    return (
        f"the view from before takes about {before.used:,} tokens by now, and a request has room for "
        f"{before.window.effective:,}: nothing was undone; `/bring` shows single parts of it again"
    )
