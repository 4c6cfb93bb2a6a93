"""Files that git tracks although its rules ignore them. The scan of the folder skips them."""

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from ebbtide.agent.checkpoints.comparison import StateChange, stat_numbers
from ebbtide.agent.checkpoints.file_state import FileState
from ebbtide.agent.checkpoints.folder_record import CHANGE_TIME_INDEX, FolderRecord
from ebbtide.agent.checkpoints.git_index import parse_staged
from ebbtide.agent.checkpoints.unread_files import TICK_NS, ScanLimits
from ebbtide.agent.checkpoints.work_tree import FolderTooLarge

StagedEntries = Mapping[bytes, bytes]
_SKIP_WORKTREE = 0x40
"""Flag of an index entry whose file is missing on purpose, as in a sparse checkout."""
_FLAGS_OFFSET = 6
"""Offset of the flags in a staged entry."""
_IMPOSSIBLE_NAMES = frozenset((b"", b".", b"..", b".git"))
"""Names that never occur in an index written by git."""


class TrackedFiles:
    """The last known states of tracked but ignored files. Not thread-safe."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known_states: dict[str, tuple[tuple[int, ...], FileState]] = {}
        self._staged: tuple[StagedEntries, ...] = ()

    def scan(
        self,
        repositories: Mapping[str, StagedEntries],
        folders: Mapping[str, FolderRecord],
        limits: ScanLimits,
        get_state: Callable[[str], FileState],
        *,
        has_changed_rules: bool,
    ) -> dict[str, StateChange]:
        """Return what has changed since the last scan. `repositories`: the staged entries of each work tree. `folders`:
        the result of the folder scan. `has_changed_rules`: whether ignore rules have changed. Raises
        `FolderTooLarge`."""
        changes = {}
        for path, (numbers, previous) in self._known_states.items():
            new_state = self._known_states[path] = self._observed_state(path, numbers, previous, get_state)
            if new_state[1] != previous:
                changes[path] = (previous, new_state[1])
        staged = tuple(repositories.values())
        if has_changed_rules or [*map(id, staged)] != [
            *map(id, self._staged)
        ]:  # unchanged scans reuse the same objects
            paths = dict.fromkeys(self._unscanned_paths(repositories, folders))
            if len(paths) > limits.max_files or sum(map(self._size, paths)) > limits.max_total_bytes:
                raise FolderTooLarge("git tracks too many files that its rules would ignore")
            unknown_state: tuple[tuple[int, ...], FileState] = ((), FileState("unknown"))
            self._known_states = {
                path: self._observed_state(path, *self._known_states.get(path, unknown_state), get_state)
                for path in paths
            }
            self._staged = staged
        return changes

    def _unscanned_paths(
        self, repositories: Mapping[str, StagedEntries], folders: Mapping[str, FolderRecord]
    ) -> Iterator[str]:
        for work_tree, staged in repositories.items():
            path_to_tree, path_to_root = _path_prefixes(work_tree, self._root)
            names_by_folder: dict[bytes, frozenset[bytes]] = {}
            for entry, staged_bytes in staged.items():
                folder, _, name = entry.rpartition(b"/")
                names = names_by_folder.get(folder)
                if names is None:
                    folder_record = folders.get(os.fsdecode((path_to_tree + folder)[len(path_to_root) :]).rstrip("/"))
                    names = names_by_folder[folder] = frozenset(
                        map(os.fsencode, folder_record.file_names if folder_record is not None else ())
                    )
                if name not in names and entry.startswith(path_to_root) and _is_expected_file(entry, staged_bytes):
                    yield os.fsdecode((path_to_tree + entry)[len(path_to_root) :])

    def _observed_state(
        self, path: str, numbers: tuple[int, ...], previous: FileState, get_state: Callable[[str], FileState]
    ) -> tuple[tuple[int, ...], FileState]:
        """Return the stat numbers of a file and its state. The numbers are empty if the file was changed so recently
        that another change might not alter them."""
        started, new_numbers = time.time_ns(), stat_numbers(os.path.join(self._root, path))
        if new_numbers and new_numbers == numbers:
            return numbers, previous
        return (new_numbers if new_numbers and new_numbers[CHANGE_TIME_INDEX] + TICK_NS < started else ()), get_state(
            path
        )

    def _size(self, path: str) -> int:
        with suppress(OSError):
            return os.lstat(os.path.join(self._root, path)).st_size
        return 0


def _path_prefixes(work_tree: str, root: str) -> tuple[bytes, bytes]:
    """Return the path from the root down to the work tree, and the path from the work tree down to the root. At least
    one is empty. A path that is not empty ends with `/`."""
    if root == work_tree:
        return b"", b""
    if root.startswith(f"{work_tree.rstrip('/')}/"):
        return b"", os.fsencode(root[len(work_tree.rstrip("/")) + 1 :]) + b"/"
    return os.fsencode(work_tree[len(root.rstrip("/")) + 1 :]) + b"/", b""


def _is_expected_file(entry: bytes, staged_bytes: bytes) -> bool:
    """Whether an entry is a file or link that should exist in the work tree."""
    file_types = [stat.S_IFMT(mode) for mode, _ in parse_staged(staged_bytes)]
    is_expected = file_types[0] in (stat.S_IFREG, stat.S_IFLNK) and not staged_bytes[_FLAGS_OFFSET] & _SKIP_WORKTREE
    return is_expected and _IMPOSSIBLE_NAMES.isdisjoint(entry.split(b"/"))
