"""Compaction receipts as transcript blocks: a line and its details."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from rich.cells import cell_len

from ebbtide.agent import compaction
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.numbers import format_dollars, format_tokens
from ebbtide.tui.text.sanitise import sanitise_line

if TYPE_CHECKING:  # event modules load only after the first paint
    from ebbtide.agent.compaction.edit_cost import ViewEditPlan
    from ebbtide.agent.compaction.view_edits import Refusal
    from ebbtide.agent.events.view import (
        Act,
        Cause,
        CompactionFailed,
        ContextCompacted,
        Price,
        ReceiptItem,
        RewriteUndone,
        ViewChanged,
    )

ACTION_OUTCOMES: dict["Act", str] = {
    "pin": "is pinned: it stays in context",
    "unpin": "is no longer pinned",
    "evict": "was removed from context; one line remains",
    "offload": "is cut to head and tail",
    "summarise": "was replaced by a summary",
    "summarise_before": "and everything before it were summarised",
    "defer": "is disabled; the model can find it with `tool_search`",
    "offer": "is enabled again",
}


def edit_proposal(plan: "ViewEditPlan | Refusal", dollars_per_token: float | None) -> str:
    """Say in one line what a context action would do and cost. `dollars_per_token`: price of uncached input; None if
    unknown."""
    if isinstance(plan, compaction.view_edits.Refusal):
        return sanitise_line(plan.reason)
    return sanitise_line(
        f"{ACTION_TEMPLATES[plan.act].format(plan.name)}: {', '.join(_effects(plan, dollars_per_token))}"
    )


def _effects(plan: "ViewEditPlan", dollars_per_token: float | None) -> list[str]:
    if not plan.is_rewrite:
        return ["costs nothing, no sent request changes"]
    approximation = "about " if plan.asks_model else ""
    size_text = (
        f"frees {approximation}{format_tokens(plan.freed_tokens)} tokens"
        if plan.freed_tokens >= 0
        else f"adds {format_tokens(-plan.freed_tokens)} tokens"
    )
    effects = [
        size_text,
        f"costs {price_text(plan.cost, dollars_per_token)} now" if plan.cost > 0 else "costs nothing now",
    ]
    if plan.cost > 0 and plan.freed_tokens > 0:
        break_even = plan.break_even_requests
        effects.append(
            f"pays off after {pluralize(break_even, 'request')}" if break_even is not None else "saves space, not money"
        )
    return effects


def price_text(cost: float, dollars_per_token: float | None) -> str:
    """Format an amount in US dollars or, if the price is unknown, in tokens of uncached input."""
    return (
        f"{format_tokens(round(cost))} fresh tokens"
        if dollars_per_token is None
        else format_dollars(cost * dollars_per_token)
    )


def view_change_text(event: "ViewChanged") -> str:
    """Say in one line what a context action has done."""
    message = f"`{event.name}` {ACTION_OUTCOMES[event.act]}"
    if event.before_tokens != event.after_tokens:
        message += f" ({format_tokens(event.before_tokens)} → {format_tokens(event.after_tokens)} tokens)"
    return sanitise_line(message)


RECEIPT_UNDO_HINT = "press `u` on this block, or type `/context undo`, to undo this"

DetailKind: TypeAlias = Literal["head", "item"]

MAX_LISTED_ITEMS = 40
"""Maximum number of items listed per outcome."""

STATUS_ORDER = ("summarised", "dropped", "masked", "cut", "deferred", "kept")
STATUS_NAMES = {"masked": "one line each"}
"""Clearer names for some outcomes. Other outcomes are shown as they are."""
STRATEGY_NAMES = {
    "mask": "older outputs as one line each",
    "mask_all": "all outputs as one line each",
    "chunks": "summarised in pieces",
    "ledger": "key facts kept, no model summary",
    "attachments": "attachments shortened",
    "drop_older_turns": "older half dropped",
    "keep_last_message": "only your last message and the newest step kept",
    "pictures": "images removed",
    "cut_to_share": "new outputs cut to their share",
    "cut_to_room": "new outputs cut to the remaining space",
    "cut_to_minimum": "new outputs cut as far as possible",
    "mask_unseen": "new outputs as one line each",
    "drop_unseen_step": "newest step removed, its outputs listed",
    "shorten_text": "your long messages shortened",
    "tools": "tools deferred",
}
"""Clearer names for strategies. Unknown strategies are shown as they are."""
ACTION_TEMPLATES: dict["Act", str] = {
    "pin": "pin {}",
    "unpin": "unpin {}",
    "evict": "remove {} from context",
    "offload": "keep head and tail of {}",
    "summarise": "summarise {}",
    "summarise_before": "summarise everything up to {}",
    "defer": "disable {}",
    "offer": "enable {}",
}
"""Descriptions of manual context actions. `{}` stands for the item."""
CAUSE_TEXTS: dict["Cause", str] = {
    "full": "the window was full",
    "background": "the window was full between turns",
    "asked": "requested",
    "overflow": "the provider rejected the request as too large",
    "rent": "it saves money",
    "budget": "all outputs together exceeded their budget",
    "pictures": "the provider rejected an image",
    "cold": "the provider's cache had expired, so it cost almost nothing",
}


@dataclass(frozen=True, slots=True)
class RunningCompaction:
    """The block of a compaction in progress."""

    tokens: int
    failures: tuple[str, ...] = ()
    """Why summaries could not be used, one sentence each."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """The block of a finished compaction."""

    event: "ContextCompacted"
    failures: tuple[str, ...] = ()
    """Why summaries could not be used, one sentence each."""


@dataclass(frozen=True, slots=True)
class UndoneCompaction:
    """The block of a compaction that was undone."""

    event: "RewriteUndone"


def summary_failure_text(event: "CompactionFailed") -> str:
    return f"summary by {event.model} rejected: {event.reason}"


def strategy_names(strategies: Sequence[str]) -> tuple[str, ...]:
    """Describe strategies, and manual actions such as `evict(r1)`."""
    return tuple(map(_strategy_name, strategies))


def _strategy_name(strategy: str) -> str:
    act, parenthesis, item = strategy.removesuffix(")").partition("(")
    if not parenthesis:
        return STRATEGY_NAMES.get(strategy, strategy)
    return next((template.format(item) for name, template in ACTION_TEMPLATES.items() if name == act), strategy)


def receipt_title(block: RunningCompaction | Compaction | UndoneCompaction) -> str:
    """Get the line that is shown even if the block is collapsed."""
    match block:
        case UndoneCompaction(event):
            sizes = f"undone: {event.before_tokens:,} → {event.after_tokens:,} tokens"
            return f"{sizes} · {undo_price_text(event)}"
        case RunningCompaction(tokens=token_count, failures=failures):
            return f"compacting {token_count:,} tokens …" + (f" · {failures[-1]}" if failures else "")
        case Compaction(event, failures):
            sizes = f"−{format_tokens(event.before_tokens - event.after_tokens)} tokens"
            if event.before_messages != event.after_messages:
                sizes = f"{event.before_messages} → {pluralize(event.after_messages, 'message')}, {sizes}"
            return f"compacted: {sizes}" + (f" · {_dollar_text(event.cost)}" if event.model or failures else "")


def _dollar_text(cost: float | None) -> str:
    return "price unknown" if cost is None else format_dollars(cost)


def undo_price_text(event: "RewriteUndone") -> str:
    """Say how much undoing a compaction adds to the cost of the next request."""
    if not event.is_cached:
        return f"each request grows by {format_tokens(event.written)} tokens, {_dollar_text(event.cost)}"
    if not event.written:
        return "no extra cost for the next request"
    return f"the next request rewrites up to {format_tokens(event.written)} cached tokens, {_dollar_text(event.cost)}"


def receipt_hints(title: str, width: int) -> str:
    """Get the hints that fit behind the title of a collapsed receipt."""
    hints = ""
    for hint in ("Enter for details", "/context undo"):
        if cell_len(title) + cell_len(hints) + cell_len(hint) + 3 <= width:
            hints += f" · {hint}"
    return hints


def receipt_details(block: Compaction) -> tuple[tuple[DetailKind, str], ...]:
    """Format the details, one per line: reason, sizes, means, model, and what happened to each part."""
    return tuple(_detail_lines(block))


def _detail_lines(block: Compaction) -> Iterator[tuple[DetailKind, str]]:
    event = block.event
    yield "head", f"{CAUSE_TEXTS[event.cause]} · {event.before_tokens:,} → {event.after_tokens:,} tokens"
    if event.strategies:
        yield "head", ", ".join(strategy_names(event.strategies))
    if event.price:
        yield "head", _cost_and_saving(event.price)
    if event.model:
        yield "head", f"summary by {event.model} · {format_dollars(event.cost)}"
    for failure in block.failures:
        yield "head", failure
    yield from receipt_item_lines(event.receipt)
    yield "head", RECEIPT_UNDO_HINT


def _cost_and_saving(price: "Price") -> str:
    cost_of_keeping, cost_of_removing = f"{price.rent:,}", f"{price.cost:,} (in fresh input)"
    if price.dollar is not None:
        cost_of_keeping = format_dollars(price.rent * price.dollar)
        cost_of_removing = format_dollars(price.cost * price.dollar)
    return (
        f"{price.removed:,} tokens removed: keeping them would have cost {cost_of_keeping}, removing them "
        f"costs {cost_of_removing}"
    )


def receipt_item_lines(items: Sequence["ReceiptItem"]) -> Iterator[tuple[DetailKind, str]]:
    """Say what happened to each part, grouping the parts by outcome."""
    items = sorted(items, key=lambda item: STATUS_ORDER.index(item.fate))
    for (status, why), group in groupby(items, key=lambda item: (item.fate, item.why)):
        status_items = tuple(group)
        yield "head", f"{STATUS_NAMES.get(status, status)}, {sum(item.tokens for item in status_items):,} tokens: {why}"
        yield from _item_lines(status_items)


def _item_lines(items: "Sequence[ReceiptItem]") -> Iterator[tuple[DetailKind, str]]:
    for item in items[:MAX_LISTED_ITEMS]:
        yield "item", f"{item.tokens:>8,}  {item.item}"
    if len(items) > MAX_LISTED_ITEMS:
        yield "item", f"{'…':>8}  {len(items) - MAX_LISTED_ITEMS} more"
