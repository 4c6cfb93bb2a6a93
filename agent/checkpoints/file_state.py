"""The states of paths before and after a change, and plans for restoring them. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

PathKind: TypeAlias = Literal["absent", "file", "link", "folder", "staged", "large", "unreadable", "special", "unknown"]
STORED_KINDS: frozenset[PathKind] = frozenset(("absent", "file", "link", "folder", "staged"))

UNSTORED_REASONS: Mapping[PathKind, str] = {
    "large": "it was too large to store",
    "unreadable": "it could not be read",
    "special": "it was not a file, link or folder",
    "unknown": "its previous content is unknown",
}
CONTENT_LOST = "its stored content is damaged or missing"
_DIGEST_BYTES = 32
"""Length of a digest, in bytes."""


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of a path."""

    kind: PathKind = "absent"
    mode: int = 0
    """Permission bits of files and folders."""
    digest: str = ""
    """The SHA-256 of a file's content or of a link's target, in hexadecimal. For a staged entry, the entry itself. For
    anything else, a value that changes when the path does."""

    @property
    def is_stored(self) -> bool:
        return self.kind in STORED_KINDS

    def __str__(self) -> str:
        return f"{self.kind} {self.mode:o} {self.digest}"


ABSENT = FileState()


def parse_state(text: str) -> FileState:
    """Parse a state. Raises `ValueError` if it is invalid."""
    kind, mode, digest = text.split(" ", 2)
    if kind in ("file", "link") and len(bytes.fromhex(digest)) != _DIGEST_BYTES:
        raise ValueError(text)
    kinds_by_text: dict[str, PathKind] = {kind: kind for kind in (*STORED_KINDS, *UNSTORED_REASONS)}
    return FileState(kinds_by_text.get(kind, "unknown"), int(mode, 8), digest)


@dataclass(frozen=True, slots=True)
class PathChange:
    """A changed path. It is written with `/`, and relative to the workspace, or absolute if outside it. The path of
    a staged entry consists of the path of the index, a NUL, and the path in the repository."""

    path: str
    before: FileState
    after: FileState
    other_cause: str = ""
    """Why something other than the turn might also have changed the path; empty if only the turn did."""


@dataclass(frozen=True, slots=True)
class TurnChanges:
    """The files that a turn changed."""

    files: tuple[str, ...] = ()
    added_line_count: int = 0
    """Number of added lines in files whose content is stored."""
    removed_line_count: int = 0


RestoreOutcome: TypeAlias = Literal["restore", "unchanged", "ask", "impossible"]


@dataclass(frozen=True, slots=True)
class PlannedPath:
    """What a restore would do with a path."""

    path: str
    current: FileState
    target: FileState
    outcome: RestoreOutcome
    """`ask`: something else has also changed the path, and the restore would overwrite that change."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    points: tuple[int, ...]
    paths: tuple[PlannedPath, ...]

    def paths_with_outcome(self, *outcomes: RestoreOutcome) -> tuple[PlannedPath, ...]:
        return tuple(path for path in self.paths if path.outcome in outcomes)

    def paths_to_restore(self, *, is_forced: bool) -> tuple[PlannedPath, ...]:
        """Return the paths to restore. With `is_forced`, paths that something else has changed are included."""
        return self.paths_with_outcome("restore", "ask") if is_forced else self.paths_with_outcome("restore")


CHANGED_IN_BETWEEN = "something else changed it in between"
CHANGED_SINCE = "something else has changed it since"
UNREADABLE_INDEX_SUFFIX = "\0\0"
"""Path suffix that marks a changed index whose entries cannot be read."""
UNSUPPORTED_INDEX = "split and sparse indexes are not supported"
HEAD_MOVED = "commits or the branch changed; these are not undone"
CHANGED_BY_OTHER_SESSION = "another session worked in this folder at the same time"
CHANGED_DURING_JOB = "it changed while a command ran in the background"
CHANGED_UNREPORTED = "the system did not report when it changed"


def merge_changes(changes: Iterable[PathChange]) -> tuple[PathChange, ...]:
    """Merge consecutive changes into one per path, from its first to its last state."""
    changes_by_path: dict[str, PathChange] = {}
    for change in changes:
        previous = changes_by_path.get(change.path)
        if previous is None:
            changes_by_path[change.path] = change
            continue
        doubt = (
            previous.other_cause
            or change.other_cause
            or ("" if previous.after == change.before else CHANGED_IN_BETWEEN)
        )
        changes_by_path[change.path] = PathChange(change.path, previous.before, change.after, doubt)
    return tuple(changes_by_path.values())


def is_interrupted_state(change: PathChange, current: FileState) -> bool:
    """Whether an interrupted change might have left a path in this state."""
    if current == change.before:
        return True
    if change.after.kind == "folder":
        return current.kind in ("absent", "folder")
    if current.kind == "folder" and change.before.kind == "folder":
        return True  # the restore may have changed its mode to delete its content
    return (
        current == ABSENT and change.before.kind == "folder"
    )  # the folder is deleted before its replacement is created


def plan_restore(
    points: Sequence[int],
    changes: Iterable[PathChange],
    current_states: Mapping[str, FileState],
    blocking_paths: Mapping[str, str],
) -> RestorePlan:
    """Plan a restore from the current states of the paths. `blocking_paths`: for each path that cannot be reached, its
    ancestor that is not a folder."""
    paths = {change.path: _plan_path(change, current_states[change.path]) for change in changes}
    planned_paths = (
        _plan_blocked_path(planned, blocking_paths[planned.path], paths) if planned.path in blocking_paths else planned
        for planned in paths.values()
    )
    return RestorePlan(tuple(points), tuple(planned_paths))


def _plan_blocked_path(planned: PlannedPath, blocking_path: str, paths: Mapping[str, PlannedPath]) -> PlannedPath:
    """Plan a path that is blocked because its ancestor `blocking_path` is not a folder. It can be restored only if the
    plan also removes that ancestor."""
    blocker = paths.get(blocking_path)
    if planned.outcome not in ("restore", "ask") or (blocker is not None and blocker.outcome == "restore"):
        return planned
    if blocker is not None and blocker.outcome == "ask":
        return replace(planned, outcome="ask", reason=blocker.reason)
    return replace(planned, outcome="impossible", reason=f"`{blocking_path}` is in the way and is not a folder now")


def _plan_staged(change: PathChange, current: FileState) -> PlannedPath:
    """Plan to restore a staged entry, if nothing else has changed it and the head commit is the same."""
    heads = {state.digest.partition("|")[0] for state in (change.before, change.after, current)}
    unsupported = UNSUPPORTED_INDEX if change.path.endswith(UNREADABLE_INDEX_SUFFIX) else ""
    problem = (
        unsupported
        or UNSTORED_REASONS.get(current.kind, "")
        or (HEAD_MOVED if len(heads) > 1 else change.other_cause or ("" if current == change.after else CHANGED_SINCE))
    )
    return PlannedPath(change.path, current, change.before, "impossible" if problem else "restore", problem)


def _plan_path(change: PathChange, current: FileState) -> PlannedPath:
    target = change.before
    if current == target:
        return PlannedPath(change.path, current, target, "unchanged")
    if "staged" in (current.kind, target.kind):
        return _plan_staged(change, current)
    if not target.is_stored:
        return PlannedPath(change.path, current, target, "impossible", UNSTORED_REASONS[target.kind])
    if not current.is_stored:
        return PlannedPath(
            change.path,
            current,
            target,
            "impossible",
            f"the current content could not be stored: {UNSTORED_REASONS[current.kind]}",
        )
    if current.kind == "folder" and target.kind == "folder" and change.before.kind == change.after.kind == "folder":
        return PlannedPath(change.path, current, target, "restore")
    if current.kind == "folder" and target.kind == "absent":
        return PlannedPath(change.path, current, target, "restore")  # the folder is removed only if it is empty
    if change.other_cause:
        return PlannedPath(change.path, current, target, "ask", change.other_cause)
    if current != change.after:
        return PlannedPath(change.path, current, target, "ask", CHANGED_SINCE)
    return PlannedPath(change.path, current, target, "restore")


def path_label(path: str) -> str:
    """Return the name of a path for display."""
    index, is_staged, entry = path.partition("\0")
    if not is_staged:
        return path
    folder = index.removesuffix(".git/index") if index.endswith(".git/index") else ""
    if path.endswith(UNREADABLE_INDEX_SUFFIX):
        return f"{folder or '.'} (staged changes)"
    return f"{folder}{entry} (staged)" if entry else f"{folder or '.'} (commits and branches)"
