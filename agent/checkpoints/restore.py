"""Restores all files or none. Every file is first written near its target and then moved into place."""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.agent.checkpoints.file_state import ABSENT, FileState, PlannedPath
from ebbtide.agent.checkpoints.nofollow_paths import (
    identity_at,
    list_folder,
    open_parent,
    read_state,
    set_folder_mode,
    split_path,
    write_new_file,
)
from ebbtide.agent.errors import AgentError, RestoreFailed
from ebbtide.tools.outputs.extent import join_limited

TEMPORARY_PREFIX = ".ebb-undo-"
"""Prefix of the temporary files."""
_OWNER_ACCESS = 0o700
"""The permission bits that let a folder's owner change its content."""
_MAX_FILES_SYNCED_SINGLY = 100
"""Maximum number of files that are synced one by one. If there are more, all file systems are synced once."""


@dataclass(frozen=True, slots=True)
class Move:
    """A path, its current state and the state to restore."""

    path: str
    current: FileState
    target: FileState
    identity: tuple[int, ...]
    """The result of `identity_at` for the path when the move was planned."""


ReadContent = Callable[[str], bytes]
"""Returns content by its digest in hexadecimal."""


def plan_moves(root: str, paths: Iterable[PlannedPath]) -> tuple[Move, ...]:
    """Plan the moves for these paths. A folder that contains other files is not removed. If such a folder is where a
    file must be restored, raise `RestoreFailed`."""
    planned_paths = list(paths)
    planned_paths += _missing_parents(root, planned_paths)
    removed_paths = {
        planned.path for planned in planned_paths if planned.current != ABSENT and planned.target.kind == "absent"
    }
    removed_paths |= {
        planned.path
        for planned in planned_paths
        if planned.current.kind == "folder" and planned.target.kind != "folder"
    }
    occupied_folders: set[str] = set()
    for planned in sorted(planned_paths, key=lambda planned: -planned.path.count("/")):
        if planned.current.kind != "folder" or planned.target.kind == "folder":
            continue
        names = [f"{planned.path}/{name}" for name in _names_in_folder(root, planned.path)]
        if any(name not in removed_paths or name in occupied_folders for name in names):
            occupied_folders.add(planned.path)
            if planned.target != ABSENT:
                raise RestoreFailed(
                    f"`{planned.path}` was a file but is now a folder with other files in it: move them first"
                )
    return tuple(
        Move(planned.path, planned.current, planned.target, identity_at(root, planned.path))
        for planned in planned_paths
        if planned.path not in occupied_folders
    )


def _missing_parents(root: str, planned_paths: Sequence[PlannedPath]) -> list[PlannedPath]:
    """Return planned paths for the missing folders above restored paths. They are part of the plan so that undoing the
    restore removes them again."""
    known_paths, missing_parents = {planned.path for planned in planned_paths}, []
    for planned in planned_paths:
        parent = planned.path.rpartition("/")[0]
        while planned.target != ABSENT and parent and parent not in known_paths and not identity_at(root, parent):
            known_paths.add(parent)
            missing_parents.append(PlannedPath(parent, ABSENT, FileState("folder", 0o755), "restore"))
            parent = parent.rpartition("/")[0]
    return missing_parents


def _names_in_folder(root: str, path: str) -> list[str]:
    try:
        return list_folder(root, path)
    except OSError as error:
        raise RestoreFailed(f"`{path}` cannot be read: {error.strerror or error}") from error


class Restore:
    """One restore. If `run` raises `RestoreFailed`, no file has changed, unless the error says otherwise."""

    def __init__(self, root: str, point: int, read_content: ReadContent) -> None:
        self._root = root
        self._prefix = f"{TEMPORARY_PREFIX}{point}-"
        self._read = read_content
        self._temporary_files: list[tuple[Move, str, str]] = []
        """Each move with the folder and the name of its temporary file."""
        self._created_folders: list[str] = []
        self._unlocked_folders: list[Move] = []
        """Folders that were made writable for the restore."""
        self._unlinked_inodes: set[int] = set()
        """Inodes that lost a hard link in this restore. This changed the ctime of their other hard links."""
        self._done_moves: list[Move] = []

    def run(self, moves: Sequence[Move]) -> None:
        try:
            self._unlock_folders(moves)
            self._write_temporary_files(moves)
        except (OSError, AgentError) as error:
            self._remove_temporary_files()
            self._restore_folder_modes()
            raise RestoreFailed(f"nothing was changed: {_error_text(error)}") from error
        try:
            self._move_into_place(moves)
        except (OSError, AgentError) as error:
            self._remove_temporary_files()
            unreverted_paths = self._roll_back()
            self._restore_folder_modes()
            outcome = (
                "nothing was changed"
                if not unreverted_paths
                else f"{join_limited(unreverted_paths, 5)} may be incomplete"
            )
            raise RestoreFailed(f"{outcome}: {_error_text(error)}") from error

    def remove_leftovers(self, paths: Iterable[str]) -> None:
        """Remove temporary files that an interrupted restore left next to these paths."""
        for folder in {folder_above for path in paths for folder_above in _folders_above(path)}:
            with suppress(OSError):
                for name in (
                    list_folder(self._root, folder) if folder not in ("", "/") else os.listdir(folder or self._root)
                ):
                    if name.startswith(self._prefix):
                        self._remove(f"{folder.rstrip('/')}/{name}" if folder else name)

    def _unlock_folders(self, moves: Sequence[Move]) -> None:
        """Make folders accessible if a turn had restricted their permissions, so that their content can be changed."""
        inaccessible_folders = [
            move
            for move in moves
            if move.current.kind == "folder" and move.current.mode & _OWNER_ACCESS != _OWNER_ACCESS
        ]
        for move in sorted(inaccessible_folders, key=lambda move: move.path.count("/")):
            self._unlocked_folders.append(move)
            set_folder_mode(self._root, move.path, move.current.mode | _OWNER_ACCESS)

    def _restore_folder_modes(self) -> None:
        for move in reversed(self._unlocked_folders):
            with suppress(OSError):
                set_folder_mode(self._root, move.path, move.current.mode)

    def _write_temporary_files(self, moves: Sequence[Move]) -> None:
        syncs_each_file = len(moves) <= _MAX_FILES_SYNCED_SINGLY
        for index, move in enumerate(moves):
            folder_path = self._nearest_folder(move.path)
            with open_parent(self._root, f"{folder_path.rstrip('/')}/x" if folder_path else "x") as (folder, _):
                if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
                    raise OSError(errno.EACCES, "it cannot be written", folder_path or ".")
                if move.target.kind in ("file", "link"):
                    name = f"{self._prefix}{index}-{secrets.token_hex(3)}"
                    write_new_file(folder, name, move.target, self._read(move.target.digest), sync=syncs_each_file)
                    self._temporary_files.append((move, folder_path, name))
        if not syncs_each_file:
            os.sync()

    def _nearest_folder(self, path: str) -> str:
        """Return the innermost existing folder above a path."""
        start, folders, _ = split_path(self._root, path)
        while folders:
            folder_path = "/".join(folders)
            folder_path = f"/{folder_path}" if start == "/" else folder_path
            with suppress(OSError), open_parent(self._root, f"{folder_path}/x"):
                return folder_path
            folders.pop()
        return "/" if start == "/" else ""

    def _move_into_place(self, moves: Sequence[Move]) -> None:
        for move in moves:
            self._raise_if_changed(move)
        removed_first = [move for move in moves if move.current != ABSENT and _must_remove_first(move)]
        for move in sorted(removed_first, key=lambda move: (move.current.kind == "folder", -move.path.count("/"))):
            self._raise_if_changed(move)
            self._remove(move.path)
            self._record_removed(move)
        folders = [move for move in moves if move.target.kind == "folder" and move.current.kind != "folder"]
        for move in sorted(folders, key=lambda move: move.path.count("/")):
            self._make_folders(move.path)
            set_folder_mode(self._root, move.path, move.target.mode | 0o300)
            self._done_moves.append(move)
        for move, folder_path, name in self._temporary_files:
            if move.current == ABSENT or not _must_remove_first(move):
                self._raise_if_changed(move)
            self._make_folders(move.path.rpartition("/")[0])
            with (
                open_parent(self._root, f"{folder_path.rstrip('/')}/x" if folder_path else "x") as (source_fd, _),
                open_parent(self._root, move.path) as (target_fd, file_name),
            ):
                os.rename(name, file_name, src_dir_fd=source_fd, dst_dir_fd=target_fd)
            self._record_removed(move)
        folder_moves = [move for move in moves if move.target.kind == "folder"]
        for move in sorted(folder_moves, key=lambda move: -move.path.count("/")):
            set_folder_mode(self._root, move.path, move.target.mode)
            self._done_moves.append(move)

    def _record_removed(self, move: Move) -> None:
        """Record a move that has replaced or deleted the old file."""
        self._done_moves.append(move)
        self._unlinked_inodes.update(move.identity[1:2])

    def _raise_if_changed(self, move: Move) -> None:
        current_identity, expected_identity = identity_at(self._root, move.path), move.identity
        if (
            current_identity[1:2] and current_identity[1] in self._unlinked_inodes
        ):  # another name of this inode was removed, so skip the ctime
            current_identity, expected_identity = current_identity[:-1], expected_identity[:-1]
        if current_identity != expected_identity:
            raise RestoreFailed(f"`{move.path}` was changed in the meantime")

    def _make_folders(self, path: str) -> None:
        if not path:
            return
        start, folders, name = split_path(self._root, path)
        path_so_far = "/" if start == "/" else ""
        for component in (*folders, name):
            path_so_far = f"{path_so_far.rstrip('/')}/{component}" if path_so_far else component
            with open_parent(self._root, path_so_far) as (folder, folder_name), suppress(FileExistsError):
                os.mkdir(folder_name, 0o777, dir_fd=folder)
                self._created_folders.append(path_so_far)

    def _remove(self, path: str) -> None:
        with open_parent(self._root, path) as (folder, name):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            (os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink)(name, dir_fd=folder)

    def _remove_temporary_files(self) -> None:
        for _, folder_path, name in self._temporary_files:
            with suppress(OSError):
                self._remove(f"{folder_path.rstrip('/')}/{name}" if folder_path else name)

    def _roll_back(self) -> list[str]:
        """Revert the restore path by path. Return the paths that could not be reverted."""
        failed_paths = []
        moves_by_path = {move.path: move for move in self._done_moves}
        for move in sorted(moves_by_path.values(), key=lambda move: -move.path.count("/")):
            current = read_state(self._root, move.path, 0, lambda digest, content: None)
            if current != ABSENT and (
                move.current == ABSENT or (current.kind == "folder") != (move.current.kind == "folder")
            ):
                with suppress(OSError):  # the next loop reports it, or the folder has new content
                    self._remove(move.path)
        for move in sorted(moves_by_path.values(), key=lambda move: move.path.count("/")):
            try:
                self._restore_path(move)
            except (OSError, AgentError):
                failed_paths.append(move.path)
        folders = [
            move for move in moves_by_path.values() if move.current.kind == "folder" and move.path not in failed_paths
        ]
        for move in sorted(folders, key=lambda move: -move.path.count("/")):
            with suppress(OSError):
                set_folder_mode(self._root, move.path, move.current.mode)
        for path in reversed(self._created_folders):
            with suppress(OSError):  # the folder has other content and stays
                if path not in moves_by_path:
                    self._remove(path)
        return failed_paths

    def _restore_path(self, move: Move) -> None:
        """Restore the previous state of one path."""
        state = move.current
        if state.kind == "folder":
            self._make_folders(move.path)
            set_folder_mode(self._root, move.path, state.mode | _OWNER_ACCESS)
        elif state.kind in ("file", "link"):
            name = f"{self._prefix}back-{secrets.token_hex(3)}"
            with open_parent(self._root, move.path) as (folder, file_name):
                write_new_file(folder, name, state, self._read(state.digest), sync=False)
                os.rename(name, file_name, src_dir_fd=folder, dst_dir_fd=folder)
        elif read_state(self._root, move.path, 0, lambda digest, content: None).kind not in ("absent", "folder"):
            self._remove(move.path)


def _must_remove_first(move: Move) -> bool:
    """Whether the existing path must be removed before the new one is put in place. Only a file or link can be replaced
    directly, and only by another file or link."""
    return move.target == ABSENT or (move.current.kind == "folder") != (move.target.kind == "folder")


def _folders_above(path: str) -> list[str]:
    """Return the folders above a path, including the workspace."""
    start, folders, _ = split_path("", path)
    prefix = "/" if start == "/" else ""
    return [prefix + "/".join(folders[:count]) for count in range(len(folders) + 1)]


def _error_text(error: BaseException) -> str:
    if isinstance(error, OSError):
        name = f"`{os.fsdecode(error.filename)}`: " if isinstance(error.filename, str | bytes) else ""
        advice = "; free some space and try again" if error.errno == errno.ENOSPC else ""
        return f"{name}{error.strerror or error}{advice}"
    return str(error)
