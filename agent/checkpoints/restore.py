"""Restores files, all or none: everything is first written next to its target, then moved into place."""

import errno
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.agent.checkpoints.file_state import ABSENT, FileState, PlannedPath
from ebbtide.agent.checkpoints.nofollow_paths import (
    identity_at,
    names_in,
    parent_of,
    parts_of,
    set_folder_mode,
    state_at,
    write_new_file,
)
from ebbtide.agent.errors import AgentError, RestoreFailed
from ebbtide.tools.outputs.extent import join_limited

PREFIX = ".ebb-undo-"
"""Prefix of the temporary files."""
_OPEN = 0o700
"""The permissions that the owner of a folder needs to change its content."""
_SYNCED_ONE_BY_ONE = 100


@dataclass(frozen=True, slots=True)
class Move:
    """A path with its current and its restored state."""

    path: str
    now: FileState
    back: FileState
    identity: tuple[int, ...]
    """Its identity at the time of planning."""


ReadContent = Callable[[str], bytes]
"""Returns the content for a digest."""


def moves_for(root: str, paths: Iterable[PlannedPath]) -> tuple[Move, ...]:
    """The moves for these paths. A folder that contains other files is kept. Raises `RestoreFailed` if such a folder
    blocks a file."""
    wanted = list(paths)
    wanted += _missing_above(root, wanted)
    going = {one.path for one in wanted if one.now != ABSENT and one.back.kind == "absent"}
    going |= {one.path for one in wanted if one.now.kind == "folder" and one.back.kind != "folder"}
    kept: set[str] = set()
    for one in sorted(wanted, key=lambda one: -one.path.count("/")):
        if one.now.kind != "folder" or one.back.kind == "folder":
            continue
        names = [f"{one.path}/{name}" for name in _names(root, one.path)]
        if any(name not in going or name in kept for name in names):
            kept.add(one.path)
            if one.back != ABSENT:
                raise RestoreFailed(
                    f"`{one.path}` was a file but is now a folder with other files in it: move them first"
                )
    return tuple(
        Move(one.path, one.now, one.back, identity_at(root, one.path)) for one in wanted if one.path not in kept
    )


def _missing_above(root: str, wanted: Sequence[PlannedPath]) -> list[PlannedPath]:
    """The folders to create for restored paths; they are removed again if that is undone."""
    known, missing = {one.path for one in wanted}, []
    for one in wanted:
        above = one.path.rpartition("/")[0]
        while one.back != ABSENT and above and above not in known and not identity_at(root, above):
            known.add(above)
            missing.append(PlannedPath(above, ABSENT, FileState("folder", 0o755), "restore"))
            above = above.rpartition("/")[0]
    return missing


def _names(root: str, path: str) -> list[str]:
    try:
        return names_in(root, path)
    except OSError as error:
        raise RestoreFailed(f"`{path}` cannot be read: {error.strerror or error}") from error


class Restore:
    """One restore. If `run` raises `RestoreFailed`, everything is unchanged, unless the error says otherwise."""

    def __init__(self, root: str, point: int, read: ReadContent) -> None:
        self._root = root
        self._prefix = f"{PREFIX}{point}-"
        self._read = read
        self._staged: list[tuple[Move, str, str]] = []
        """Each move with the folder and the name of its temporary file."""
        self._made: list[str] = []
        self._opened: list[Move] = []
        """Folders that their owner could not write to."""
        self._unlinked: set[int] = set()
        """Inodes that lost a name, which changed the ctime of their other names."""
        self._done: list[Move] = []

    def run(self, moves: Sequence[Move]) -> None:
        try:
            self._open_folders(moves)
            self._stage(moves)
        except (OSError, AgentError) as error:
            self._unstage()
            self._close_folders()
            raise RestoreFailed(f"nothing was changed: {_error_text(error)}") from error
        try:
            self._move_into_place(moves)
        except (OSError, AgentError) as error:
            self._unstage()
            left = self._roll_back()
            self._close_folders()
            told = "nothing was changed" if not left else f"{join_limited(left, 5)} may be incomplete"
            raise RestoreFailed(f"{told}: {_error_text(error)}") from error

    def clear(self, paths: Iterable[str]) -> None:
        """Remove temporary files of an interrupted restore next to these paths."""
        for folder in {above for path in paths for above in _above(path)}:
            with suppress(OSError):
                for name in (
                    names_in(self._root, folder) if folder not in ("", "/") else os.listdir(folder or self._root)
                ):
                    if name.startswith(self._prefix):
                        self._remove(f"{folder.rstrip('/')}/{name}" if folder else name)

    def _open_folders(self, moves: Sequence[Move]) -> None:
        """Make folders writable that turns had closed, so that their content can be changed."""
        closed = [move for move in moves if move.now.kind == "folder" and move.now.mode & _OPEN != _OPEN]
        for move in sorted(closed, key=lambda move: move.path.count("/")):
            self._opened.append(move)
            set_folder_mode(self._root, move.path, move.now.mode | _OPEN)

    def _close_folders(self) -> None:
        for move in reversed(self._opened):
            with suppress(OSError):
                set_folder_mode(self._root, move.path, move.now.mode)

    def _stage(self, moves: Sequence[Move]) -> None:
        synced = len(moves) <= _SYNCED_ONE_BY_ONE
        for number, move in enumerate(moves):
            place = self._nearest(move.path)
            with parent_of(self._root, f"{place.rstrip('/')}/x" if place else "x") as (folder, _):
                if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
                    raise OSError(errno.EACCES, "it cannot be written", place or ".")
                if move.back.kind in ("file", "link"):
                    name = f"{self._prefix}{number}-{secrets.token_hex(3)}"
                    write_new_file(folder, name, move.back, self._read(move.back.digest), synced=synced)
                    self._staged.append((move, place, name))
        if not synced:
            os.sync()

    def _nearest(self, path: str) -> str:
        """The innermost existing folder above a path."""
        start, folders, _ = parts_of(self._root, path)
        while folders:
            place = "/".join(folders)
            place = f"/{place}" if start == "/" else place
            with suppress(OSError), parent_of(self._root, f"{place}/x"):
                return place
            folders.pop()
        return "/" if start == "/" else ""

    def _move_into_place(self, moves: Sequence[Move]) -> None:
        for move in moves:
            self._refuse_changed(move)
        going = [move for move in moves if move.now != ABSENT and _has_to_go(move)]
        for move in sorted(going, key=lambda move: (move.now.kind == "folder", -move.path.count("/"))):
            self._refuse_changed(move)
            self._remove(move.path)
            self._record_removed(move)
        folders = [move for move in moves if move.back.kind == "folder" and move.now.kind != "folder"]
        for move in sorted(folders, key=lambda move: move.path.count("/")):
            self._make_folders(move.path)
            set_folder_mode(self._root, move.path, move.back.mode | 0o300)
            self._done.append(move)
        for move, place, name in self._staged:
            if move.now == ABSENT or not _has_to_go(move):
                self._refuse_changed(move)
            self._make_folders(move.path.rpartition("/")[0])
            with (
                parent_of(self._root, f"{place.rstrip('/')}/x" if place else "x") as (source, _),
                parent_of(self._root, move.path) as (target, last),
            ):
                os.rename(name, last, src_dir_fd=source, dst_dir_fd=target)
            self._record_removed(move)
        modes = [move for move in moves if move.back.kind == "folder"]
        for move in sorted(modes, key=lambda move: -move.path.count("/")):
            set_folder_mode(self._root, move.path, move.back.mode)
            self._done.append(move)

    def _record_removed(self, move: Move) -> None:
        """Record a move whose old file was replaced or deleted."""
        self._done.append(move)
        self._unlinked.update(move.identity[1:2])

    def _refuse_changed(self, move: Move) -> None:
        now, known = identity_at(self._root, move.path), move.identity
        if now[1:2] and now[1] in self._unlinked:  # another name of it was just deleted
            now, known = now[:-1], known[:-1]
        if now != known:
            raise RestoreFailed(f"`{move.path}` was changed in the meantime")

    def _make_folders(self, path: str) -> None:
        if not path:
            return
        start, folders, name = parts_of(self._root, path)
        at = "/" if start == "/" else ""
        for each in (*folders, name):
            at = f"{at.rstrip('/')}/{each}" if at else each
            with parent_of(self._root, at) as (folder, last), suppress(FileExistsError):
                os.mkdir(last, 0o777, dir_fd=folder)
                self._made.append(at)

    def _remove(self, path: str) -> None:
        with parent_of(self._root, path) as (folder, name):
            try:
                os.unlink(name, dir_fd=folder)
            except (IsADirectoryError, PermissionError):
                os.rmdir(name, dir_fd=folder)

    def _unstage(self) -> None:
        for _, place, name in self._staged:
            with suppress(OSError):
                self._remove(f"{place.rstrip('/')}/{name}" if place else name)

    def _roll_back(self) -> list[str]:
        """Restore the state of each path from before; return the paths where that failed."""
        left = []
        done = {move.path: move for move in self._done}
        for move in sorted(done.values(), key=lambda move: -move.path.count("/")):
            there = state_at(self._root, move.path, 0, lambda digest, content: None)
            if there != ABSENT and (move.now == ABSENT or (there.kind == "folder") != (move.now.kind == "folder")):
                with suppress(OSError):  # it is reported below, or the folder has new content
                    self._remove(move.path)
        for move in sorted(done.values(), key=lambda move: move.path.count("/")):
            try:
                self._restore_path(move)
            except (OSError, AgentError):
                left.append(move.path)
        folders = [move for move in done.values() if move.now.kind == "folder" and move.path not in left]
        for move in sorted(folders, key=lambda move: -move.path.count("/")):
            with suppress(OSError):
                set_folder_mode(self._root, move.path, move.now.mode)
        for path in reversed(self._made):
            with suppress(OSError):  # it is not empty
                if path not in done:
                    self._remove(path)
        return left

    def _restore_path(self, move: Move) -> None:
        """Restore the previous state of one path."""
        state = move.now
        if state.kind == "folder":
            self._make_folders(move.path)
            set_folder_mode(self._root, move.path, state.mode | _OPEN)
        elif state.kind in ("file", "link"):
            name = f"{self._prefix}back-{secrets.token_hex(3)}"
            with parent_of(self._root, move.path) as (folder, last):
                write_new_file(folder, name, state, self._read(state.digest), synced=False)
                os.rename(name, last, src_dir_fd=folder, dst_dir_fd=folder)
        elif state_at(self._root, move.path, 0, lambda digest, content: None).kind not in ("absent", "folder"):
            self._remove(move.path)


def _has_to_go(move: Move) -> bool:
    """Whether the old path must be removed first. A file or link is simply replaced by another."""
    return move.back == ABSENT or (move.now.kind == "folder") != (move.back.kind == "folder")


def _above(path: str) -> list[str]:
    """The folders above a path, including the workspace."""
    start, folders, _ = parts_of("", path)
    lead = "/" if start == "/" else ""
    return [lead + "/".join(folders[:count]) for count in range(len(folders) + 1)]


def _error_text(error: BaseException) -> str:
    if isinstance(error, OSError):
        name = f"`{os.fsdecode(error.filename)}`: " if isinstance(error.filename, str | bytes) else ""
        advice = "; free some space and try again" if error.errno == errno.ENOSPC else ""
        return f"{name}{error.strerror or error}{advice}"
    return str(error)
