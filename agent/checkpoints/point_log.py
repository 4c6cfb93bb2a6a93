"""Stores the file changes of turns as undo points. Not thread-safe."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ebbtide.agent.checkpoints.comparison import StateChange
from ebbtide.agent.checkpoints.file_state import FileState, PathChange, merge_changes, parse_state
from ebbtide.agent.checkpoints.undo_points import TurnKey, UndoPoint
from ebbtide.store.checkpoints import CheckpointStore, PathRow, PointRow
from ebbtide.store.errors import StoreError

INTERRUPTED_COMMAND = "the program ended while a command ran"


class PointLog:
    """The stored undo points of a project. Methods raise `StoreError`."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._open_point: dict[TurnKey, int] = {}
        """Maps the turn whose changes are being recorded to its point; empty if no turn is being recorded."""

    def begin_turn(self, turn: TurnKey) -> None:
        """Create the turn's undo point. All changes until the turn ends belong to it, even if the program is killed."""
        with self._store.transaction():
            self._ensure_point(turn)

    def add_changes(self, turn: TurnKey, changes: Sequence[PathChange]) -> None:
        if changes:
            with self._store.transaction():
                point = self._ensure_point(turn)
            self._write(point, changes)

    def finish_turn(self, turn: TurnKey) -> tuple[PathChange, ...]:
        """Finish a turn's undo point and return the turn's changes."""
        point = self._open_point.get(turn)
        if point is None:
            return ()
        changes = [change for change in merge_changes(self.changes(point)) if change.before != change.after]
        with self._store.transaction():  # a turn that only made commits is listed, but has nothing to undo
            is_undoable = any(not change.path.endswith("\0") for change in changes)
            self._store.set_states({point: "done" if is_undoable else "empty"})
        return tuple(changes)

    def interrupted_points(self, session: str, is_session_open: Callable[[str], bool]) -> tuple[int, ...]:
        """Return the points of turns that ended because the program was killed. `is_session_open`: returns whether a
        session is open."""
        return tuple(
            row.id
            for row in self._store.points()
            if row.state == "running"
            and row.id not in self._open_point.values()
            and (row.session == session or not is_session_open(row.session))
        )

    def finish_interrupted_turns(
        self, session: str, changes: Mapping[str, StateChange], is_session_open: Callable[[str], bool]
    ) -> None:
        """Finish the points of turns during which the program was killed. Add the changes made by the interrupted
        command, and note that something else might also have made them."""
        for point in self.interrupted_points(session, is_session_open):
            if changes:
                self._write(point, [PathChange(path, *change, INTERRUPTED_COMMAND) for path, change in changes.items()])
            with self._store.transaction():
                self._store.set_states({point: "done" if self._store.paths(point) else "empty"})

    def points(self, session: str | None = None) -> tuple[UndoPoint, ...]:
        """Return the points that files can be restored to, oldest first."""
        return tuple(
            UndoPoint(
                row.id, row.session, row.position, row.at, row.kind, row.state == "undone", row.title, row.undone_points
            )
            for row in self._store.points(session)
            if row.state in ("done", "undone")
        )

    def changes(self, point: int) -> Iterator[PathChange]:
        for row in self._store.paths(point):
            try:
                yield PathChange(os.fsdecode(row.path), parse_state(row.before), parse_state(row.after), row.doubt)
            except (ValueError, TypeError) as error:
                raise StoreError("corrupt", f"the changes of undo point {point} cannot be read: `{error}`") from error

    def unfinished_restores(self) -> tuple[PointRow, ...]:
        """Return restores that began but did not end."""
        return tuple(row for row in self._store.points() if row.state == "restoring")

    def add_restore(self, turn: TurnKey, kind: str, undone_points: Sequence[int], changes: Sequence[PathChange]) -> int:
        """Add a point for a restore that is about to begin. The point survives a power loss."""
        with self._store.transaction(is_durable=True):
            point = self._store.add_point(turn.session, turn.position, kind, "restoring", turn.title, undone_points)
            self._insert_changes(point, changes)
        return point

    def end_restore(self, point: int, undone_points: Sequence[int], *, has_failed: bool = False) -> None:
        """After a restore, mark the points that it undid as undone. If one of them was itself an undo, the points that
        it had undone are marked as done again."""
        states = {point: "failed" if has_failed else "done"}
        rows = {row.id: row for row in self._store.points()}
        for undone_id in () if has_failed else undone_points:
            states[undone_id] = "undone"
            if undone_id in rows and rows[undone_id].kind != "turn":
                states |= dict.fromkeys(rows[undone_id].undone_points, "done")
        with self._store.transaction(is_durable=True):
            self._store.set_states(states)

    def _ensure_point(self, turn: TurnKey) -> int:
        """Return the id of the turn's undo point, creating the point if needed. Call it inside a transaction."""
        if turn not in self._open_point:
            self._open_point = {turn: self._store.add_point(turn.session, turn.position, "turn", "running", turn.title)}
        else:
            self._store.set_states({self._open_point[turn]: "running"})
        return self._open_point[turn]

    def _write(self, point: int, changes: Sequence[PathChange]) -> None:
        with self._store.transaction():
            self._insert_changes(point, changes)

    def _insert_changes(self, point: int, changes: Sequence[PathChange]) -> None:
        rows = [
            PathRow(os.fsencode(change.path), str(change.before), str(change.after), change.other_cause)
            for change in changes
        ]
        self._store.add_paths(
            point, rows, _digests(state for change in changes for state in (change.before, change.after))
        )


def _digests(states: Iterable[FileState]) -> Iterator[bytes]:
    return (bytes.fromhex(state.digest) for state in states if state.kind in ("file", "link"))
