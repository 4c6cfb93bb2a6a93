"""When a context rewrite pays for itself. Pure; the unit is the price of one fresh input token.

Every request reads removable content from the cache again, which is its carrying cost. The carrying costs of each kind
of rewrite are accumulated, and the rewrite is done when they reach its one-time cost. With even growth this is optimal
for any window and needs no forecast (the ski-rental problem). An output may be masked once it has cost more than
fetching it again would, weighted by how likely that is.
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
"""Tokens of the instruction that asks for a summary."""
FETCHED_TOKENS, FETCH_CALL_TOKENS = 2_500, 90
"""Tokens fetched again of a masked output, at most, and tokens of the call that fetches it."""
REREAD, REREAD_CALL, REREADS = 2_200, 120, 3
"""Tokens of each file that is read again after a summary, of the call for it, and the number of such files."""

RewriteAction: TypeAlias = Literal["nothing", "mask", "compact"]


@dataclass(frozen=True, slots=True)
class UnitPrices:
    """Prices of a cached, a cache-written and an output token, in fresh input tokens."""

    read: float = 0.1
    write: float = 1.25
    output: float = 5.0


LOCAL = UnitPrices(0.0, 1.0, 1.0)
"""A model without a price: cache reads are free, and everything else is priced by its time."""


@dataclass(frozen=True, slots=True)
class CarryingCosts:
    """Cost carried since the last rewrite, by the rewrite that would have saved it."""

    mask: float = 0.0
    compact: float = 0.0


@dataclass(frozen=True, slots=True)
class RewriteOffer:
    """A rewrite that could be done now."""

    removed: int = 0
    """Tokens that would leave the view."""
    behind: int = 0
    """Tokens after the first changed byte, which have to be written to the cache again."""
    cost: float = 0.0
    """One-time cost, including content that will be fetched again because of the rewrite."""
    keys: frozenset[str] = frozenset()
    """Keys of the outputs and texts that would be masked."""


@dataclass(frozen=True, slots=True)
class RewriteDecision:
    act: RewriteAction
    carrying_costs: CarryingCosts
    """Costs carried after this decision; zero after a rewrite."""
    accrued: float = 0.0
    """Carrying cost that had accumulated for the rewrite."""
    offer: RewriteOffer = RewriteOffer()
    """The chosen rewrite, or the mask that was not chosen."""


def accrue(
    mask: RewriteOffer,
    compaction: RewriteOffer,
    rents: CarryingCosts,
    prices: UnitPrices,
    patience: RewritePatience,
    *,
    is_cold: bool,
) -> RewriteDecision:
    """Decide what to do before the next request, and return the carrying costs afterwards. `is_cold`: nothing of the
    session is in the provider's cache, so a mask costs only what is fetched again, while a summary is at its most
    expensive."""
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
    """Whether a summary made while the session is idle will have paid for itself, if as many requests follow as since
    the last rewrite. If tokens are free, the waiting time saved is the whole gain."""
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
    """Return the offer to mask everything that is due. `size`: tokens of the next request; `fixed`: tokens before its
    messages, used to calibrate the estimates of single messages. With the session's `inventory` the work is
    proportional to the growth of the conversation."""
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
    """Return the offer to mask the outputs and texts with these keys, whatever they are worth."""
    stock = Inventory().of(conversation)
    chosen = [item for item in reversed(stock.items) if item.key in keys]
    return _offer_of(chosen, stock, size, fixed, prices, is_cold=is_cold)


def _offer_of(
    chosen: Sequence[MaskableItem], stock: MaskableOutputs, size: int, fixed: int, prices: UnitPrices, *, is_cold: bool
) -> RewriteOffer:
    """Return the offer for `chosen`, the newest first."""
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
    """Whether an item may be masked: it is not protected as one of the newest (unless the cache is cold), and it has
    cost more so far than missing it would."""
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
    """Expected cost of fetching an output again: one more request, the fetched tokens and the call, times the
    probability. Zero for a reply, since later work already contains what it said."""
    if item.is_reply:
        return 0.0
    fetched = prices.write * min(item.tokens, FETCHED_TOKENS)
    return stock.reread_probability(item) * (prices.read * size + fetched + prices.output * FETCH_CALL_TOKENS)


def compaction_offer(caps: Caps, size: int, fixed: int, prices: UnitPrices, pinned: int = 0) -> RewriteOffer:
    """Return the offer of a summary written by the model that has the conversation in its cache. `fixed`: tokens of
    system prompt and tool definitions; `pinned`: tokens that stay in any case."""
    written = caps.summary
    stays = written + min(caps.tail + pinned, max(size - fixed, 0))
    left = fixed + stays
    asked = prices.read * size + prices.write * INSTRUCTION + prices.output * written
    reread = REREADS * (prices.read * left + REREAD * prices.write + REREAD_CALL * prices.output)
    return RewriteOffer(max(size - left, 0), stays, (prices.write - prices.read) * stays + asked + reread)
