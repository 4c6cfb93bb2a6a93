"""Files that git tracks although its own rules ignore them: the scan of the folder leaves them out."""

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from ebbtide.agent.checkpoints.comparison import Change, numbers_at
from ebbtide.agent.checkpoints.file_state import FileState
from ebbtide.agent.checkpoints.folder_record import CHANGED_FIELD, Folder
from ebbtide.agent.checkpoints.git_index import read_staged
from ebbtide.agent.checkpoints.work_tree import TICK, FolderTooLarge, Limits

StagedEntries = Mapping[bytes, bytes]
_SKIP_WORKTREE = 0x40
"""Flag of an index entry: its file is deliberately missing, as in a sparse checkout."""
_FLAGS = 6
"""The offset of the flags."""
_NOWHERE = frozenset((b"", b".", b"..", b".git"))
"""Names that never occur in an index written by git."""


class TrackedFiles:
    """The last known states of these files. For one thread at a time."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, tuple[tuple[int, ...], FileState]] = {}
        self._staged: tuple[StagedEntries, ...] = ()

    def look(
        self,
        repositories: Mapping[str, StagedEntries],
        folders: Mapping[str, Folder],
        limits: Limits,
        state_of: Callable[[str], FileState],
        *,
        is_ruled_anew: bool,
    ) -> dict[str, Change]:
        """What has changed since the last scan. `repositories`: the staged entries of each work tree. `folders`: the
        result of the scan. `is_ruled_anew`: whether ignore rules have changed. Raises `FolderTooLarge`."""
        changes = {}
        for path, (numbers, then) in self._known.items():
            now = self._known[path] = self._observed_state(path, numbers, then, state_of)
            if now[1] != then:
                changes[path] = (then, now[1])
        staged = tuple(repositories.values())
        if is_ruled_anew or [*map(id, staged)] != [*map(id, self._staged)]:  # unchanged scans reuse the same objects
            paths = dict.fromkeys(self._left_out(repositories, folders))
            if len(paths) > limits.files or sum(map(self._size, paths)) > limits.all_bytes:
                raise FolderTooLarge("git tracks too many files that its rules would ignore")
            unseen: tuple[tuple[int, ...], FileState] = ((), FileState("unknown"))
            self._known = {path: self._observed_state(path, *self._known.get(path, unseen), state_of) for path in paths}
            self._staged = staged
        return changes

    def _left_out(self, repositories: Mapping[str, StagedEntries], folders: Mapping[str, Folder]) -> Iterator[str]:
        for top, staged in repositories.items():
            outer, inner = _between(top, self._root)
            listed: dict[bytes, frozenset[bytes]] = {}
            for entry, what in staged.items():
                folder, _, name = entry.rpartition(b"/")
                names = listed.get(folder)
                if names is None:
                    found = folders.get(os.fsdecode((outer + folder)[len(inner) :]).rstrip("/"))
                    names = listed[folder] = frozenset(map(os.fsencode, found.names if found is not None else ()))
                if name not in names and entry.startswith(inner) and _is_file(entry, what):
                    yield os.fsdecode((outer + entry)[len(inner) :])

    def _observed_state(
        self, path: str, numbers: tuple[int, ...], then: FileState, state_of: Callable[[str], FileState]
    ) -> tuple[tuple[int, ...], FileState]:
        """The file's numbers, empty if it may change again without new ones, and its state."""
        started, now = time.time_ns(), numbers_at(os.path.join(self._root, path))
        if now and now == numbers:
            return numbers, then
        return (now if now and now[CHANGED_FIELD] + TICK < started else ()), state_of(path)

    def _size(self, path: str) -> int:
        with suppress(OSError):
            return os.lstat(os.path.join(self._root, path)).st_size
        return 0


def _between(top: str, root: str) -> tuple[bytes, bytes]:
    """The path from the root to the work tree, or else the path from the work tree to the root, as prefixes."""
    if root == top:
        return b"", b""
    if root.startswith(f"{top.rstrip('/')}/"):
        return b"", os.fsencode(root[len(top.rstrip("/")) + 1 :]) + b"/"
    return os.fsencode(top[len(root.rstrip("/")) + 1 :]) + b"/", b""


def _is_file(entry: bytes, what: bytes) -> bool:
    """Whether an entry is a file or link that should exist in the work tree."""
    kinds = [stat.S_IFMT(mode) for mode, _ in read_staged(what)]
    is_there = kinds[0] in (stat.S_IFREG, stat.S_IFLNK) and not what[_FLAGS] & _SKIP_WORKTREE
    return is_there and _NOWHERE.isdisjoint(entry.split(b"/"))
