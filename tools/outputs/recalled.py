"""What the `recall` tool asks for and is told. Where it is looked up the tools do not know."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.recall_scope import Scope
from ebbtide.tools.outputs.stored import StoredContent

RecalledKind: TypeAlias = Literal["user", "assistant", "output", "summary"]
KINDS: tuple[RecalledKind, ...] = ("user", "assistant", "output", "summary")


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """What is looked for, in everything that sessions said. Without a query: the newest."""

    query: str = ""
    kinds: tuple[RecalledKind, ...] = ()
    """All when it is empty."""
    tool: str = ""
    path: str = ""
    """Part of a path, or a pattern for all of it."""
    since: float | None = None
    """Unix seconds."""
    until: float | None = None
    scope: Scope | None = None
    """As wide as is allowed when it is None."""
    limit: int = 10


@dataclass(frozen=True, slots=True)
class RecalledItem:
    """Something that was found."""

    ref: str
    kind: RecalledKind
    where: str
    """Its session and project; empty in this session."""
    at: float
    """Unix seconds."""
    title: str
    excerpt: str
    tool: str = ""
    path: str = ""
    searched: int | None = None
    """How many of its bytes were searched, when that is not all."""
    size: int = 0
    """Bytes."""
    by_meaning: bool = False
    """Whether it was found although it does not hold the words."""


@dataclass(frozen=True, slots=True)
class RecallResult:
    """What was found, the best first."""

    found: tuple[RecalledItem, ...]
    notes: tuple[str, ...] = ()
    """What whoever asked should know of how it was found, a sentence each."""


OnProgress: TypeAlias = Callable[[int, int], None]
"""Is told how many messages of how many were made ready to be searched."""
LookUp: TypeAlias = Callable[[RecallQuery, OnProgress], Awaitable[RecallResult]]
Fetch: TypeAlias = Callable[[str, Scope | None], Awaitable[StoredContent]]


def no_progress(done: int, total: int) -> None:
    """Where nobody wants to be told."""
