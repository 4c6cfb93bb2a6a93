"""Files that were changed, as values."""

from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

ChangeScope: TypeAlias = Literal["turn", "session"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file, as it was and as it is now."""

    name: str
    before: bytes | None = None
    """None when there was no file, or it is not known."""
    now: bytes | None = None
    """None when there is no file, or it cannot be shown."""
    unknown: str = ""
    """Why the two cannot be compared, when that is so."""
    by_tool: bool = True
    """A tool of the session changed it; otherwise only git knows of it."""
    note: str = ""
    """What else there is to know of it."""


@dataclass(frozen=True, slots=True)
class FileChanges:
    scope: ChangeScope
    files: tuple[FileChange, ...] = ()
    notes: tuple[str, ...] = ()
    """What is not known, a sentence each."""
