"""When a rewrite pays for itself. Pure; the unit is the price of one fresh input token.

What could leave the view costs rent: every request reads it from the cache once more. The rent of each kind of rewrite
is added up, and when it reaches what the rewrite would cost once, the rewrite is done. With an even growth that is the
best there is, whatever the window, and no forecast is needed (the ski-rental problem).
"""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from agent.context.inventory import Inventory, maskable
from agent.context.settings import Caps, RewritePatience
from agent.messages import Conversation
from tools.lazy import dataclass

LEAST_MASKED, LEAST_COMPACTED = 2_000, 8_000
"""Tokens that a mask and a compaction must remove at least."""
INSTRUCTION = 400
"""Tokens that ask for a summary."""
AGING = 12.0
"""Requests over which the wish to see an old output again fades."""
FETCHED, FETCHED_CALL, REREAD, REREAD_CALL, REREADS = 800, 90, 2_200, 120, 3
"""Tokens fetched for a masked output that is wanted again, and of the call for it; the same of each of the files that
are read again after a summary."""

RentAction: TypeAlias = Literal["nothing", "mask", "compact"]


@dataclass(frozen=True, slots=True)
class UnitPrices:
    """What a token costs that is read from the cache, written to it, or produced: in tokens of fresh input."""

    read: float = 0.1
    write: float = 1.25
    output: float = 5.0


LOCAL = UnitPrices(0.0, 1.0, 1.0)
"""A model that nobody pays for: what is kept in its cache is free, and time is the price of everything else."""


@dataclass(frozen=True, slots=True)
class Rents:
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


@dataclass(frozen=True, slots=True)
class RewriteRuling:
    act: RentAction
    rents: Rents
    """As they are now: none after a rewrite."""
    rent: float = 0.0
    """What had been paid for the rewrite that is done."""
    offer: RewriteOffer = RewriteOffer()
    """The rewrite that is done, or the mask that is not."""


def rent_step(
    mask: RewriteOffer,
    compaction: RewriteOffer,
    rents: Rents,
    prices: UnitPrices,
    patience: RewritePatience,
    *,
    is_cold: bool,
) -> RewriteRuling:
    """What is done before the next request, and the rents afterwards. `is_cold`: the provider has nothing of the
    session in its cache, so that a mask costs no more than what is fetched again; a summary would cost most then."""
    paid = Rents(rents.mask + prices.read * mask.removed, rents.compact + prices.read * compaction.removed)
    if is_cold:
        pays = mask.removed >= LEAST_MASKED and prices.write * mask.removed >= mask.cost
        left = Rents(0.0, paid.compact) if pays else paid
        return RewriteRuling("mask" if pays else "nothing", left, paid.mask if pays else 0.0, mask)
    if compaction.removed > LEAST_COMPACTED and paid.compact >= patience.compact * compaction.cost > 0:
        return RewriteRuling("compact", Rents(), paid.compact, compaction)
    if mask.removed >= LEAST_MASKED and paid.mask >= patience.mask * mask.cost > 0:
        return RewriteRuling("mask", Rents(0.0, paid.compact), paid.mask, mask)
    return RewriteRuling("nothing", paid, offer=mask)


def will_pay(compaction: RewriteOffer, rents: Rents, prices: UnitPrices) -> bool:
    """Whether a summary that is made while nobody waits will have paid for itself, if as many requests follow as there
    were since the last rewrite. Where tokens cost nothing, the time that nobody waits for is all there is to gain."""
    if compaction.removed <= LEAST_COMPACTED:
        return False
    return prices.read <= 0 or 2 * (rents.compact + prices.read * compaction.removed) >= compaction.cost


def mask_offer(
    conversation: Conversation,
    caps: Caps,
    size: int,
    fixed: int,
    prices: UnitPrices,
    *,
    is_cold: bool = False,
    inventory: Inventory | None = None,
) -> RewriteOffer:
    """What masking the outputs that `caps` do not protect would remove and cost. `size`: tokens of the next
    request; `fixed`: of what stands before its messages, by which the estimates of single messages are put right. With
    the session's `inventory` it costs as much as the conversation has grown."""
    stock = (inventory or Inventory()).of(conversation)
    chosen = maskable(conversation, caps, stock)
    if not chosen:
        return RewriteOffer()
    whole = stock.sums[-1]
    ages = [stock.replies[-1] - stock.replies[item.place + 1] for item in chosen]
    behind = whole - stock.sums[chosen[-1].place]
    scale = max(size - fixed, 0) / max(whole, 1)
    removed = int(scale * sum(item.tokens - item.left for item in chosen))
    behind = max(int(scale * behind) - removed, 0)
    again = wanted_again(ages)
    fetched = (
        0.5 * min(len(chosen), again) * (prices.read * size + FETCHED * prices.write + FETCHED_CALL * prices.output)
    )
    rewritten = 0.0 if is_cold else (prices.write - prices.read) * behind
    return RewriteOffer(removed, behind, rewritten + fetched)


def compaction_offer(caps: Caps, size: int, fixed: int, prices: UnitPrices, pinned: int = 0) -> RewriteOffer:
    """What a summary by the model that has the conversation in its cache would remove and cost. `fixed`: tokens of the
    system text and the tool definitions; `pinned`: of what stays whatever leaves."""
    written = caps.summary
    stays = written + min(caps.tail + pinned, max(size - fixed, 0))
    left = fixed + stays
    asked = prices.read * size + prices.write * INSTRUCTION + prices.output * written
    reread = REREADS * (prices.read * left + REREAD * prices.write + REREAD_CALL * prices.output)
    return RewriteOffer(max(size - left, 0), stays, (prices.write - prices.read) * stays + asked + reread)


def wanted_again(ages: Sequence[int]) -> float:
    """How many masked outputs will be asked for again, by the number of requests since each came in."""
    return 0.6 * sum(math.exp(-age / AGING) for age in ages)
