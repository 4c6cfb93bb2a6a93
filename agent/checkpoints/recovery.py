"""Runs planned restores, one program at a time, and finishes those of a killed one."""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from ebbtide.agent.checkpoints.file_state import FileState, PathChange, PlannedPath, RestorePlan, is_half_way
from ebbtide.agent.checkpoints.point_log import PointLog
from ebbtide.agent.checkpoints.restore import Move, Restore, moves_for
from ebbtide.agent.checkpoints.staged import StagedFiles
from ebbtide.agent.checkpoints.undo_points import PointKind, RestoreResult, TurnPlace
from ebbtide.agent.errors import RestoreFailed
from ebbtide.store.checkpoints import CheckpointStore, PointRow
from ebbtide.store.errors import StoreError
from ebbtide.tools.outputs.extent import join_limited

NOT_EMPTY = "it is not empty"


class Recovery:
    """Methods raise `RestoreFailed` and `StoreError`."""

    def __init__(
        self,
        root: str,
        folder: Path,
        store: CheckpointStore,
        log: PointLog,
        staged: StagedFiles,
        states: Callable[[Iterable[str]], dict[str, FileState]],
    ) -> None:
        """`folder`: the folder of the checkpoints. `states`: returns the current states of paths, storing their
        content."""
        self._root = root
        self._folder = folder
        self._store = store
        self._log = log
        self._staged = staged
        self._states = states

    def restore(self, plan: RestorePlan, turn: TurnPlace, kind: PointKind, *, forced: bool) -> RestoreResult:
        """Undo points as planned; with `forced`, also overwrite what others have changed."""
        with self.alone() as is_alone:
            if not is_alone:
                raise RestoreFailed("nothing was changed: another program is restoring files in this folder")
            chosen = plan.paths_to_restore(forced=forced)
            moves = moves_for(self._root, filter(_is_file, chosen))
            self._refuse_changed(moves)
            staged = [PathChange(one.path, one.now, one.back) for one in chosen if one.back.kind == "staged"]
            changes = [PathChange(move.path, move.now, move.back) for move in moves]
            point = self._log.add_restore(turn, kind, plan.points, [*changes, *staged])
            try:
                Restore(self._root, point, self._read_content).run(moves)
            except RestoreFailed:
                self._log.end_restore(point, plan.points, failed=True)
                raise
            unstaged = self._stage_again(point, staged)
            self._log.end_restore(point, plan.points)
        done = {move.path for move in moves}
        kept = [
            replace(one, outcome="cannot", why=NOT_EMPTY) for one in chosen if one.path not in done and _is_file(one)
        ]
        left = (*plan.of("cannot"), *(() if forced else plan.of("ask")), *unstaged, *kept)
        files = [move.path for move in moves if not {move.now.kind, move.back.kind} <= {"folder", "absent"}]
        return RestoreResult(point, tuple(files), left, len(staged) - len(unstaged))

    def _refuse_changed(self, moves: Sequence[Move]) -> None:
        """Raise `RestoreFailed` if files changed since the plan was made: the user may have looked at it for a long
        time and kept working."""
        now = self._states(move.path for move in moves)
        if others := [move.path for move in moves if now[move.path] != move.now]:
            are = "was" if len(others) == 1 else "were"
            raise RestoreFailed(
                f"nothing was changed: {join_limited(others, 5)} {are} changed in the meantime; check again"
            )

    def _stage_again(self, point: int, changes: Sequence[PathChange]) -> list[PlannedPath]:
        """Restore staged entries, and return those that were left unchanged. Files are restored regardless."""
        left = []
        for index, group in groupby(sorted(changes, key=_index_of), key=_index_of):
            those = list(group)
            if why := self._staged.stage_again(index, those, point):
                left += [PlannedPath(one.path, one.before, one.after, "cannot", why) for one in those]
        return left

    def finish(self) -> tuple[str, ...]:
        """Finish restores that a killed process left incomplete. Return their paths. Does nothing while another
        process restores files."""
        if not self._log.unfinished_restores():
            return ()
        with self.alone() as is_alone:
            left = self._log.unfinished_restores() if is_alone else ()
            return tuple(path for row in left for path in self._finish_restore(row))

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Yield whether no other process restores files of the project. If so, none can during the context."""
        handle = os.open(self._folder / "restoring", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True
        finally:
            os.close(handle)

    def _finish_restore(self, row: PointRow) -> list[str]:
        changes = tuple(self._log.changes(row.id))
        restore = Restore(self._root, row.id, self._read_content)
        restore.clear(change.path for change in changes if change.after.kind != "staged")
        for index in {_index_of(change) for change in changes if change.after.kind == "staged"}:
            self._staged.clear(index, row.id)
        now = self._states(change.path for change in changes)
        half = [
            change for change in changes if now[change.path] != change.after and is_half_way(change, now[change.path])
        ]
        files = [one for one in half if one.after.kind != "staged"]
        paths = [PlannedPath(one.path, now[one.path], one.after, "restore") for one in files]
        restore.run(moves_for(self._root, paths))
        self._stage_again(row.id, [one for one in half if one.after.kind == "staged"])
        self._log.end_restore(row.id, row.others)
        return [change.path for change in changes]

    def _read_content(self, digest: str) -> bytes:
        try:
            content = self._store.content(bytes.fromhex(digest))
        except StoreError as error:
            raise RestoreFailed(str(error)) from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise RestoreFailed("the stored content of the file is damaged")
        return content


def _is_file(one: PlannedPath) -> bool:
    """Whether it concerns the folder itself rather than staged entries."""
    return one.back.kind != "staged"


def _index_of(change: PathChange) -> str:
    return change.path.partition("\0")[0]
