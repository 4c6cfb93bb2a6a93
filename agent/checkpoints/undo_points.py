"""Undo points, and which of them `/undo` and `/redo` refer to. Plain values."""

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
    """`turn`; or for a restore that undid other points, `undo`, `redo` or `rewind`."""
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
    """Return the points of a session and of its fork ancestors. `message_counts`: for each of these sessions, the
    number of its messages that belong to the lineage."""
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


def selected_point(points: Sequence[UndoPoint], id: int | None, *, redo: bool) -> UndoPoint:
    """Return the point with this id. Without an id, return the next point to undo or redo. Raises `UsageError`."""
    if id is not None and redo:
        raise UsageError("`--redo` takes no id: `ebb undo ID` also reverts an undo")
    if id is not None:
        named = next((point for point in points if point.id == id), None)
        if named is None:
            raise UsageError(f"no undo point {id}; see `ebb undo --list`")
        if named.is_undone:
            raise UsageError(f"point {id} is already undone; `ebb undo --list` shows by which")
        return named
    found = next_redo(points) if redo else next_undo(points)
    if found is None:
        raise UsageError(
            "nothing to redo: nothing was undone, or files have changed since"
            if redo
            else "nothing to undo: no recorded turn changed files here"
        )
    return found


def turns_since(
    points: Sequence[UndoPoint], sessions: Collection[str], at: float, own_session: str, position: int
) -> tuple[UndoPoint, ...]:
    """Return the turns of these sessions since a message in `own_session`, except undone ones. `at`: the message's time
    in Unix seconds; `position`: its position. The clock may have been set back, so turns of `own_session` are compared
    by position, and other turns are compared with those by id where possible."""
    own = [point for point in points if point.kind == "turn" and point.session == own_session]
    last_before = max((point.id for point in own if point.position < position), default=-1)
    first_since = min((point.id for point in own if point.position >= position), default=None)

    def is_since(point: UndoPoint) -> bool:
        if point.session == own_session:
            return point.position >= position
        is_behind = first_since is not None and point.id > first_since
        return is_behind or (point.at >= at and point.id > last_before)

    turns = (point for point in points if point.kind == "turn" and not point.is_undone and point.session in sessions)
    return tuple(filter(is_since, turns))
