"""Events about the view and the provider's cache: rewrites, manual edits, prices and receipts; and a turn's file
changes. Plain data."""

from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

BreakCause: TypeAlias = Literal["ttl expired", "model switched", "tools changed", "system changed", "unknown"]
"""The probable reason for a cache miss."""

Cause: TypeAlias = Literal["full", "asked", "background", "overflow", "rent", "cold", "budget", "pictures"]
"""Why a view is rewritten: it exceeds the trigger before a request or between turns; on request; the provider found the
request too large; the rewrite saves more than it costs; nothing is cached, so it costs almost nothing; outputs exceed
their budget; or the provider rejected a picture."""

Act: TypeAlias = Literal["pin", "unpin", "evict", "offload", "summarise", "summarise_before", "defer", "offer"]
"""Manual view edits: pin or unpin; replace with a line, a preview or a model's summary; summarise an item and
everything before it; keep tools out of requests, or offer them again."""


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """A compaction has started."""

    used: int


@dataclass(frozen=True, slots=True)
class ReceiptItem:
    """What became of one part of the view. Plain data, not an event."""

    item: str
    fate: Literal["kept", "cut", "summarised", "masked", "dropped", "deferred"]
    tokens: int
    """Tokens it took before."""
    why: str


@dataclass(frozen=True, slots=True)
class Price:
    """Cost and savings of a rewrite, in tokens. Plain data, not an event."""

    removed: int
    """Tokens removed from the view."""
    behind: int
    """Tokens after the first changed byte, which are written to the cache again."""
    cost: int
    """One-time cost, in fresh input tokens."""
    rent: int
    """Cost, in fresh input tokens, of sending the removable content since the last rewrite."""
    dollar: float | None = None
    """US dollars per fresh input token; None if unknown or zero."""


@dataclass(frozen=True, slots=True)
class ContextCompacted:
    """The view was rewritten. What was removed stays in the session's log."""

    before_tokens: int
    after_tokens: int
    before_messages: int
    after_messages: int
    strategies: tuple[str, ...]
    """The strategies that ran, in order; empty if nothing could be gained."""
    cause: Cause = "asked"
    receipt: tuple[ReceiptItem, ...] = ()
    price: Price | None = None
    """The price on which it was decided, or its price if it was not."""
    model: str = ""
    """The model that wrote the summary; empty without one."""
    cost: float | None = 0.0
    """US dollars of all requests for a summary, including unused ones; None if a price is unknown."""


@dataclass(frozen=True, slots=True)
class NothingCompacted:
    """A compaction has ended without a change: no summary was usable, nothing would have become smaller, or it was
    interrupted."""


@dataclass(frozen=True, slots=True)
class RewriteUndone:
    """The user has undone the last rewrite: the previous view is restored, with everything said since."""

    before_tokens: int
    after_tokens: int
    written: int = 0
    """Tokens that the next request may have to write to the provider's cache again."""
    cost: float | None = None
    """US dollars for that; None if the price is unknown."""
    effective: int = 0
    """Tokens available to a request."""
    is_cached: bool = True
    """False if the provider has no cache: `written` is then the additional tokens of the next request."""


@dataclass(frozen=True, slots=True)
class BroughtBack:
    """The user has brought content back into view, at its end."""

    ref: str
    tokens: int
    is_whole: bool = True
    used: int = 0
    """Estimated tokens of the next request with it."""
    effective: int = 0
    """Tokens available to a request."""
    cost: float | None = None
    """US dollars for sending it the first time; None if the price is unknown."""


@dataclass(frozen=True, slots=True)
class ViewChanged:
    """The user has edited the view. Nothing is lost."""

    act: Act
    name: str
    """The reference of the item, or the name of a tool or server."""
    what: str
    before_tokens: int
    after_tokens: int
    effective: int
    """Tokens available to a request."""
    price: Price | None = None
    """None if nothing changed that was sent before."""
    cost: float | None = 0.0
    """US dollars of a request for a summary; None if a price is unknown."""


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """A model returned no usable summary; the next strategy is tried."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class PrefixDrifted:
    """A request unexpectedly begins differently from the previous one: a bug in this program, which costs the
    provider's cache."""

    where: str
    """The first difference: `model`, `settings`, `system`, `tools` or `message N`."""


@dataclass(frozen=True, slots=True)
class PrefixRenewed:
    """After a restart, or after a failed turn, a session's request begins differently, so nothing is read from the
    provider's cache."""

    reasons: tuple[str, ...]
    """`model`, `settings`, `system (AGENT.md)`, `tools` or `messages`."""


@dataclass(frozen=True, slots=True)
class CacheBroken:
    """A provider read far less from its cache than the previous request had left there."""

    cause: BreakCause
    expected: int
    """Tokens."""
    read: int


CacheEvent: TypeAlias = PrefixDrifted | PrefixRenewed | CacheBroken


@dataclass(frozen=True, slots=True)
class FilesChanged:
    """The turn's file changes that can be reverted."""

    files: tuple[str, ...]
    """Relative to the working folder, or absolute if outside it."""
    uncovered: str = ""
    """Why changes made by commands are not included, if so."""
    added: int = 0
    """Lines of text."""
    removed: int = 0
