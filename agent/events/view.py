"""What happens to the view of a session and to what providers have cached of it: rewrites, acts of the user, their
prices and receipts; and what a turn changed in files. Plain data."""

from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

BreakCause: TypeAlias = Literal["ttl expired", "model switched", "tools changed", "system changed", "unknown"]
"""Why a provider's cache was probably not read."""

Cause: TypeAlias = Literal["full", "asked", "background", "overflow", "rent", "cold", "budget", "pictures"]
"""Why a view is rewritten: over the trigger before a request or between turns, because somebody asked for it, because
the provider found the request too large, because it saves more than it costs, or because nothing is cached any more, so
that it costs next to nothing; or because outputs together may take only so much."""

Act: TypeAlias = Literal["pin", "unpin", "evict", "offload", "summarise", "summarise_before", "defer", "offer"]
"""What the user does to the view by hand: something stays whatever leaves; a line, the ends or a model's summary stand
for it; a summary stands for it and all before it; tools are kept out of requests, or let in again."""


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """A summary is being made."""

    used: int


@dataclass(frozen=True, slots=True)
class ReceiptItem:
    """What became of one part of the view. Not an event, but plain data all the same."""

    item: str
    fate: Literal["kept", "cut", "summarised", "masked", "dropped", "deferred"]
    tokens: int
    """What it took before."""
    why: str


@dataclass(frozen=True, slots=True)
class Price:
    """What a rewrite costs and saves, in tokens. Not an event, but plain data all the same."""

    removed: int
    """What leaves the view."""
    behind: int
    """What stays behind the first changed byte, and is written to the cache again."""
    cost: int
    """What it costs once, in tokens of fresh input."""
    rent: int
    """What has been paid, in tokens of fresh input, since the last rewrite for sending what could have left."""
    dollar: float | None = None
    """US dollars of a token of fresh input; None when that is not known, or nothing."""


@dataclass(frozen=True, slots=True)
class ContextCompacted:
    """The view was rewritten. What left it is kept in the session's log."""

    before_tokens: int
    after_tokens: int
    before_messages: int
    after_messages: int
    strategies: tuple[str, ...]
    """What ran, in order; empty when nothing could be gained."""
    cause: Cause = "asked"
    receipt: tuple[ReceiptItem, ...] = ()
    price: Price | None = None
    """What a price decided by, or would have."""
    model: str = ""
    """Who wrote the summary; empty when nobody did."""
    cost: float | None = 0.0
    """US dollars of the requests for a summary, also of those that were not used; None when a price is not known."""


@dataclass(frozen=True, slots=True)
class NothingCompacted:
    """A compaction is over that has changed nothing: no summary could be used, nothing would have become smaller, or it
    was interrupted."""


@dataclass(frozen=True, slots=True)
class RewriteUndone:
    """The user took back the last rewrite: the view from before it is shown again, with all that was said since."""

    before_tokens: int
    after_tokens: int
    written: int = 0
    """Tokens that the next request may have to write to the provider's cache again."""
    cost: float | None = None
    """US dollars that this takes; None when the price is not known."""
    effective: int = 0
    """What a request may take of the model's window."""
    is_cached: bool = True
    """False where the provider keeps no cache: then `written` is what the next request takes more."""


@dataclass(frozen=True, slots=True)
class BroughtBack:
    """The user brought something that had left the view back to its end."""

    ref: str
    tokens: int
    is_whole: bool = True
    used: int = 0
    """Tokens that the next request is estimated to take with it."""
    effective: int = 0
    """What a request may take of the model's window."""
    cost: float | None = None
    """US dollars that sending it for the first time takes; None when the price is not known."""


@dataclass(frozen=True, slots=True)
class ViewChanged:
    """The user changed by hand what the model is shown. Nothing of it is lost."""

    act: Act
    name: str
    """The reference of what was meant, or the name of a tool or a server."""
    what: str
    before_tokens: int
    after_tokens: int
    effective: int
    """What a request may take of the model's window."""
    price: Price | None = None
    """None where nothing changed that was sent before."""
    cost: float | None = 0.0
    """US dollars of a request for a summary; None when a price is not known."""


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """A model gave no summary that could be used; the next strategy takes its place."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class PrefixDrifted:
    """A request does not begin as the one before it did, and nothing said that it would: a mistake in this program,
    which costs the provider's cache."""

    where: str
    """`model`, `settings`, `system`, `tools` or `message N`: the first difference."""


@dataclass(frozen=True, slots=True)
class PrefixRenewed:
    """A session that goes on sends another beginning than before the program was started anew, or before a turn failed,
    so nothing is read from the provider's cache."""

    reasons: tuple[str, ...]
    """`model`, `settings`, `system (AGENT.md)`, `tools` or `messages`."""


@dataclass(frozen=True, slots=True)
class CacheBroken:
    """A provider read much less from its cache than the request before had left there."""

    cause: BreakCause
    expected: int
    """Tokens."""
    read: int


CacheEvent: TypeAlias = PrefixDrifted | PrefixRenewed | CacheBroken


@dataclass(frozen=True, slots=True)
class FilesChanged:
    """What the turn changed in files, as far as it can be taken back."""

    files: tuple[str, ...]
    """Relative to the working folder, or absolute where they lie outside it."""
    uncovered: str = ""
    """Why what commands changed is not among it, where that is so."""
    added: int = 0
    """Lines of texts."""
    removed: int = 0
