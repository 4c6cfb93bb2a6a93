"""Adds notes about changed files that a command's output does not mention: configuration files that other programs run,
and files edited in place. Also records the files that a command showed."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from ebbtide.tools import command_runs
from ebbtide.tools.base import AppliedChange, Result, Workspace
from ebbtide.tools.command_runs.launch import CommandRun
from ebbtide.tools.command_runs.results import with_note
from ebbtide.tools.commands.named_files import files_edited_in_place
from ebbtide.tools.commands.viewers import viewed_names
from ebbtide.tools.files.autorun import autorun_reason
from ebbtide.tools.files.change import comparable_content, record_partial_views
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.files.read_write import run_exclusive
from ebbtide.tools.files.syntax import syntax_errors_note
from ebbtide.tools.lazy import regex

PATTERN_NOT_FOUND = "its pattern does not occur as written"
_IN_PLACE_EDIT = regex(r"\b(?:sed|perl|ruby|g?awk|yq)\b[^|;&\n]*\s(?:-\w*i|--in-place)")
_MAX_COMPARED_FILES = 20
"""Maximum number of files edited in place that are compared."""
_PARTLY_LISTED_FOLDERS = frozenset((".github", ".forgejo", ".gitea", ".cargo", ".bundle", ".config"))
"""Folders in which only some files are run or read automatically."""
_MAX_ENTRIES = 1_000
"""Maximum number of names examined per folder."""
_MAX_DEPTH = 3
"""Maximum number of levels below each of the given folders."""

_ConfigFileStates: TypeAlias = Mapping[str, tuple[int, int, int]]
"""Maps each path to the size, modification time in nanoseconds and inode of the file."""


@dataclass(frozen=True, slots=True)
class FilesBefore:
    """The state of files before a command runs."""

    config_files: _ConfigFileStates
    """Configuration files that other programs run or read automatically."""
    edited_contents: Mapping[Path, bytes]
    """The contents of the files that the command edits in place."""


async def read_files_before(run: CommandRun) -> FilesBefore:
    config_files = _config_file_states(run.workspace)
    may_edit_in_place = _IN_PLACE_EDIT.search(run.line) is not None
    return FilesBefore(
        config_files, await run_exclusive(lambda: _contents_edited_in_place(run)) if may_edit_in_place else {}
    )


async def note_changes(result: Result, before: FilesBefore, run: CommandRun) -> Result:
    """Return the result of a command with notes about the files that it changed."""
    workspace = run.workspace
    # an approved command may have changed any of these files
    result = with_note(result, _config_changes_note(before.config_files, workspace))
    if result.program is None or result.program.is_running:
        return result
    if workspace.is_read_only:
        note = await run_exclusive(lambda: command_runs.read_only.submodule_changes_note(run.line, workspace))
        result = with_note(result, note)
    if before.edited_contents:
        note = await run_exclusive(lambda: _edits_note(before.edited_contents, workspace.root))
        result = with_note(result, note)
    return result


async def record_viewed_files(run: CommandRun) -> None:
    """Record that the command may have shown the model the files that it names."""
    if names := viewed_names(run.line):
        await run_exclusive(lambda: record_partial_views((run.folder / name for name in names), run.workspace))


def _contents_edited_in_place(run: CommandRun) -> Mapping[Path, bytes]:
    """Return the contents of the regular files that the command edits in place, except large files. Empty if there are
    more than `_MAX_COMPARED_FILES`."""
    paths = [run.folder / name for name in files_edited_in_place(run.line)]
    contents = {path: content for path in paths if (content := comparable_content(path)) is not None}
    return contents if len(contents) <= _MAX_COMPARED_FILES else {}


def _edits_note(previous_contents: Mapping[Path, bytes], root: Path) -> str:
    """Build a note if no file changed, or if a changed file no longer parses. Empty otherwise."""
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


def _config_file_states(workspace: Workspace) -> _ConfigFileStates:
    """Return the states of the configuration files in the session's folders and in known subfolders. In `.git`, only
    hooks are included, because git's settings change with every push."""
    if workspace.is_read_only:
        return {}
    roots = workspace.sandbox.added_roots if workspace.sandbox is not None else ()
    folders = map(str, (workspace.root, *roots))
    return {path: state for folder in folders for path, state in _find_config_files(folder, folder, 0)}


def _config_changes_note(previous_states: _ConfigFileStates, workspace: Workspace) -> str:
    """Build a note that lists the changed configuration files. Empty if none changed."""
    new_states = _config_file_states(workspace)
    changed = [path for path in {**previous_states, **new_states} if previous_states.get(path) != new_states.get(path)]
    if not changed:
        return ""
    names = ", ".join(f"`{display_path(Path(path), workspace.root)}`" for path in changed[:3])
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"it changed {names}{more}, which other programs run or read automatically: say so in your answer"


def _find_config_files(folder: str, top: str, depth: int) -> Iterator[tuple[str, tuple[int, int, int]]]:
    try:
        with os.scandir(folder) as entries:
            directory_entries = [entry for entry, _ in zip(entries, range(_MAX_ENTRIES), strict=False)]
    except OSError:
        return
    folder_name = os.path.basename(folder)
    for entry in directory_entries:
        is_relevant = depth > 0 or entry.name in _PARTLY_LISTED_FOLDERS or _is_autorun_name(entry.name)
        if not is_relevant or (folder_name == ".git" and entry.name != "hooks"):
            continue
        if entry.name.endswith(".sample") and folder_name == "hooks":
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
