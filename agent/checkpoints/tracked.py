"""Files that git tracks although its own rules would ignore them: a walk of the folder leaves them out."""

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
"""Of the flags of an entry: its file is not there on purpose, as in a sparse checkout."""
_FLAGS = 6
"""Where these are."""
_NOWHERE = frozenset((b"", b".", b"..", b".git"))
"""Names that no path of an index has which git has written."""


class TrackedFiles:
    """What they were when they were looked at last. For one thread at a time."""

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
        """What became another since the last look. `repositories`: what is staged in each, by its work tree. `folders`:
        what the walk has found. `is_ruled_anew`: whether other rules hold. Raises `FolderTooLarge`."""
        changes = {}
        for path, (numbers, then) in self._known.items():
            now = self._known[path] = self._observed_state(path, numbers, then, state_of)
            if now[1] != then:
                changes[path] = (then, now[1])
        staged = tuple(repositories.values())
        if is_ruled_anew or [*map(id, staged)] != [*map(id, self._staged)]:  # a look that finds the same is the same
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
        """How it looks, empty where it may change again without that becoming another, and what it is."""
        started, now = time.time_ns(), numbers_at(os.path.join(self._root, path))
        if now and now == numbers:
            return numbers, then
        return (now if now and now[CHANGED_FIELD] + TICK < started else ()), state_of(path)

    def _size(self, path: str) -> int:
        with suppress(OSError):
            return os.lstat(os.path.join(self._root, path)).st_size
        return 0


def _between(top: str, root: str) -> tuple[bytes, bytes]:
    """What stands before the paths of a work tree in the folder; or else what those of its paths begin with that are in
    the folder."""
    if root == top:
        return b"", b""
    if root.startswith(f"{top.rstrip('/')}/"):
        return b"", os.fsencode(root[len(top.rstrip("/")) + 1 :]) + b"/"
    return os.fsencode(top[len(root.rstrip("/")) + 1 :]) + b"/", b""


def _is_file(entry: bytes, what: bytes) -> bool:
    """Whether it is a file or a link that is to be there, and could be one of the work tree."""
    kinds = [stat.S_IFMT(mode) for mode, _ in read_staged(what)]
    is_there = kinds[0] in (stat.S_IFREG, stat.S_IFLNK) and not what[_FLAGS] & _SKIP_WORKTREE
    return is_there and _NOWHERE.isdisjoint(entry.split(b"/"))
