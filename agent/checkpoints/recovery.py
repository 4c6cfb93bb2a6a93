"""Executes planned restores, in one process at a time, and finishes those that a killed process left incomplete."""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from ebbtide.agent.checkpoints.file_state import FileState, PathChange, PlannedPath, RestorePlan, is_interrupted_state
from ebbtide.agent.checkpoints.point_log import PointLog
from ebbtide.agent.checkpoints.restore import Move, Restore, plan_moves
from ebbtide.agent.checkpoints.staged_files import StagedFiles
from ebbtide.agent.checkpoints.undo_points import PointKind, RestoreResult, TurnKey
from ebbtide.agent.errors import RestoreFailed
from ebbtide.store.checkpoints import CheckpointStore, PointRow
from ebbtide.store.errors import StoreError
from ebbtide.tools.outputs.extent import join_limited

FOLDER_NOT_EMPTY = "it is not empty"


class Recovery:
    """Restores the files of one project. Methods raise `RestoreFailed` and `StoreError`."""

    def __init__(
        self,
        root: str,
        folder: Path,
        store: CheckpointStore,
        point_log: PointLog,
        staged_files: StagedFiles,
        capture_states: Callable[[Iterable[str]], dict[str, FileState]],
    ) -> None:
        """`folder`: the folder of the checkpoints. `capture_states`: returns the current states of paths, and stores
        their content."""
        self._root = root
        self._folder = folder
        self._store = store
        self._point_log = point_log
        self._staged_files = staged_files
        self._capture_states = capture_states

    def restore(self, plan: RestorePlan, turn: TurnKey, kind: PointKind, *, is_forced: bool) -> RestoreResult:
        """Carry out a plan. With `is_forced`, also overwrite changes made by other programs or the user."""
        with self.lock_restores() as has_lock:
            if not has_lock:
                raise RestoreFailed("nothing was changed: another program is restoring files in this folder")
            planned_paths = plan.paths_to_restore(is_forced=is_forced)
            moves = plan_moves(self._root, filter(_is_file_path, planned_paths))
            self._raise_if_changed(moves)
            staged = [
                PathChange(planned.path, planned.current, planned.target)
                for planned in planned_paths
                if planned.target.kind == "staged"
            ]
            changes = [PathChange(move.path, move.current, move.target) for move in moves]
            point = self._point_log.add_restore(turn, kind, plan.points, [*changes, *staged])
            try:
                Restore(self._root, point, self._read_content).run(moves)
            except RestoreFailed:
                self._point_log.end_restore(point, plan.points, has_failed=True)
                raise
            unrestored_staged = self._restore_staged(point, staged)
            self._point_log.end_restore(point, plan.points)
        moved_paths = {move.path for move in moves}
        blocked = [
            replace(planned, outcome="impossible", reason=FOLDER_NOT_EMPTY)
            for planned in planned_paths
            if planned.path not in moved_paths and _is_file_path(planned)
        ]
        unrestored = (
            *plan.paths_with_outcome("impossible"),
            *(() if is_forced else plan.paths_with_outcome("ask")),
            *unrestored_staged,
            *blocked,
        )
        files = [move.path for move in moves if not {move.current.kind, move.target.kind} <= {"folder", "absent"}]
        return RestoreResult(point, tuple(files), unrestored, len(staged) - len(unrestored_staged))

    def _raise_if_changed(self, moves: Sequence[Move]) -> None:
        """Raise `RestoreFailed` if files have changed since the plan was made. The user might have worked on the files
        while reviewing the plan."""
        current_states = self._capture_states(move.path for move in moves)
        if changed_paths := [move.path for move in moves if current_states[move.path] != move.current]:
            verb = "was" if len(changed_paths) == 1 else "were"
            raise RestoreFailed(
                f"nothing was changed: {join_limited(changed_paths, 5)} {verb} changed in the meantime; check again"
            )

    def _restore_staged(self, point: int, changes: Sequence[PathChange]) -> list[PlannedPath]:
        """Restore staged entries, and return the ones that could not be restored. A failure here does not affect the
        files."""
        unrestored = []
        for index_path, group in groupby(sorted(changes, key=_index_path), key=_index_path):
            index_changes = list(group)
            if problem := self._staged_files.restore_staged(index_path, index_changes, point):
                unrestored += [
                    PlannedPath(change.path, change.before, change.after, "impossible", problem)
                    for change in index_changes
                ]
        return unrestored

    def finish_interrupted_restores(self) -> tuple[str, ...]:
        """Finish restores that a killed process left incomplete, and return their paths. Do nothing while another
        process restores files."""
        if not self._point_log.unfinished_restores():
            return ()
        with self.lock_restores() as has_lock:
            unfinished = self._point_log.unfinished_restores() if has_lock else ()
            return tuple(path for row in unfinished for path in self._finish_restore(row))

    @contextmanager
    def lock_restores(self) -> Iterator[bool]:
        """Lock restores, so that no other process can restore files of the project until the context ends. Yield False
        if another process is restoring files already."""
        fd = os.open(self._folder / "restoring", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True
        finally:
            os.close(fd)

    def _finish_restore(self, row: PointRow) -> list[str]:
        changes = tuple(self._point_log.changes(row.id))
        restore = Restore(self._root, row.id, self._read_content)
        restore.remove_leftovers(change.path for change in changes if change.after.kind != "staged")
        for index_path in {_index_path(change) for change in changes if change.after.kind == "staged"}:
            self._staged_files.remove_leftovers(index_path, row.id)
        current_states = self._capture_states(change.path for change in changes)
        interrupted = [
            change
            for change in changes
            if current_states[change.path] != change.after and is_interrupted_state(change, current_states[change.path])
        ]
        files = [change for change in interrupted if change.after.kind != "staged"]
        paths = [PlannedPath(change.path, current_states[change.path], change.after, "restore") for change in files]
        restore.run(plan_moves(self._root, paths))
        self._restore_staged(row.id, [change for change in interrupted if change.after.kind == "staged"])
        self._point_log.end_restore(row.id, row.undone_points)
        return [change.path for change in changes]

    def _read_content(self, digest: str) -> bytes:
        try:
            content = self._store.content(bytes.fromhex(digest))
        except StoreError as error:
            raise RestoreFailed(str(error)) from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise RestoreFailed("the stored content of the file is damaged")
        return content


def _is_file_path(planned: PlannedPath) -> bool:
    """Whether a planned path is in the file system, and not a staged entry."""
    return planned.target.kind != "staged"


def _index_path(change: PathChange) -> str:
    return change.path.partition("\0")[0]
