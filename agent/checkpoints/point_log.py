"""Stores the changes of turns as undo points. For one thread at a time."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ebbtide.agent.checkpoints.comparison import Change
from ebbtide.agent.checkpoints.file_state import FileState, PathChange, compose_changes, read_state
from ebbtide.agent.checkpoints.undo_points import TurnPlace, UndoPoint
from ebbtide.store.checkpoints import CheckpointStore, PathRow, PointRow
from ebbtide.store.errors import StoreError

CUT_OFF = "the program ended while a command ran"


class PointLog:
    """Methods raise `StoreError`."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._open: dict[TurnPlace, int] = {}
        """The point of the turn whose changes are being recorded."""

    def begin(self, turn: TurnPlace) -> None:
        """Begin a turn's point: all changes until its end belong to it, even if the program is killed."""
        with self._store.transaction():
            self._point(turn)

    def add(self, turn: TurnPlace, changes: Sequence[PathChange]) -> None:
        if changes:
            with self._store.transaction():
                point = self._point(turn)
            self._write(point, changes)

    def finish(self, turn: TurnPlace) -> tuple[PathChange, ...]:
        """End a turn's point and return the turn's changes."""
        point = self._open.get(turn)
        if point is None:
            return ()
        changes = [change for change in compose_changes(self.changes(point)) if change.before != change.after]
        with self._store.transaction():  # new commits can be shown, but not undone
            self._store.set_state({point: "done" if any(not one.path.endswith("\0") for one in changes) else "empty"})
        return tuple(changes)

    def interrupted_points(self, session: str, is_at_work: Callable[[str], bool]) -> tuple[int, ...]:
        """The points of turns whose program was killed. `is_at_work`: whether another session is open."""
        return tuple(
            row.id
            for row in self._store.points()
            if row.state == "running"
            and row.id not in self._open.values()
            and (row.session == session or not is_at_work(row.session))
        )

    def finish_interrupted(self, session: str, found: Mapping[str, Change], is_at_work: Callable[[str], bool]) -> None:
        """Add changes found after the program was killed during a command to that turn, marked as doubtful."""
        for point in self.interrupted_points(session, is_at_work):
            if found:
                self._write(point, [PathChange(path, *change, CUT_OFF) for path, change in found.items()])
            with self._store.transaction():
                self._store.set_state({point: "done" if self._store.paths(point) else "empty"})

    def points(self, session: str | None = None) -> tuple[UndoPoint, ...]:
        """The points that files can be restored to, oldest first."""
        return tuple(
            UndoPoint(row.id, row.session, row.position, row.at, row.kind, row.state == "undone", row.title, row.others)
            for row in self._store.points(session)
            if row.state in ("done", "undone")
        )

    def changes(self, point: int) -> Iterator[PathChange]:
        for row in self._store.paths(point):
            try:
                yield PathChange(os.fsdecode(row.path), read_state(row.before), read_state(row.after), row.told)
            except (ValueError, TypeError) as error:
                raise StoreError("corrupt", f"what point {point} changed cannot be read: `{error}`") from error

    def unfinished_restores(self) -> tuple[PointRow, ...]:
        """Restores that began but did not end."""
        return tuple(row for row in self._store.points() if row.state == "restoring")

    def add_restore(self, turn: TurnPlace, kind: str, of: Sequence[int], changes: Sequence[PathChange]) -> int:
        """Add a point for a restore that is about to begin. It survives a power loss."""
        with self._store.transaction(durable=True):
            point = self._store.add_point(turn.session, turn.position, kind, "restoring", turn.title, of)
            self._insert_changes(point, changes)
        return point

    def end_restore(self, point: int, others: Sequence[int], *, failed: bool = False) -> None:
        """Mark the points that a restore undid as undone, and those that these had undone as done again."""
        states = {point: "failed" if failed else "done"}
        known = {row.id: row for row in self._store.points()}
        for other in () if failed else others:
            states[other] = "undone"
            if other in known and known[other].kind != "turn":
                states |= dict.fromkeys(known[other].others, "done")
        with self._store.transaction(durable=True):
            self._store.set_state(states)

    def _point(self, turn: TurnPlace) -> int:
        """Call it inside a transaction."""
        if turn not in self._open:
            self._open = {turn: self._store.add_point(turn.session, turn.position, "turn", "running", turn.title)}
        else:
            self._store.set_state({self._open[turn]: "running"})
        return self._open[turn]

    def _write(self, point: int, changes: Sequence[PathChange]) -> None:
        with self._store.transaction():
            self._insert_changes(point, changes)

    def _insert_changes(self, point: int, changes: Sequence[PathChange]) -> None:
        rows = [PathRow(os.fsencode(one.path), str(one.before), str(one.after), one.doubt) for one in changes]
        self._store.add_paths(point, rows, _digests(state for one in changes for state in (one.before, one.after)))


def _digests(states: Iterable[FileState]) -> Iterator[bytes]:
    return (bytes.fromhex(state.digest) for state in states if state.kind in ("file", "link"))
