"""What a session has paid for what could have left its view.

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
    """What a session has paid since its last rewrite for what it could have left out."""

    costs: CarryingCosts = field(default_factory=CarryingCosts)
    _inventory: Inventory = field(default_factory=Inventory)

    def reset(self) -> None:
        """After a rewrite that no rent has paid for, all rents begin again."""
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
        """The mask and the summary that could be done now."""
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
        """What to do before the next request, whose rents are then paid. `masks_only`: it is too early for a
        summary."""
        mask, compaction = self.offers(conversation, budget, prices, how, is_cold=is_cold)
        # Whoever wants a report when the window is full wants no summary before it is.
        compaction = compaction if how.on_full == "compact" and not masks_only else RewriteOffer()
        ruling = accrue(mask, compaction, self.costs, prices, how.patience, is_cold=is_cold)
        self.costs = ruling.carrying_costs
        return ruling

    def will_pay_off(
        self, conversation: Conversation, budget: ContextBudget, prices: UnitPrices, how: CompactionSettings
    ) -> bool:
        """Whether a summary will pay that is made while nobody waits. Nothing is paid by asking."""
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
    """What a rewrite costs and saves, by the strategies that it took and the keys of what it masked, at the prices that
    the provider has shown to take. `paid`: the rent that has chosen it; None: what was paid so far."""
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
    """Tokens of what stands before the messages."""
    return budget.used - budget.history - budget.pending - budget.retain - budget.summary


def dollar_of(prices: Prices | None) -> float | None:
    """US dollars of a token of fresh input; None when that is not known, or nothing."""
    return prices.input / 1e6 if prices is not None and prices.input > 0 else None


def unit_prices(prices: Prices | None, *, is_uncached: bool = False) -> UnitPrices:
    """What a model's tokens cost in tokens of its fresh input. Where prices are not known, they are taken to be as they
    usually are. `is_uncached`: the provider has shown that it reads nothing from a cache."""
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
    """The fields of a debug line about a ruling. Rents as they were before a rewrite gave its own back."""
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
