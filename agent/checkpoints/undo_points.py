"""Undo points, and which of them `/undo` and `/redo` refer to. No I/O."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias

from ebbtide.agent.checkpoints.file_state import PlannedPath
from ebbtide.agent.errors import UsageError
from ebbtide.tools.lazy import dataclass

PointKind: TypeAlias = Literal["turn", "undo", "redo", "rewind"]


@dataclass(frozen=True, slots=True)
class TurnKey:
    """Identifies the turn to which changes belong."""

    session: str
    position: int
    """Number of messages in the session when the turn began."""
    title: str = ""


@dataclass(frozen=True, slots=True)
class UndoPoint:
    id: int
    session: str
    position: int
    at: float
    """Unix seconds."""
    kind: str
    """`turn`; for a restore that undid other points, `undo`, `redo` or `rewind`."""
    is_undone: bool
    title: str
    undone_points: tuple[int, ...] = ()
    """For a restore, the points that it undid."""

    @property
    def turn_key(self) -> TurnKey:
        return TurnKey(self.session, self.position, self.title)


@dataclass(frozen=True, slots=True)
class RestoreResult:
    point: int
    """The point to undo in order to revert this restore."""
    files: tuple[str, ...]
    unrestored: tuple[PlannedPath, ...] = ()
    """Paths that were not restored."""
    staged_count: int = 0
    """Number of staged entries that were restored."""


def points_of_lineage(points: Sequence[UndoPoint], message_counts: Mapping[str, int]) -> tuple[UndoPoint, ...]:
    """Return the points of a session and of the sessions from which it was forked. `message_counts`: for each of these
    sessions, the number of its messages that belong to the lineage."""
    return tuple(point for point in points if point.position < message_counts.get(point.session, 0))


def next_undo(points: Sequence[UndoPoint]) -> UndoPoint | None:
    """Return the newest turn that has not been undone."""
    return next((point for point in reversed(points) if point.kind == "turn" and not point.is_undone), None)


def next_redo(points: Sequence[UndoPoint]) -> UndoPoint | None:
    """Return the last undo, unless a turn has changed files since."""
    for point in reversed(points):
        if point.kind == "turn" and not point.is_undone:
            newest = point.id
            break
    else:
        newest = 0
    undos = [point for point in points if point.kind in ("undo", "rewind") and not point.is_undone]
    return undos[-1] if undos and undos[-1].id > newest else None


def selected_point(points: Sequence[UndoPoint], point_id: int | None, *, is_redo: bool) -> UndoPoint:
    """Return the point with this id. Without an id, return the next point to undo or redo. Raises `UsageError`."""
    if point_id is not None and is_redo:
        raise UsageError("`--redo` takes no id: `ebb undo ID` also reverts an undo")
    if point_id is not None:
        selected = next((point for point in points if point.id == point_id), None)
        if selected is None:
            raise UsageError(f"no undo point {point_id}; see `ebb undo --list`")
        if selected.is_undone:
            raise UsageError(f"point {point_id} is already undone; `ebb undo --list` shows by which")
        return selected
    next_point = next_redo(points) if is_redo else next_undo(points)
    if next_point is None:
        raise UsageError(
            "nothing to redo: nothing was undone, or files have changed since"
            if is_redo
            else "nothing to undo: no recorded turn changed files here"
        )
    return next_point


def turns_since(
    points: Sequence[UndoPoint], sessions: Collection[str], message_time: float, own_session: str, position: int
) -> tuple[UndoPoint, ...]:
    """Return the turns of these sessions since a message in `own_session`, except undone turns. Compares turns by
    position within `own_session`, and by id elsewhere if possible, because the clock might have gone backwards.
    `message_time`: the message's time in Unix seconds; `position`: its position."""
    own_turns = [point for point in points if point.kind == "turn" and point.session == own_session]
    last_id_before = max((point.id for point in own_turns if point.position < position), default=-1)
    first_id_since = min((point.id for point in own_turns if point.position >= position), default=None)

    def is_since(point: UndoPoint) -> bool:
        if point.session == own_session:
            return point.position >= position
        has_later_id = first_id_since is not None and point.id > first_id_since
        return has_later_id or (point.at >= message_time and point.id > last_id_before)

    turns = (point for point in points if point.kind == "turn" and not point.is_undone and point.session in sessions)
    return tuple(filter(is_since, turns))
