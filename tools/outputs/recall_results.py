"""Queries and results of the `recall` tool. The lookup itself is implemented elsewhere."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.recall_scope import RecallScope
from ebbtide.tools.outputs.stored_content import StoredContent

RecalledKind: TypeAlias = Literal["user", "assistant", "output", "summary"]
RECALLED_KINDS: tuple[RecalledKind, ...] = ("user", "assistant", "output", "summary")


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A search of the session history. If there is no query, the newest items are returned."""

    query: str = ""
    kinds: tuple[RecalledKind, ...] = ()
    """Kinds of items to find; empty for all kinds."""
    tool: str = ""
    path: str = ""
    """Part of a path, or a pattern that must match the full path; empty for any path."""
    since: float | None = None
    """Earliest time, in Unix seconds."""
    until: float | None = None
    scope: RecallScope | None = None
    """The scope to search; None for the widest one that is allowed."""
    limit: int = 10


@dataclass(frozen=True, slots=True)
class RecalledItem:
    """One search result."""

    ref: str
    kind: RecalledKind
    where: str
    """The session and project of the item; empty for the current session."""
    at: float
    """Time in Unix seconds."""
    title: str
    excerpt: str
    tool: str = ""
    path: str = ""
    searched: int | None = None
    """Number of bytes that were searched; None if all were."""
    size: int = 0
    """Size in bytes."""
    by_meaning: bool = False
    """Whether it was found by meaning, without containing the query's words."""


@dataclass(frozen=True, slots=True)
class RecallResult:
    """The search results, best first."""

    items: tuple[RecalledItem, ...]
    notes: tuple[str, ...] = ()
    """Notes on the search, one sentence each."""


SearchHistory: TypeAlias = Callable[[RecallQuery], Awaitable[RecallResult]]
FetchStoredContent: TypeAlias = Callable[[str, RecallScope | None], Awaitable[StoredContent]]


def no_progress(indexed_count: int, total: int) -> None:
    """Ignore progress."""
