"""Changes to files in a turn or session."""

from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

ChangeScope: TypeAlias = Literal["turn", "session"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before and after a change."""

    name: str
    previous_content: bytes | None = None
    """Previous content; None if there was no file or its content is unknown."""
    current_content: bytes | None = None
    """Current content; None if there is no file or it cannot be shown."""
    incomparable_reason: str = ""
    """Why the two versions cannot be compared; empty if they can."""
    is_by_tool: bool = True
    """Whether a tool of the session changed it; if False, only git reports the change."""
    note: str = ""
    """A remark for the user; empty if there is none."""


@dataclass(frozen=True, slots=True)
class FileChanges:
    scope: ChangeScope
    files: tuple[FileChange, ...] = ()
    notes: tuple[str, ...] = ()
    """One sentence about each fact that could not be determined."""
