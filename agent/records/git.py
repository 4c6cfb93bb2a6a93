"""Asks git which files changed, without running any code from the repository."""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebbtide.agent.records.file_change import FileChange
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.files.read_write import read_bytes_if_exists
from ebbtide.tools.process.git import SAFE_SETTINGS, GitError, filter_disabling_settings, find_program_outside, run_git
from ebbtide.tools.search.walk import is_generated

MAX_EXAMINED_FILES = 500
"""Maximum number of changed files that are examined."""
MAX_COMPARED_BYTES = 8_000_000
"""Largest file that is compared, in bytes."""

_NULL_OBJECT_ID = re.compile("0+")


@dataclass(frozen=True, slots=True)
class GitChanges:
    files: tuple[FileChange, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _StatusEntry:
    path: str
    """Path relative to the top of the work tree."""
    blob: str
    """Blob id of the file in the last commit; empty if the commit does not contain the file."""
    mode: str
    """Mode of the file in the last commit, such as `100644`; empty if the commit does not contain the file."""


def find_git_changes(root: Path, known_paths: Collection[Path], since: float) -> GitChanges:
    """Return the files below a folder that differ from the last commit and were changed after `since` (Unix seconds).
    Files in `known_paths` are skipped."""
    git = find_program_outside("git", root)
    if git is None:
        return GitChanges(notes=("git not found: changes made by commands are unknown",))
    try:
        settings = {**SAFE_SETTINGS, **filter_disabling_settings(git, root)}
        work_tree_folder = Path(
            os.fsdecode(run_git(git, root, settings, "rev-parse", "--show-toplevel").removesuffix(b"\n"))
        )
        status = run_git(
            git, root, settings, "status", "--porcelain=v2", "-z", "--untracked-files=all",
            "--ignore-submodules=all", "--no-renames", "--", ".",
        )  # fmt: skip
        entries = [
            entry
            for entry in _parse_status(status)
            if _should_report(entry, work_tree_folder / entry.path, root, known_paths)
        ]
        recent_entries = [entry for entry in entries if _change_time(work_tree_folder / entry.path) >= since]
        blobs = _read_blobs(
            git, root, settings, [entry.blob for entry in recent_entries[:MAX_EXAMINED_FILES] if entry.blob]
        )
    except GitError as error:
        return GitChanges(notes=(f"changes made by commands are unknown: {error}",))
    notes = ["git compares with the last commit, which may be older than this session"]
    if since:
        notes = ["other files: guessed from modification times"]
    if len(recent_entries) > MAX_EXAMINED_FILES:
        notes.append(
            f"{len(recent_entries) - MAX_EXAMINED_FILES:,} more files differ from the last commit and are not listed"
        )
    files = tuple(
        _file_change(entry, work_tree_folder / entry.path, root, blobs) for entry in recent_entries[:MAX_EXAMINED_FILES]
    )
    return GitChanges(files, tuple(notes) if files else ())


def _should_report(entry: _StatusEntry, path: Path, root: Path, known_paths: Collection[Path]) -> bool:
    is_untracked = not entry.blob and not entry.mode
    return path not in known_paths and path.is_relative_to(root) and not (is_untracked and is_generated(entry.path))


def _parse_status(status: bytes) -> Iterator[_StatusEntry]:
    """Yield the entries of `git status --porcelain=v2 -z`, without those in submodules."""
    for line in os.fsdecode(status).split("\0"):
        match line[:2]:
            case "1 ":
                _, _, submodule, mode, _, _, blob, _, path = line.split(" ", 8)
                if submodule[:1] != "S":
                    is_new = _NULL_OBJECT_ID.fullmatch(blob) is not None
                    yield _StatusEntry(path, "" if is_new else blob, "" if is_new else mode)
            case "u ":
                yield _StatusEntry(line.split(" ", 10)[10], line.split(" ", 10)[8], "100644")
            case "? ":
                yield _StatusEntry(line[2:], "", "")
            case _:
                pass


def _change_time(path: Path) -> float:
    """Return when the file last changed. For a deleted file, use the time at which its folder last changed. If neither
    is known, return infinity, so that the file counts as changed."""
    for existing_path in (path, path.parent):
        try:
            status = os.lstat(existing_path)
        except OSError:
            continue
        return max(status.st_mtime, status.st_ctime)
    return float("inf")


def _read_blobs(
    git: str, root: Path, settings: Mapping[str, str], blob_ids: Sequence[str]
) -> Mapping[str, bytes | None]:
    """Return the content of each blob, or None if the blob is too large."""
    if not blob_ids:
        return {}
    id_lines = "".join(f"{blob_id}\n" for blob_id in blob_ids).encode()
    sizes = (
        run_git(git, root, settings, "cat-file", "--batch-check", input_bytes=id_lines)
        .decode(errors="replace")
        .split("\n")
    )
    size_lines = [line.split(" ") for line in sizes if line.count(" ") == 2]
    sizes_by_id = {
        name: int(size) for name, kind, size in size_lines if kind == "blob" and int(size) <= MAX_COMPARED_BYTES
    }
    contents_by_id: dict[str, bytes | None] = dict.fromkeys(blob_ids)
    batch_output = run_git(
        git, root, settings, "cat-file", "--batch", input_bytes="".join(f"{name}\n" for name in sizes_by_id).encode()
    )
    offset = 0
    for name, size in sizes_by_id.items():  # a header line precedes each blob, and a newline follows it
        start = batch_output.find(b"\n", offset) + 1
        contents_by_id[name] = batch_output[start : start + size]
        offset = start + size + 1
    return contents_by_id


def _file_change(entry: _StatusEntry, path: Path, root: Path, blobs: Mapping[str, bytes | None]) -> FileChange:
    name = display_path(path, root)
    previous = blobs.get(entry.blob) if entry.blob else None
    if entry.path.endswith("/"):
        return FileChange(name, incomparable_reason="a folder with a repository of its own", is_by_tool=False)
    if entry.mode == "120000":
        return FileChange(name, incomparable_reason="a symbolic link in the last commit", is_by_tool=False)
    if entry.blob and previous is None:
        return FileChange(name, incomparable_reason="too large in the last commit to compare", is_by_tool=False)
    try:
        if path.exists() and path.stat().st_size > MAX_COMPARED_BYTES:
            return FileChange(name, incomparable_reason="too large to compare", is_by_tool=False)
        return FileChange(name, previous, read_bytes_if_exists(path), is_by_tool=False)
    except (OSError, ToolError) as error:
        return FileChange(name, incomparable_reason=f"its current content cannot be read: {error}", is_by_tool=False)
