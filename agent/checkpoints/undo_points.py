"""Undo points, and which of them `/undo` and `/redo` refer to. Plain values."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias

from ebbtide.agent.checkpoints.file_state import PlannedPath
from ebbtide.agent.errors import UsageError
from ebbtide.tools.lazy import dataclass

PointKind: TypeAlias = Literal["turn", "undo", "redo", "rewind"]


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """The turn that changes are recorded for."""

    session: str
    position: int
    """How many messages the session had when the turn began."""
    title: str = ""


@dataclass(frozen=True, slots=True)
class UndoPoint:
    id: int
    session: str
    position: int
    at: float
    """Unix seconds."""
    kind: str
    """A turn, or what undid one: `undo`, `redo` or `rewind`."""
    is_undone: bool
    title: str
    others: tuple[int, ...] = ()
    """The points that it undid."""

    @property
    def place(self) -> TurnPlace:
        return TurnPlace(self.session, self.position, self.title)


@dataclass(frozen=True, slots=True)
class RestoreResult:
    point: int
    """The point that undoes this."""
    files: tuple[str, ...]
    left: tuple[PlannedPath, ...] = ()
    """Paths that were not restored."""
    staged: int = 0
    """Number of staged entries that were restored."""


def points_of_lineage(points: Sequence[UndoPoint], line: Mapping[str, int]) -> tuple[UndoPoint, ...]:
    """The points of a session and of the sessions it was forked from. `line`: how many messages of each belong to
    it."""
    return tuple(point for point in points if point.position < line.get(point.session, 0))


def to_undo(points: Sequence[UndoPoint]) -> UndoPoint | None:
    """The newest turn that has not been undone."""
    return next((point for point in reversed(points) if point.kind == "turn" and not point.is_undone), None)


def to_redo(points: Sequence[UndoPoint]) -> UndoPoint | None:
    """The last undo, unless a turn has changed files since."""
    for point in reversed(points):
        if point.kind == "turn" and not point.is_undone:
            newest = point.id
            break
    else:
        newest = 0
    back = [point for point in points if point.kind in ("undo", "rewind") and not point.is_undone]
    return back[-1] if back and back[-1].id > newest else None


def chosen_point(points: Sequence[UndoPoint], id: int | None, *, redo: bool) -> UndoPoint:
    """The point with this id, or else the next one to undo or redo. Raises `UsageError`."""
    if id is not None and redo:
        raise UsageError("`--redo` takes no id: `ebb undo ID` also reverts an undo")
    if id is not None:
        named = next((point for point in points if point.id == id), None)
        if named is None:
            raise UsageError(f"no undo point {id}; see `ebb undo --list`")
        if named.is_undone:
            raise UsageError(f"point {id} is already undone; `ebb undo --list` shows by which")
        return named
    found = to_redo(points) if redo else to_undo(points)
    if found is None:
        raise UsageError(
            "nothing to redo: nothing was undone, or files have changed since"
            if redo
            else "nothing to undo: no recorded turn changed files here"
        )
    return found


def turns_since(
    points: Sequence[UndoPoint], sessions: Collection[str], at: float, said_in: str, position: int
) -> tuple[UndoPoint, ...]:
    """The turns of these sessions, not undone, since a message in one of them. `at`: its time in Unix seconds.
    Clocks may be set back, so its own session is ordered by position, and other sessions are compared with its
    turns where possible."""
    own = [point for point in points if point.kind == "turn" and point.session == said_in]
    last_before = max((point.id for point in own if point.position < position), default=-1)
    first_since = min((point.id for point in own if point.position >= position), default=None)

    def is_since(point: UndoPoint) -> bool:
        if point.session == said_in:
            return point.position >= position
        is_behind = first_since is not None and point.id > first_since
        return is_behind or (point.at >= at and point.id > last_before)

    turns = (point for point in points if point.kind == "turn" and not point.is_undone and point.session in sessions)
    return tuple(filter(is_since, turns))
