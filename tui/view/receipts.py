"""Compaction receipts as transcript blocks: one line, and the details."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.numbers import dollars, tokens

if TYPE_CHECKING:  # types only: events are loaded behind the first paint
    from ebbtide.agent.events.view import (
        Act,
        Cause,
        CompactionFailed,
        ContextCompacted,
        Price,
        ReceiptItem,
        RewriteUndone,
    )

BACK = "`u` on this block, or `/context undo`, shows the model again what was there before"

Weight: TypeAlias = Literal["head", "item"]

MAX_LISTED_ITEMS = 40
"""Maximum items listed per fate."""

ORDER = ("summarised", "dropped", "masked", "cut", "deferred", "kept")
FATES = {"masked": "one line each", "deferred": "held back"}
"""Fates with a clearer name."""
STRATEGIES = {
    "mask": "older outputs as lines",
    "mask_all": "all outputs as lines",
    "chunks": "summary in pieces",
    "ledger": "facts only",
    "attachments": "attachments shown in part",
    "drop": "older half dropped",
    "last": "only your last message and the newest step kept",
    "pictures": "its pictures left out",
    "share": "new outputs cut to their share",
    "cut": "new outputs cut to what was left",
    "least": "new outputs cut as far as possible",
    "references": "new outputs as one line each",
    "step": "the newest step left out, its outputs named",
    "words": "your long messages shown in part",
    "tools": "tools held back",
}
"""Strategies with a clearer name."""
ACTS: dict["Act", str] = {
    "pin": "pin {}",
    "unpin": "unpin {}",
    "evict": "drop {} from view",
    "offload": "show the ends of {}",
    "summarise": "summarise {}",
    "summarise_before": "summarise all up to {}",
    "defer": "keep out {}",
    "offer": "let in {}",
}
"""Manual context actions, with a placeholder for their object."""
REASONS: dict["Cause", str] = {
    "full": "the window was full",
    "background": "the window was full, and nobody waited",
    "asked": "somebody asked for it",
    "overflow": "the provider found the request too large",
    "rent": "it pays for itself",
    "budget": "all outputs together exceeded what they may take",
    "pictures": "the provider refused a picture",
    "cold": "nothing was in the provider's cache any more, so that it cost next to nothing",
}


@dataclass(frozen=True, slots=True)
class RunningCompaction:
    """A compaction in progress."""

    tokens: int
    failures: tuple[str, ...] = ()
    """Why summaries could not be used, a sentence each."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """A finished compaction."""

    event: "ContextCompacted"
    failures: tuple[str, ...] = ()
    """Why summaries could not be used, a sentence each."""


@dataclass(frozen=True, slots=True)
class UndoneReceipt:
    """An undone compaction."""

    event: "RewriteUndone"


def failure_of(event: "CompactionFailed") -> str:
    return f"the summary by {event.model} is not used: {event.reason}"


def names_of(strategies: Sequence[str]) -> tuple[str, ...]:
    """The strategies and manual actions (`evict(r1)`) in words."""
    return tuple(map(_name_of, strategies))


def _name_of(strategy: str) -> str:
    act, bracket, done_to = strategy.removesuffix(")").partition("(")
    if not bracket:
        return STRATEGIES.get(strategy, strategy)
    return next((words.format(done_to) for name, words in ACTS.items() if name == act), strategy)


def title_of(block: RunningCompaction | Compaction | UndoneReceipt) -> str:
    """The line that is always shown."""
    match block:
        case UndoneReceipt(event):
            sizes = f"undone: {event.before_tokens:,} → {event.after_tokens:,} tokens"
            return f"{sizes} · {price_of_undo(event)}"
        case RunningCompaction(tokens=size, failures=failures):
            return f"compacting {size:,} tokens …" + (f" · {failures[-1]}" if failures else "")
        case Compaction(event, failures):
            how = ", ".join(names_of(event.strategies))
            price = _price(event.cost) if event.model or failures else ""
            sizes = f"compacted: {event.before_tokens:,} → {event.after_tokens:,} tokens"
            return " · ".join(part for part in (sizes, how, price) if part)


def _price(cost: float | None) -> str:
    return "price not known" if cost is None else dollars(cost)


def price_of_undo(event: "RewriteUndone") -> str:
    """The extra cost of the next request."""
    if not event.is_cached:
        return f"each request takes {tokens(event.written)} tokens more, {_price(event.cost)}"
    if not event.written:
        return "the next request has nothing to write again"
    return f"the next request writes up to {tokens(event.written)} tokens again, {_price(event.cost)}"


def details_of(block: Compaction) -> tuple[tuple[Weight, str], ...]:
    """The details: reason, model, and the fate of each part, one line each."""
    return tuple(_details(block))


def _details(block: Compaction) -> Iterator[tuple[Weight, str]]:
    event = block.event
    yield "head", f"{REASONS[event.cause]} · {event.before_messages} → {pluralize(event.after_messages, 'message')}"
    if event.price:
        yield "head", _cost_and_saving(event.price)
    if event.model:
        yield "head", f"summary by {event.model} · {dollars(event.cost)}"
    for failure in block.failures:
        yield "head", failure
    yield from fates_of(event.receipt)
    yield "head", BACK


def _cost_and_saving(price: "Price") -> str:
    kept, gone = f"{price.rent:,}", f"{price.cost:,} (in fresh input)"
    if price.dollar is not None:
        kept, gone = dollars(price.rent * price.dollar), dollars(price.cost * price.dollar)
    return f"{price.removed:,} tokens left the view: keeping them would have cost {kept}, taking them out costs {gone}"


def fates_of(items: Sequence["ReceiptItem"]) -> Iterator[tuple[Weight, str]]:
    """The fate of each part, grouped."""
    items = sorted(items, key=lambda item: ORDER.index(item.fate))
    for (fate, why), group in groupby(items, key=lambda item: (item.fate, item.why)):
        found = tuple(group)
        yield "head", f"{FATES.get(fate, fate)}, {sum(item.tokens for item in found):,} tokens: {why}"
        yield from _item_lines(found)


def _item_lines(items: "Sequence[ReceiptItem]") -> Iterator[tuple[Weight, str]]:
    for item in items[:MAX_LISTED_ITEMS]:
        yield "item", f"{item.tokens:>8,}  {item.item}"
    if len(items) > MAX_LISTED_ITEMS:
        yield "item", f"{'…':>8}  {len(items) - MAX_LISTED_ITEMS} more"
