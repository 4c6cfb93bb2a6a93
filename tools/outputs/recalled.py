"""Queries and results of the `recall` tool. The lookup is implemented elsewhere."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.recall_scope import Scope
from ebbtide.tools.outputs.stored import StoredContent

RecalledKind: TypeAlias = Literal["user", "assistant", "output", "summary"]
KINDS: tuple[RecalledKind, ...] = ("user", "assistant", "output", "summary")


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A search of everything said in sessions. Without a query, the newest items are returned."""

    query: str = ""
    kinds: tuple[RecalledKind, ...] = ()
    """All kinds if empty."""
    tool: str = ""
    path: str = ""
    """Part of a path, or a pattern for the whole path."""
    since: float | None = None
    """In Unix seconds."""
    until: float | None = None
    scope: Scope | None = None
    """None for the widest scope allowed."""
    limit: int = 10


@dataclass(frozen=True, slots=True)
class RecalledItem:
    """One search result."""

    ref: str
    kind: RecalledKind
    where: str
    """Its session and project; empty for the current session."""
    at: float
    """In Unix seconds."""
    title: str
    excerpt: str
    tool: str = ""
    path: str = ""
    searched: int | None = None
    """Number of bytes searched, if not all."""
    size: int = 0
    """In bytes."""
    by_meaning: bool = False
    """Whether it was found by meaning, without containing the words."""


@dataclass(frozen=True, slots=True)
class RecallResult:
    """The search results, best first."""

    found: tuple[RecalledItem, ...]
    notes: tuple[str, ...] = ()
    """Notes on the search, one sentence each."""


OnProgress: TypeAlias = Callable[[int, int], None]
"""Receives the number of messages indexed and the total."""
LookUp: TypeAlias = Callable[[RecallQuery, OnProgress], Awaitable[RecallResult]]
Fetch: TypeAlias = Callable[[str, Scope | None], Awaitable[StoredContent]]


def no_progress(done: int, total: int) -> None:
    """Ignore progress."""
