"""Receipts of compactions as blocks of the transcript: one line, and what stands behind it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from tools.extent import counted
from tui.text.numbers import dollars, tokens

if TYPE_CHECKING:  # types only: events are loaded behind the first paint
    from agent.view_events import Cause, CompactionFailed, ContextCompacted, Price, ReceiptItem, RewriteUndone

BACK = "`u` on this block, or `/undo`, shows the model again what was there before"

Weight: TypeAlias = Literal["head", "item"]

MOST = 40
"""Items of one fate that are listed."""

ORDER = ("summarised", "dropped", "masked", "cut", "deferred", "kept")
STRATEGIES = {
    "mask_all": "mask all",
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
"""Strategies whose names say too little."""
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
    """A compaction that runs."""

    tokens: int
    failures: tuple[str, ...] = ()
    """Summaries that could not be used, a sentence each."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """One that is done."""

    before_tokens: int
    after_tokens: int
    before_messages: int
    after_messages: int
    strategies: tuple[str, ...] = ()
    cause: "Cause" = "asked"
    items: "tuple[ReceiptItem, ...]" = ()
    model: str = ""
    """Who wrote the summary; empty when nobody did."""
    cost: float | None = 0.0
    failures: tuple[str, ...] = ()
    price: "Price | None" = None
    """What decided, where a price did."""


@dataclass(frozen=True, slots=True)
class UndoneReceipt:
    """One that was taken back."""

    before_tokens: int
    after_tokens: int
    written: int
    cost: float | None
    is_cached: bool = True


def undone_of(event: "RewriteUndone") -> UndoneReceipt:
    return UndoneReceipt(event.before_tokens, event.after_tokens, event.written, event.cost, event.is_cached)


def failure_of(event: "CompactionFailed") -> str:
    return f"the summary by {event.model} is not used: {event.reason}"


def receipt_of(event: "ContextCompacted", failures: tuple[str, ...] = ()) -> Compaction:
    return Compaction(
        event.before_tokens,
        event.after_tokens,
        event.before_messages,
        event.after_messages,
        event.strategies,
        event.cause,
        event.receipt,
        event.model,
        event.cost,
        failures,
        event.price,
    )


def names_of(strategies: Sequence[str]) -> tuple[str, ...]:
    """The strategies in words for people."""
    return tuple(STRATEGIES.get(strategy, strategy) for strategy in strategies)


def title_of(block: RunningCompaction | Compaction | UndoneReceipt) -> str:
    """The one line that is always shown."""
    match block:
        case UndoneReceipt():
            sizes = f"undone: {block.before_tokens:,} → {block.after_tokens:,} tokens"
            return f"{sizes} · {price_of_undo(block)}"
        case RunningCompaction(tokens=size, failures=failures):
            return f"compacting {size:,} tokens …" + (f" · {failures[-1]}" if failures else "")
        case Compaction():
            how = ", ".join(names_of(block.strategies))
            price = _price(block.cost) if block.model or block.failures else ""
            sizes = f"compacted: {block.before_tokens:,} → {block.after_tokens:,} tokens"
            return " · ".join(part for part in (sizes, how, price) if part)


def _price(cost: float | None) -> str:
    return "price not known" if cost is None else dollars(cost)


def price_of_undo(block: UndoneReceipt) -> str:
    """What the next request takes more because of it."""
    if not block.is_cached:
        return f"each request takes {tokens(block.written)} tokens more, {_price(block.cost)}"
    if not block.written:
        return "the next request has nothing to write again"
    return f"the next request writes up to {tokens(block.written)} tokens again, {_price(block.cost)}"


def details_of(block: Compaction) -> tuple[tuple[Weight, str], ...]:
    """What is behind the line: why, by whom, and what became of each part, a line each."""
    return tuple(_details(block))


def _details(block: Compaction) -> Iterator[tuple[Weight, str]]:
    yield "head", f"{REASONS[block.cause]} · {block.before_messages} → {counted(block.after_messages, 'message')}"
    if block.price:
        yield "head", _paid_and_saved(block.price)
    if block.model:
        yield "head", f"summary by {block.model} · {dollars(block.cost)}"
    for failure in block.failures:
        yield "head", failure
    yield from fates_of(block.items)
    yield "head", BACK


def _paid_and_saved(price: "Price") -> str:
    had_cost, costs = f"{price.rent:,}", f"{price.cost:,} (in fresh input)"
    if price.dollar is not None:
        had_cost, costs = dollars(price.rent * price.dollar), dollars(price.cost * price.dollar)
    return f"{price.removed:,} tokens left the view: to keep them had cost {had_cost}, to take them out costs {costs}"


def fates_of(items: Sequence["ReceiptItem"]) -> Iterator[tuple[Weight, str]]:
    """What became of each part, those that share a fate together."""
    items = sorted(items, key=lambda item: ORDER.index(item.fate))
    for (fate, why), group in groupby(items, key=lambda item: (item.fate, item.why)):
        found = tuple(group)
        yield "head", f"{fate}, {sum(item.tokens for item in found):,} tokens: {why}"
        yield from _listed(found)


def _listed(items: "Sequence[ReceiptItem]") -> Iterator[tuple[Weight, str]]:
    for item in items[:MOST]:
        yield "item", f"{item.tokens:>8,}  {item.item}"
    if len(items) > MOST:
        yield "item", f"{'…':>8}  {len(items) - MOST} more"
