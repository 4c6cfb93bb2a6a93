"""The cost that a session has paid for content that could have been removed from its view.

`ebbtide.agent.context.carrying_costs` decides when a rewrite pays off.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import asdict, field
from typing import TypeAlias

from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.carrying_costs import (
    LOCAL,
    CarryingCosts,
    RewriteDecision,
    RewriteOffer,
    UnitPrices,
    accrue,
    compaction_offer,
    mask_offer,
    masked_offer,
    will_pay_off,
)
from ebbtide.agent.context.inventory import Inventory
from ebbtide.agent.context.pins import size_of_pins
from ebbtide.agent.context.settings import CompactionSettings
from ebbtide.agent.events.view import Price
from ebbtide.agent.messages import Conversation
from ebbtide.agent.providers.base import Prices
from ebbtide.tools.lazy import dataclass

PriceOf: TypeAlias = Callable[[Sequence[str], Container[str]], Price]


@dataclass(slots=True)
class CarryingCost:
    """Accumulated cost, since the last rewrite, of content that could have been removed."""

    costs: CarryingCosts = field(default_factory=CarryingCosts)
    _inventory: Inventory = field(default_factory=Inventory)

    def reset(self) -> None:
        """Start over after a rewrite that was done for another reason."""
        self.costs = CarryingCosts()

    def offers(
        self,
        conversation: Conversation,
        budget: ContextBudget,
        prices: UnitPrices,
        how: CompactionSettings,
        *,
        is_cold: bool,
    ) -> tuple[RewriteOffer, RewriteOffer]:
        """Return the mask and the summary that could be done now."""
        fixed = _fixed_tokens(budget)
        mask = mask_offer(
            conversation,
            how.caps,
            budget.used,
            fixed,
            prices,
            how.patience,
            is_cold=is_cold,
            inventory=self._inventory,
        )
        pinned = size_of_pins(conversation) if conversation.pinned else 0
        return mask, compaction_offer(how.caps, budget.used, fixed, prices, pinned)

    def rule(
        self,
        conversation: Conversation,
        budget: ContextBudget,
        prices: UnitPrices,
        how: CompactionSettings,
        *,
        is_cold: bool,
        masks_only: bool = False,
    ) -> RewriteDecision:
        """Decide what to do before the next request, and add its carrying cost. `masks_only`: it is too early for a
        summary."""
        mask, compaction = self.offers(conversation, budget, prices, how, is_cold=is_cold)
        # If a full window is to end in a report, no summary is made before that.
        compaction = compaction if how.on_full == "compact" and not masks_only else RewriteOffer()
        ruling = accrue(mask, compaction, self.costs, prices, how.patience, is_cold=is_cold)
        self.costs = ruling.carrying_costs
        return ruling

    def will_pay_off(
        self, conversation: Conversation, budget: ContextBudget, prices: UnitPrices, how: CompactionSettings
    ) -> bool:
        """Whether a summary made while the session is idle will pay off. Asking adds no cost."""
        _, compaction = self.offers(conversation, budget, prices, how, is_cold=False)
        return will_pay_off(compaction, self.costs, prices)


def price_by(
    rent: CarryingCost,
    conversation: Conversation,
    budget: ContextBudget,
    prices: Prices | None,
    how: CompactionSettings,
    *,
    is_cold: bool,
    is_uncached: bool,
    paid: float | None = None,
) -> PriceOf:
    """Return a function for the cost and savings of a rewrite, given its strategies and the keys it masked, at the
    prices that the provider actually charges. `paid`: carrying cost that triggered the rewrite; None for the cost so
    far."""
    real = unit_prices(prices, is_uncached=is_uncached)
    _, compaction = rent.offers(conversation, budget, real, how, is_cold=is_cold)
    usual, rents = unit_prices(prices).read, rent.costs
    dearer = real.read / usual if usual else 1.0

    def price(strategies: Sequence[str], keys: Container[str] = ()) -> Price:
        is_mask = set(strategies) <= {"mask", "mask_all"}
        mask = masked_offer(conversation, keys, budget.used, _fixed_tokens(budget), real, is_cold=is_cold)
        offer, so_far = (mask, rents.mask) if is_mask else (compaction, rents.compact)
        had_cost = (so_far if paid is None else paid) * dearer
        return Price(offer.removed, offer.behind, round(offer.cost), round(had_cost), dollar_of(prices))

    return price


def _fixed_tokens(budget: ContextBudget) -> int:
    """Tokens before the messages."""
    return budget.used - budget.history - budget.pending - budget.retain - budget.summary


def dollar_of(prices: Prices | None) -> float | None:
    """US dollars per fresh input token; None if unknown or zero."""
    return prices.input / 1e6 if prices is not None and prices.input > 0 else None


def unit_prices(prices: Prices | None, *, is_uncached: bool = False) -> UnitPrices:
    """Return a model's prices in fresh input tokens. Unknown prices are assumed to be typical. `is_uncached`: the
    provider has turned out not to read from a cache."""
    if prices is None:
        return UnitPrices()
    if prices.input <= 0:
        return LOCAL
    if is_uncached:
        return UnitPrices(1.0, 1.0, prices.output / prices.input)
    return UnitPrices(
        prices.cache_read / prices.input,
        max(prices.cache_write / prices.input, 1.0),
        prices.output / prices.input,
    )


def evaluation(ruling: RewriteDecision, prices: UnitPrices, is_cold: bool) -> dict[str, object]:
    """Return the fields of a debug line about a decision, with carrying costs as they were before the rewrite."""
    mask = ruling.accrued if ruling.act == "mask" else ruling.carrying_costs.mask
    compact = ruling.accrued if ruling.act == "compact" else ruling.carrying_costs.compact
    return {
        "action": ruling.act,
        "cold": is_cold,
        "rents": {"mask": round(mask), "compact": round(compact)},
        "prices": {name: round(price, 6) for name, price in asdict(prices).items()},
        "removed": ruling.offer.removed,
        "behind": ruling.offer.behind,
        "cost": round(ruling.offer.cost),
    }
