"""Reports the effect of commands that edit files in place, which print nothing even if they found nothing to change."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from ebbtide.tools.base import AppliedChange
from ebbtide.tools.files.change import look_content
from ebbtide.tools.files.paths import display
from ebbtide.tools.files.syntax import broken_syntax

FOUND_NOTHING = "what it looks for is not there as written"
MAX_COMPARED_FILES = 20
"""Maximum number of files compared."""


def contents_of(folder: Path, names: Iterable[str]) -> Mapping[Path, bytes]:
    """Return the contents of regular files that are not large, or none if there are too many."""
    found = {path: content for name in names if (content := look_content(path := folder / name)) is not None}
    return found if len(found) <= MAX_COMPARED_FILES else {}


def edits_note(before: Mapping[Path, bytes], root: Path) -> str:
    """Return a note if none of the files changed, or if one no longer parses; otherwise an empty string."""
    after = {path: look_content(path) for path in before}
    changed = [AppliedChange(path, before[path], now) for path, now in after.items() if now != before[path]]
    if changed:
        return broken_syntax(changed, root)
    names = ", ".join(f"`{display(path, root)}`" for path in before)
    return f"it changed nothing in {names}: {FOUND_NOTHING}"
