"""Reports the effect of commands that edit files in place. Such commands print nothing, even if they changed
nothing."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from ebbtide.tools.base import AppliedChange
from ebbtide.tools.files.change import comparable_content
from ebbtide.tools.files.paths import display
from ebbtide.tools.files.syntax import syntax_errors_note

PATTERN_NOT_FOUND = "what it looks for is not there as written"
MAX_COMPARED_FILES = 20
"""Maximum number of files compared."""


def comparable_contents(folder: Path, names: Iterable[str]) -> Mapping[Path, bytes]:
    """Return the contents of regular files that are not large; empty if there are too many files."""
    found = {path: content for name in names if (content := comparable_content(path := folder / name)) is not None}
    return found if len(found) <= MAX_COMPARED_FILES else {}


def edits_note(before: Mapping[Path, bytes], root: Path) -> str:
    """Return a note if none of the files changed, or if a changed file no longer parses; otherwise an empty string."""
    after = {path: comparable_content(path) for path in before}
    changed = [AppliedChange(path, before[path], now) for path, now in after.items() if now != before[path]]
    if changed:
        return syntax_errors_note(changed, root)
    names = ", ".join(f"`{display(path, root)}`" for path in before)
    return f"it changed nothing in {names}: {PATTERN_NOT_FOUND}"
