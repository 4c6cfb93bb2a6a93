"""Points taken back as planned, by one program at a time, and what a killed one has left of that finished."""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.checkpoints.file_state import FileState, PathChange, PlannedPath, RestorePlan, is_half_way
from agent.checkpoints.point_log import PointLog
from agent.checkpoints.restore import Restore, moves_for
from agent.checkpoints.undo_points import PointKind, Restored, TurnPlace
from agent.errors import RestoreFailed
from store.checkpoints import CheckpointStore, PointRow
from store.errors import StoreError


class Recovery:
    """Methods raise `RestoreFailed` and `StoreError`."""

    def __init__(
        self,
        root: str,
        folder: Path,
        store: CheckpointStore,
        log: PointLog,
        states: Callable[[Iterable[str]], dict[str, FileState]],
    ) -> None:
        """`folder`: where the checkpoints are. `states`: what stands at paths now, kept."""
        self._root = root
        self._folder = folder
        self._store = store
        self._log = log
        self._states = states

    def restore(self, plan: RestorePlan, turn: TurnPlace, kind: PointKind, *, forced: bool) -> Restored:
        """Takes points back, as planned, `forced` also over what others have changed."""
        with self.alone() as is_alone:
            if not is_alone:
                raise RestoreFailed("nothing was changed: another program brings files of this folder back just now")
            moves = moves_for(self._root, plan.chosen(forced=forced))
            changes = [PathChange(move.path, move.now, move.back) for move in moves]
            point = self._log.add_restore(turn, kind, plan.points, changes)
            try:
                Restore(self._root, point, self._read).run(moves)
            except RestoreFailed:
                self._log.end_restore(point, plan.points, failed=True)
                raise
            self._log.end_restore(point, plan.points)
        left = (*plan.of("cannot"), *(() if forced else plan.of("ask")))
        files = [move.path for move in moves if not {move.now.kind, move.back.kind} <= {"folder", "absent"}]
        return Restored(point, tuple(files), left)

    def finish(self) -> tuple[str, ...]:
        """Finishes what a killed process has left half-way; which files that was about. Nothing is done while another
        process brings files back."""
        if not self._log.restoring():
            return ()
        with self.alone() as is_alone:
            left = self._log.restoring() if is_alone else ()
            return tuple(path for row in left for path in self._finished(row))

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether nobody else brings files of the project back, and then nobody does meanwhile."""
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

    def _finished(self, row: PointRow) -> list[str]:
        changes = tuple(self._log.changes(row.id))
        restore = Restore(self._root, row.id, self._read)
        restore.clear(change.path for change in changes)
        now = self._states(change.path for change in changes)
        paths = [
            PlannedPath(change.path, now[change.path], change.after, "restore")
            for change in changes
            if now[change.path] != change.after and is_half_way(change, now[change.path])
        ]
        restore.run(moves_for(self._root, paths))
        self._log.end_restore(row.id, row.others)
        return [change.path for change in changes]

    def _read(self, digest: str) -> bytes:
        try:
            content = self._store.content(bytes.fromhex(digest))
        except StoreError as error:
            raise RestoreFailed(str(error)) from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise RestoreFailed("what the file held is damaged where it was kept")
        return content
