"""Events about the view (rewrites, manual edits, prices, receipts), the provider's cache and a turn's file changes.
Plain data."""

from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

BreakCause: TypeAlias = Literal["ttl expired", "model switched", "tools changed", "system changed", "unknown"]
"""The probable reason for a cache miss."""

Cause: TypeAlias = Literal["full", "asked", "background", "overflow", "rent", "cold", "budget", "pictures"]
"""Why a view is rewritten. `full`: it is too large before a request; `background`: it is too large between turns;
`asked`: the user or the model asked for it; `overflow`: the provider rejected the request as too large; `rent`:
carrying the content has cost as much as a rewrite; `cold`: nothing is cached, so a rewrite costs almost nothing;
`budget`: outputs exceed their budget; `pictures`: the provider rejected an image."""

Act: TypeAlias = Literal["pin", "unpin", "evict", "offload", "summarise", "summarise_before", "defer", "offer"]
"""Manual view edits: pin or unpin; replace with a line, a preview or a model's summary; summarise an item and
everything before it; keep tools out of requests, or offer them again."""


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """A compaction has started."""

    used: int


@dataclass(frozen=True, slots=True)
class ReceiptItem:
    """What happened to one part of the view. Plain data, not an event."""

    item: str
    fate: Literal["kept", "cut", "summarised", "masked", "dropped", "deferred"]
    tokens: int
    """Tokens that the part took before the rewrite."""
    why: str


@dataclass(frozen=True, slots=True)
class Price:
    """Cost and savings of a rewrite, in tokens. Plain data, not an event."""

    removed: int
    """Tokens removed from the view."""
    behind: int
    """Tokens after the first changed byte. They must be written to the cache again."""
    cost: int
    """One-time cost, in fresh input tokens."""
    rent: int
    """Cost of having sent the removable content in every request since the last rewrite, in fresh input tokens."""
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
    """The strategies that took effect, in order; empty if none could save anything."""
    cause: Cause = "asked"
    receipt: tuple[ReceiptItem, ...] = ()
    price: Price | None = None
    """Cost and savings of the rewrite. They are also its reason, unless `cause` names another one."""
    model: str = ""
    """The model that wrote the summary; empty if there is no summary."""
    cost: float | None = 0.0
    """Cost of all requests for a summary, including unused ones, in US dollars. None if a price is unknown."""


@dataclass(frozen=True, slots=True)
class NothingCompacted:
    """A compaction has ended without a change: no summary was usable, nothing would have become smaller, or it was
    interrupted."""


@dataclass(frozen=True, slots=True)
class RewriteUndone:
    """The user has undone the last rewrite. The previous view is restored; messages added since then are kept."""

    before_tokens: int
    after_tokens: int
    written: int = 0
    """Tokens that the next request might have to write to the provider's cache again."""
    cost: float | None = None
    """Cost of writing these tokens, in US dollars; None if the price is unknown."""
    effective: int = 0
    """Tokens available to a request."""
    is_cached: bool = True
    """False if the provider has no cache. `written` is then the number of tokens by which the next request grows."""


@dataclass(frozen=True, slots=True)
class BroughtBack:
    """The user has restored content to the view, at the end of the conversation."""

    ref: str
    tokens: int
    is_whole: bool = True
    used: int = 0
    """Estimated tokens of the next request, with this content."""
    effective: int = 0
    """Tokens available to a request."""
    cost: float | None = None
    """Cost of sending the content the first time, in US dollars; None if the price is unknown."""


@dataclass(frozen=True, slots=True)
class ViewChanged:
    """The user has edited the view. The removed content remains stored."""

    act: Act
    name: str
    """Reference of the item, or name of the tool or server."""
    what: str
    before_tokens: int
    after_tokens: int
    effective: int
    """Tokens available to a request."""
    price: Price | None = None
    """Cost and savings; None if the change affects only content that was never sent."""
    cost: float | None = 0.0
    """Cost of the request for a summary, in US dollars; None if the price is unknown."""


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """A model returned no usable summary; the next strategy is tried."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class PrefixDrifted:
    """A request unexpectedly begins differently from the previous one. This is a bug in this program, and the
    provider's cache cannot be used."""

    where: str
    """Where the first difference is: `model`, `settings`, `system`, `tools` or `message N`."""


@dataclass(frozen=True, slots=True)
class PrefixRenewed:
    """A session's request begins differently after a restart or a failed turn, so nothing can be read from the
    provider's cache."""

    reasons: tuple[str, ...]
    """`model`, `settings`, `system (AGENT.md)`, `tools` or `messages`."""


@dataclass(frozen=True, slots=True)
class CacheBroken:
    """A provider read far less from its cache than the previous request had left in it."""

    cause: BreakCause
    expected: int
    """Tokens that should have been read from the cache."""
    read: int


CacheEvent: TypeAlias = PrefixDrifted | PrefixRenewed | CacheBroken


@dataclass(frozen=True, slots=True)
class FilesChanged:
    """The turn's file changes that can be reverted."""

    files: tuple[str, ...]
    """Relative to the working folder, or absolute if outside it."""
    uncovered: str = ""
    """Why changes made by commands are not included; empty if they are."""
    added: int = 0
    """Number of added lines."""
    removed: int = 0
