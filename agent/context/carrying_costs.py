"""When a rewrite pays for itself. Pure; the unit is the price of one fresh input token.

What could leave the view costs rent: every request reads it from the cache once more. The rent of each kind of rewrite
is added up, and when it reaches what the rewrite would cost once, the rewrite is done. With an even growth that is the
best there is, whatever the window, and no forecast is needed (the ski-rental problem). An output may leave by a mask
once it has cost more itself than it would cost to bring it back, by how likely that is.
"""

from collections.abc import Container, Sequence
from typing import Literal, TypeAlias

from ebbtide.agent.context.inventory import Inventory, MaskableItem, MaskableOutputs, maskable
from ebbtide.agent.context.reread_model import MIN_AGE_REQUESTS
from ebbtide.agent.context.settings import Caps, RewritePatience
from ebbtide.agent.messages import Conversation
from ebbtide.tools.lazy import dataclass

MIN_MASKED_TOKENS, MIN_COMPACTED_TOKENS = 2_000, 8_000
"""Tokens that a mask and a compaction must remove at least."""
INSTRUCTION = 400
"""Tokens that ask for a summary."""
FETCHED_TOKENS, FETCH_CALL_TOKENS = 2_500, 90
"""Tokens that are brought back of a masked output at most, and of the call for it."""
REREAD, REREAD_CALL, REREADS = 2_200, 120, 3
"""The same of each of the files that are read again after a summary."""

RewriteAction: TypeAlias = Literal["nothing", "mask", "compact"]


@dataclass(frozen=True, slots=True)
class UnitPrices:
    """What a token costs that is read from the cache, written to it, or produced: in tokens of fresh input."""

    read: float = 0.1
    write: float = 1.25
    output: float = 5.0


LOCAL = UnitPrices(0.0, 1.0, 1.0)
"""A model that nobody pays for: what is kept in its cache is free, and time is the price of everything else."""


@dataclass(frozen=True, slots=True)
class CarryingCosts:
    """What was paid so far since the last rewrite, by the rewrite that would have saved it."""

    mask: float = 0.0
    compact: float = 0.0


@dataclass(frozen=True, slots=True)
class RewriteOffer:
    """A rewrite that could be done now."""

    removed: int = 0
    """Tokens that would leave the view."""
    behind: int = 0
    """Tokens that stay behind the first changed byte, and have to be written to the cache again."""
    cost: float = 0.0
    """What it costs once, with what will be fetched again because of it."""
    keys: frozenset[str] = frozenset()
    """What would be masked."""


@dataclass(frozen=True, slots=True)
class RewriteDecision:
    act: RewriteAction
    carrying_costs: CarryingCosts
    """As they are now: none after a rewrite."""
    accrued: float = 0.0
    """What had been paid for the rewrite that is done."""
    offer: RewriteOffer = RewriteOffer()
    """The rewrite that is done, or the mask that is not."""


def accrue(
    mask: RewriteOffer,
    compaction: RewriteOffer,
    rents: CarryingCosts,
    prices: UnitPrices,
    patience: RewritePatience,
    *,
    is_cold: bool,
) -> RewriteDecision:
    """What is done before the next request, and the rents afterwards. `is_cold`: the provider has nothing of the
    session in its cache, so that a mask costs no more than what is fetched again; a summary would cost most then."""
    paid = CarryingCosts(rents.mask + prices.read * mask.removed, rents.compact + prices.read * compaction.removed)
    if is_cold:
        pays = mask.removed >= MIN_MASKED_TOKENS and prices.write * mask.removed >= mask.cost
        left = CarryingCosts(0.0, paid.compact) if pays else paid
        return RewriteDecision("mask" if pays else "nothing", left, paid.mask if pays else 0.0, mask)
    if compaction.removed > MIN_COMPACTED_TOKENS and paid.compact >= patience.compact * compaction.cost > 0:
        return RewriteDecision("compact", CarryingCosts(), paid.compact, compaction)
    if mask.removed >= MIN_MASKED_TOKENS and paid.mask >= patience.mask * mask.cost > 0:
        return RewriteDecision("mask", CarryingCosts(0.0, paid.compact), paid.mask, mask)
    return RewriteDecision("nothing", paid, offer=mask)


def will_pay_off(compaction: RewriteOffer, rents: CarryingCosts, prices: UnitPrices) -> bool:
    """Whether a summary that is made while nobody waits will have paid for itself, if as many requests follow as there
    were since the last rewrite. Where tokens cost nothing, the time that nobody waits for is all there is to gain."""
    if compaction.removed <= MIN_COMPACTED_TOKENS:
        return False
    return prices.read <= 0 or 2 * (rents.compact + prices.read * compaction.removed) >= compaction.cost


def mask_offer(
    conversation: Conversation,
    caps: Caps,
    size: int,
    fixed: int,
    prices: UnitPrices,
    patience: RewritePatience,
    *,
    is_cold: bool = False,
    inventory: Inventory | None = None,
) -> RewriteOffer:
    """What masking all that is due would remove and cost. `size`: tokens of the next request; `fixed`: of what stands
    before its messages, by which the estimates of single messages are put right. With the session's `inventory` it
    costs as much as the conversation has grown."""
    stock = (inventory or Inventory()).of(conversation)
    due = [
        item
        for item in maskable(conversation, stock, caps.newest)
        if _is_due(item, stock, caps.protect, size, prices, patience.wanted, is_cold=is_cold)
    ]
    return _offer_of(due, stock, size, fixed, prices, is_cold=is_cold)


def masked_offer(
    conversation: Conversation, keys: Container[str], size: int, fixed: int, prices: UnitPrices, *, is_cold: bool
) -> RewriteOffer:
    """The same of what is masked whatever it is worth, by the keys of outputs and texts."""
    stock = Inventory().of(conversation)
    chosen = [item for item in reversed(stock.items) if item.key in keys]
    return _offer_of(chosen, stock, size, fixed, prices, is_cold=is_cold)


def _offer_of(
    chosen: Sequence[MaskableItem], stock: MaskableOutputs, size: int, fixed: int, prices: UnitPrices, *, is_cold: bool
) -> RewriteOffer:
    """`chosen`: the newest first."""
    if not chosen:
        return RewriteOffer()
    whole = stock.sums[-1]
    scale = max(size - fixed, 0) / max(whole, 1)
    removed = int(scale * sum(item.freed_tokens for item in chosen))
    behind = max(int(scale * (whole - stock.sums[chosen[-1].place])) - removed, 0)
    again = sum(_price_of_missing(item, stock, size, prices) for item in chosen)
    rewritten = 0.0 if is_cold else (prices.write - prices.read) * behind
    return RewriteOffer(removed, behind, rewritten + again, frozenset(item.key for item in chosen))


def _is_due(
    item: MaskableItem,
    stock: MaskableOutputs,
    protect: int,
    size: int,
    prices: UnitPrices,
    patience: float,
    *,
    is_cold: bool,
) -> bool:
    """Whether something may leave: it is not among the newest, unless all of them are written to the cache anew now,
    and what it has cost so far is more than missing it would."""
    if item.is_reply:
        return stock.tokens_since(item) > protect
    if item.is_repeated:
        return True
    age = stock.age(item)
    if age < MIN_AGE_REQUESTS or (not is_cold and stock.tokens_since(item) <= protect):
        return False
    spent = (prices.read * age + (prices.write if is_cold else 0.0)) * item.freed_tokens
    return spent >= patience * _price_of_missing(item, stock, size, prices)


def _price_of_missing(item: MaskableItem, stock: MaskableOutputs, size: int, prices: UnitPrices) -> float:
    """What it costs to bring an output back, by how likely that is: one more request, what it fetches, and its call.
    The words of a text of the model stand in what was done since."""
    if item.is_reply:
        return 0.0
    fetched = prices.write * min(item.tokens, FETCHED_TOKENS)
    return stock.reread_probability(item) * (prices.read * size + fetched + prices.output * FETCH_CALL_TOKENS)


def compaction_offer(caps: Caps, size: int, fixed: int, prices: UnitPrices, pinned: int = 0) -> RewriteOffer:
    """What a summary by the model that has the conversation in its cache would remove and cost. `fixed`: tokens of the
    system text and the tool definitions; `pinned`: of what stays whatever leaves."""
    written = caps.summary
    stays = written + min(caps.tail + pinned, max(size - fixed, 0))
    left = fixed + stays
    asked = prices.read * size + prices.write * INSTRUCTION + prices.output * written
    reread = REREADS * (prices.read * left + REREAD * prices.write + REREAD_CALL * prices.output)
    return RewriteOffer(max(size - left, 0), stays, (prices.write - prices.read) * stays + asked + reread)
