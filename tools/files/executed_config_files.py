"""Detects changes to configuration files that other programs run or read automatically."""

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from ebbtide.tools.files.autorun import autorun_reason
from ebbtide.tools.files.paths import display_path

ConfigFileStates: TypeAlias = Mapping[str, tuple[int, int, int]]
"""Maps each path to the size, modification time in nanoseconds and inode of the file."""

_PARTLY_LISTED_FOLDERS = frozenset((".github", ".forgejo", ".gitea", ".cargo", ".bundle", ".config"))
"""Folders of which only some files are run or read automatically."""
_MAX_ENTRIES = 1_000
"""Maximum number of names examined per folder."""
_MAX_DEPTH = 3
"""Maximum number of levels below each of the given folders."""


def read_config_file_states(folders: Iterable[str]) -> ConfigFileStates:
    """Return the states of such files in the folders and in known subfolders. In `.git`, only hooks are included,
    because git's settings change with every push."""
    return {path: state for folder in folders for path, state in _find_config_files(folder, folder, 0)}


def changes_note(previous_states: ConfigFileStates, new_states: ConfigFileStates, root: str) -> str:
    """Return a note on which files changed; empty if none did."""
    changed = [path for path in {**previous_states, **new_states} if previous_states.get(path) != new_states.get(path)]
    if not changed:
        return ""
    names = ", ".join(f"`{display_path(Path(path), Path(root))}`" for path in changed[:3])
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"it changed {names}{more}, which other programs run or read automatically: say so in your answer"


def _find_config_files(folder: str, top: str, depth: int) -> Iterator[tuple[str, tuple[int, int, int]]]:
    try:
        with os.scandir(folder) as entries:
            directory_entries = [entry for entry, _ in zip(entries, range(_MAX_ENTRIES), strict=False)]
    except OSError:
        return
    for entry in directory_entries:
        is_relevant = depth > 0 or entry.name in _PARTLY_LISTED_FOLDERS or _is_autorun_name(entry.name)
        if not is_relevant or (os.path.basename(folder) == ".git" and entry.name != "hooks"):
            continue
        if entry.name.endswith(".sample") and os.path.basename(folder) == "hooks":
            continue  # git creates sample hooks in every repository and never runs them
        try:
            if entry.is_dir(follow_symlinks=False):
                if depth < _MAX_DEPTH:
                    yield from _find_config_files(entry.path, top, depth + 1)
            elif autorun_reason(entry.path, top):
                status = entry.stat(follow_symlinks=False)
                yield entry.path, (status.st_size, status.st_mtime_ns, status.st_ino)
        except OSError:  # the file has just been deleted
            continue


@lru_cache(maxsize=4096)
def _is_autorun_name(name: str) -> bool:
    return bool(autorun_reason(f"/{name}", "/"))
