"""What a path of the workspace was before something and after it, and what taking that back would do. Plain values: it
knows no disk."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

Kind: TypeAlias = Literal["absent", "file", "link", "folder", "staged", "large", "unreadable", "special", "unknown"]
STORED_KINDS: frozenset[Kind] = frozenset(("absent", "file", "link", "folder", "staged"))

WHY: Mapping[Kind, str] = {
    "large": "it was too large to be kept",
    "unreadable": "it could not be read",
    "special": "it was neither a file nor a link nor a folder",
    "unknown": "what it held before is not known",
}
CONTENT_LOST = "what it held is damaged where it was kept, or went from there"
_DIGEST = 32
"""Bytes of one."""


@dataclass(frozen=True, slots=True)
class FileState:
    """What stood at a path."""

    kind: Kind = "absent"
    mode: int = 0
    """Permission bits of files and folders."""
    digest: str = ""
    """The SHA-256 of a file's bytes, or of where a link points; what is staged; what tells others apart from each
    other."""

    @property
    def is_stored(self) -> bool:
        return self.kind in STORED_KINDS

    def __str__(self) -> str:
        return f"{self.kind} {self.mode:o} {self.digest}"


ABSENT = FileState()


def read_state(text: str) -> FileState:
    """A state from its text. Raises `ValueError` when it makes no sense."""
    kind, mode, digest = text.split(" ", 2)
    if kind in ("file", "link") and len(bytes.fromhex(digest)) != _DIGEST:
        raise ValueError(text)
    known: dict[str, Kind] = {kind: kind for kind in (*STORED_KINDS, *WHY)}
    return FileState(known.get(kind, "unknown"), int(mode, 8), digest)


@dataclass(frozen=True, slots=True)
class PathChange:
    """A path that was changed. Paths are relative to the workspace, with `/`, or absolute where they lie outside it;
    that of what is staged is the path of the index, a NUL, and the path in the repository."""

    path: str
    before: FileState
    after: FileState
    doubt: str = ""
    """Why somebody else may have had a hand in it; empty where nobody had."""


@dataclass(frozen=True, slots=True)
class TurnChanges:
    """What a turn changed in files."""

    files: tuple[str, ...] = ()
    added: int = 0
    """Lines of texts, as far as their content is kept."""
    removed: int = 0


Outcome: TypeAlias = Literal["restore", "as_before", "ask", "cannot"]


@dataclass(frozen=True, slots=True)
class PlannedPath:
    """What taking back would do with a path."""

    path: str
    now: FileState
    back: FileState
    outcome: Outcome
    """`ask`: somebody else has changed it, too, and that would be lost."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    points: tuple[int, ...]
    paths: tuple[PlannedPath, ...]

    def of(self, *outcomes: Outcome) -> tuple[PlannedPath, ...]:
        return tuple(one for one in self.paths if one.outcome in outcomes)

    def paths_to_restore(self, *, forced: bool) -> tuple[PlannedPath, ...]:
        """What is brought back: with `forced` also over what others have changed."""
        return self.of("restore", "ask") if forced else self.of("restore")


BETWEEN = "it was changed in between, and not by this agent"
SINCE = "it was changed since, and not by this agent"
UNKNOWN_STAGED = "\0\0"
"""The end of the path of what is staged where only that it changed can be told."""
SPLIT = "git keeps it in parts that are not read here: a split or sparse index"
HEAD_MOVED = "commits were made or another branch is there: these stay"
TOGETHER = "another session worked in this folder at the same time"
IN_JOB = "it changed while a command ran in the background"


def compose_changes(changes: Iterable[PathChange]) -> tuple[PathChange, ...]:
    """Changes one after the other as one for each path: from what it held first to what it held last."""
    found: dict[str, PathChange] = {}
    for change in changes:
        first = found.get(change.path)
        if first is None:
            found[change.path] = change
            continue
        doubt = first.doubt or change.doubt or ("" if first.after == change.before else BETWEEN)
        found[change.path] = PathChange(change.path, first.before, change.after, doubt)
    return tuple(found.values())


def is_half_way(change: PathChange, now: FileState) -> bool:
    """Whether a path is as a change that was cut off can have left it."""
    if now == change.before:
        return True
    if change.after.kind == "folder":
        return now.kind in ("absent", "folder")
    if now.kind == "folder" and change.before.kind == "folder":
        return True  # it was opened, so that what is in it can go
    return now == ABSENT and change.before.kind == "folder"  # what is to stand there comes after it goes


def plan_restore(
    points: Sequence[int], changes: Iterable[PathChange], now: Mapping[str, FileState], blocked: Mapping[str, str]
) -> RestorePlan:
    """What taking changes back would do, from how the paths are now. `blocked`: paths that cannot be reached, each with
    the one above it where no folder is now."""
    paths = {change.path: _plan_path(change, now[change.path]) for change in changes}
    found = (_behind(one, blocked[one.path], paths) if one.path in blocked else one for one in paths.values())
    return RestorePlan(tuple(points), tuple(found))


def _behind(one: PlannedPath, above: str, paths: Mapping[str, PlannedPath]) -> PlannedPath:
    """A path comes back only where what is in its way makes place."""
    blocker = paths.get(above)
    if one.outcome not in ("restore", "ask") or (blocker is not None and blocker.outcome == "restore"):
        return one
    if blocker is not None and blocker.outcome == "ask":
        return replace(one, outcome="ask", why=blocker.why)
    return replace(one, outcome="cannot", why=f"`{above}` is in its way, which is no folder now")


def _plan_staged(change: PathChange, now: FileState) -> PlannedPath:
    """Staged again only if nobody else has had a hand in it, and it is held against the same commit."""
    heads = {state.digest.partition("|")[0] for state in (change.before, change.after, now)}
    split = SPLIT if change.path.endswith(UNKNOWN_STAGED) else ""
    why = (
        split
        or WHY.get(now.kind, "")
        or (HEAD_MOVED if len(heads) > 1 else change.doubt or ("" if now == change.after else SINCE))
    )
    return PlannedPath(change.path, now, change.before, "cannot" if why else "restore", why)


def _plan_path(change: PathChange, now: FileState) -> PlannedPath:
    back = change.before
    if now == back:
        return PlannedPath(change.path, now, back, "as_before")
    if "staged" in (now.kind, back.kind):
        return _plan_staged(change, now)
    if not back.is_stored:
        return PlannedPath(change.path, now, back, "cannot", WHY[back.kind])
    if not now.is_stored:
        return PlannedPath(change.path, now, back, "cannot", f"what is there now could not be kept: {WHY[now.kind]}")
    if now.kind == "folder" and back.kind == "folder" and change.before.kind == change.after.kind == "folder":
        return PlannedPath(change.path, now, back, "restore")
    if now.kind == "folder" and back.kind == "absent":
        return PlannedPath(change.path, now, back, "restore")  # only where it is empty
    if change.doubt:
        return PlannedPath(change.path, now, back, "ask", change.doubt)
    if now != change.after:
        return PlannedPath(change.path, now, back, "ask", SINCE)
    return PlannedPath(change.path, now, back, "restore")


def path_label(path: str) -> str:
    """A path as people read it."""
    index, is_staged, entry = path.partition("\0")
    if not is_staged:
        return path
    above = index.removesuffix(".git/index") if index.endswith(".git/index") else ""
    if path.endswith(UNKNOWN_STAGED):
        return f"{above or '.'} (what is staged)"
    return f"{above}{entry} (staged)" if entry else f"{above or '.'} (commits and branches)"
