"""Request usage and context rewrites, as data classes and as database rows."""

from dataclasses import field
from typing import TypeAlias

from ebbtide.agent.events.session import ModelSwitched, ReplyFinished
from ebbtide.agent.events.view import ContextCompacted, PrefixRenewed, RewriteUndone, ViewChanged
from ebbtide.agent.messages import Usage
from ebbtide.store.session_rows import RewriteRow, UsageRow
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class SessionUsage:
    """The total usage of a session."""

    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    """US dollars; None if the price of any request is unknown."""

    def plus(self, usage: Usage, cost: float | None) -> "SessionUsage":
        return SessionUsage(self.usage + usage, None if cost is None or self.cost is None else self.cost + cost)


@dataclass(frozen=True, slots=True)
class RequestUsage:
    """The usage of one request."""

    purpose: str
    model: str
    usage: Usage
    cost: float | None
    at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A change to context that earlier requests had already sent."""

    reason: str
    strategies: tuple[str, ...]
    before: int
    """Tokens before the rewrite."""
    after: int
    cost: float | None
    """Cost in US dollars of the summary or, without a summary, of writing the remaining context to the cache again.
    None if unknown."""
    at: float
    requests: int
    """Number of requests that the session had made, including those for the summary."""


_STRATEGY_BY_FORMER_NAME = {
    "share": "cut_to_share", "cut": "cut_to_room", "least": "cut_to_minimum", "drop": "drop_older_turns",
    "last": "keep_last_message", "references": "mask_unseen", "step": "drop_unseen_step", "words": "shorten_text",
}  # fmt: skip
"""Maps the names that earlier versions stored to today's names of the strategies."""
RewriteEvent: TypeAlias = ContextCompacted | RewriteUndone | ViewChanged | ModelSwitched | PrefixRenewed
"""Events that change the beginning of all later requests."""


def usage_row(reply: ReplyFinished, now: float) -> UsageRow:
    """Return the row for a request. `now`: Unix seconds."""
    usage = reply.usage
    return UsageRow(
        reply.model, reply.purpose, usage.input, usage.cache_read, usage.cache_write, usage.output, reply.cost, now
    )


def rewrite_row(event: RewriteEvent, position: int, now: float) -> RewriteRow | None:
    """Return the row of a rewrite; None if nothing was rewritten. `position`: position of the next message. `now`: Unix
    seconds."""
    match event:
        case ContextCompacted(
            before_tokens=before, after_tokens=tokens_after, strategies=strategies, cost=cost, price=price
        ):
            if cost is not None and not event.model and price is not None and price.dollar is not None:
                cost += price.cost * price.dollar
            return (
                RewriteRow(position, event.cause, " ".join(strategies), before, tokens_after, cost, now)
                if strategies
                else None
            )
        case RewriteUndone(before_tokens=before, after_tokens=tokens_after):
            return RewriteRow(position, "undone", "undo", before, tokens_after, 0.0, now)
        case ViewChanged(before_tokens=before, after_tokens=tokens_after):
            description = f"{event.act}({'_'.join(event.name.split())})"
            row = RewriteRow(position, "by hand", description, before, tokens_after, event.cost, now)
            return row if event.price is not None else None
        case ModelSwitched(tokens=tokens):
            return RewriteRow(position, "model", "", tokens, tokens, 0.0, now)
        case PrefixRenewed(reasons=reasons):
            return RewriteRow(position, ", ".join(reasons), "", 0, 0, 0.0, now)


def request_usage_from_row(row: UsageRow) -> RequestUsage:
    usage = Usage(row.input, row.cache_read, row.cache_write, row.output)
    return RequestUsage(row.purpose, row.model, usage, row.cost, row.created)


def rewrite_from_row(row: RewriteRow) -> Rewrite:
    strategies = tuple(_STRATEGY_BY_FORMER_NAME.get(name, name) for name in row.strategies.split())
    return Rewrite(row.reason, strategies, row.before, row.after, row.cost, row.created, row.requests)
