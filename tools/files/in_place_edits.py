"""Reports the effect of commands that edit files in place, because such commands print nothing even if they change
nothing."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from ebbtide.tools.base import AppliedChange
from ebbtide.tools.files.change import comparable_content
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.files.syntax import syntax_errors_note

PATTERN_NOT_FOUND = "its pattern does not occur as written"
MAX_COMPARED_FILES = 20
"""Maximum number of files compared."""


def comparable_contents(folder: Path, names: Iterable[str]) -> Mapping[Path, bytes]:
    """Return the contents of the regular files that are not large; empty if there are more than
    `MAX_COMPARED_FILES`."""
    contents = {path: content for name in names if (content := comparable_content(path := folder / name)) is not None}
    return contents if len(contents) <= MAX_COMPARED_FILES else {}


def edits_note(previous_contents: Mapping[Path, bytes], root: Path) -> str:
    """Return a note if none of the files changed, or if a changed file no longer parses; otherwise empty."""
    new_contents = {path: comparable_content(path) for path in previous_contents}
    changed = [
        AppliedChange(path, previous_contents[path], content)
        for path, content in new_contents.items()
        if content != previous_contents[path]
    ]
    if changed:
        return syntax_errors_note(changed, root)
    names = ", ".join(f"`{display_path(path, root)}`" for path in previous_contents)
    return f"it changed nothing in {names}: {PATTERN_NOT_FOUND}"
