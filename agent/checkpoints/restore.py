"""Files brought back, all of them or none: everything is written beside its place first, and then takes it."""

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
"""How what is written beside its place is called until it takes it."""
_OPEN = 0o700
"""What the owner of a folder needs to change what is in it."""
_SYNCED_ONE_BY_ONE = 100


@dataclass(frozen=True, slots=True)
class Move:
    """A path on its way from one state to another."""

    path: str
    now: FileState
    back: FileState
    identity: tuple[int, ...]
    """What told it apart when it was looked at."""


ReadContent = Callable[[str], bytes]
"""The bytes that a digest stands for."""


def moves_for(root: str, paths: Iterable[PlannedPath]) -> tuple[Move, ...]:
    """What is to be done. A folder stays where something else is in it. Raises `RestoreFailed` where that is in the way
    of what was there before."""
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
                raise RestoreFailed(f"`{one.path}` was a file and is a folder now, with other files in it: move them")
    return tuple(
        Move(one.path, one.now, one.back, identity_at(root, one.path)) for one in wanted if one.path not in kept
    )


def _missing_above(root: str, wanted: Sequence[PlannedPath]) -> list[PlannedPath]:
    """The folders that have to be made for what comes back, and that go with it when that is taken back."""
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
    """One of them. `run` raises `RestoreFailed`, and then everything is as it was before, as far as the text does not
    say otherwise."""

    def __init__(self, root: str, point: int, read: ReadContent) -> None:
        self._root = root
        self._prefix = f"{PREFIX}{point}-"
        self._read = read
        self._staged: list[tuple[Move, str, str]] = []
        """Each with the folder in which it waits, and its name there."""
        self._made: list[str] = []
        self._opened: list[Move] = []
        """Folders that were closed to their owner."""
        self._unlinked: set[int] = set()
        """Inodes of which a name was taken away, so that their other names have the time of that."""
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
            told = "nothing was changed" if not left else f"{join_limited(left, 5)} may be half-way"
            raise RestoreFailed(f"{told}: {_error_text(error)}") from error

    def clear(self, paths: Iterable[str]) -> None:
        """Removes what an undo that was cut off has left beside paths."""
        for folder in {above for path in paths for above in _above(path)}:
            with suppress(OSError):
                for name in (
                    names_in(self._root, folder) if folder not in ("", "/") else os.listdir(folder or self._root)
                ):
                    if name.startswith(self._prefix):
                        self._remove(f"{folder.rstrip('/')}/{name}" if folder else name)

    def _open_folders(self, moves: Sequence[Move]) -> None:
        """What turns have closed, so that something can be put into it, or taken from there."""
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
        """The innermost folder above a path that is there."""
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
        """What stood there had its place taken, or its name away."""
        self._done.append(move)
        self._unlinked.update(move.identity[1:2])

    def _refuse_changed(self, move: Move) -> None:
        now, known = identity_at(self._root, move.path), move.identity
        if now[1:2] and now[1] in self._unlinked:  # another name of it went a moment ago
            now, known = now[:-1], known[:-1]
        if now != known:
            raise RestoreFailed(f"`{move.path}` was changed meanwhile")

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
        """Brings each path back to what it was; those with which that did not work."""
        left = []
        done = {move.path: move for move in self._done}
        for move in sorted(done.values(), key=lambda move: -move.path.count("/")):
            there = state_at(self._root, move.path, 0, lambda digest, content: None)
            if there != ABSENT and (move.now == ABSENT or (there.kind == "folder") != (move.now.kind == "folder")):
                with suppress(OSError):  # then it is told below, or a folder has got something else
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
            with suppress(OSError):  # something is in it
                if path not in done:
                    self._remove(path)
        return left

    def _restore_path(self, move: Move) -> None:
        """One path as it was, by itself."""
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
    """A file or link makes place for another one by itself."""
    return move.back == ABSENT or (move.now.kind == "folder") != (move.back.kind == "folder")


def _above(path: str) -> list[str]:
    """The folders above a path, the workspace itself among them."""
    start, folders, _ = parts_of("", path)
    lead = "/" if start == "/" else ""
    return [lead + "/".join(folders[:count]) for count in range(len(folders) + 1)]


def _error_text(error: BaseException) -> str:
    if isinstance(error, OSError):
        name = f"`{os.fsdecode(error.filename)}`: " if isinstance(error.filename, str | bytes) else ""
        advice = "; free some space and try again" if error.errno == errno.ENOSPC else ""
        return f"{name}{error.strerror or error}{advice}"
    return str(error)
