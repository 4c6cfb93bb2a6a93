"""The checkpoints of one project: what each turn changed in its files, and the way back. For one thread at a time."""

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.checkpoints.file_state import (
    IN_JOB,
    FileState,
    PathChange,
    PlannedPath,
    RestorePlan,
    composed,
    is_half_way,
    planned,
    read_state,
)
from agent.checkpoints.folder_record import Folder, decoded_folder
from agent.checkpoints.places import state_at
from agent.checkpoints.restore import Restore, moves_for
from agent.checkpoints.undo_points import PointKind, Restored, TurnPlace, UndoPoint
from agent.checkpoints.work_tree import Change, Found, Limits, Stopped, TooMuch, WorkTree
from agent.errors import RestoreFailed, StoreFailed
from store.checkpoints import CheckpointStore, FolderRow, PathRow, PointRow
from store.errors import StoreError
from store.locks import is_open

NAME = "checkpoints.db"
DAY = 86_400.0
MOST_SHOWN = 500
"""Files that are compared for people to look at."""
IGNORED = "its rules for ignored files changed in the same step: it may have been there before"
CUT_OFF = "the program ended while a command ran"


def folder_for(data: Path, root: Path) -> Path:
    """Where the checkpoints of a project are."""
    return data / "checkpoints" / hashlib.sha256(os.fsencode(root)).hexdigest()[:16]


class ProjectCheckpoints:
    """Methods raise `StoreFailed` and `RestoreFailed`."""

    def __init__(self, data: Path, root: Path, limits: Limits, most_bytes: int) -> None:
        self._data, self._root, self._limits, self._most = data, str(root), limits, most_bytes
        self._folder = folder_for(data, root)
        with _told():
            self._store = _opened(self._folder / NAME)
        self._in_use = os.open(self._folder / "in-use", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._in_use, fcntl.LOCK_SH)  # nothing is removed that somebody is about to need
        self._tree: WorkTree | None = None
        self._last = Found()
        self._too_much = ""
        """Why the folder is not looked at as a whole, once that is known: to find out takes long."""
        self._open: dict[TurnPlace, int] = {}
        """The point of each turn that something was written down for."""

    def close(self) -> None:
        try:
            with _told():
                if self._is_full_or_due():
                    self._collect()
                self._store.close()
        finally:
            os.close(self._in_use)

    def _is_full_or_due(self) -> bool:
        """Whether it takes too much, or nothing was removed for a day."""
        return self._store.size > self._most or time.time() - os.fstat(self._in_use).st_mtime > DAY

    def _collect(self) -> None:
        """Removes garbage, unless another process may be about to need it."""
        with suppress(OSError):
            fcntl.flock(self._in_use, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folders = self._kept_folders().values()
            self._store.collect(self._most, (digest for each in folders for digest in each.digests if digest))
            os.utime(self._in_use)

    # While a turn runs

    def begin(self, turn: TurnPlace, *, in_job: bool, stopped: Callable[[], bool]) -> str:
        """Looks at the files before something may change them. What was changed since the last look is nobody's, but
        `in_job`. Why they are not covered, where they are not."""
        with _told():
            is_first = self._tree is None
            if is_first:
                self.recover()
            found = self._look(stopped)
            if isinstance(found, str):
                return found
            self._finish_cut_off(turn, found if is_first else {})
            if in_job and not is_first:
                self._add(turn, [PathChange(path, *change, IN_JOB) for path, change in found.items()])
            with self._store.transaction():
                self._point(turn, "running")
            return ""

    def end(self, turn: TurnPlace) -> str:
        """Writes down what was changed since `begin`."""
        with _told():
            found = self._look(lambda: False)
            if isinstance(found, str):
                return found
            doubtful = self._last.doubtful
            changes = [PathChange(path, *each, IGNORED if path in doubtful else "") for path, each in found.items()]
            self._add(turn, changes)
            return ""

    def states(self, paths: Iterable[str]) -> dict[str, FileState]:
        """What stands at absolute paths now, kept."""
        with _told():
            found: dict[str, FileState] = {}
            with self._store.keeping() as keep:
                for path in paths:
                    for each in self._with_missing(self._name(path)):
                        found[each] = state_at(self._root, each, self._limits.file_bytes, keep)
            return found

    def changed(self, turn: TurnPlace, before: Mapping[str, FileState]) -> None:
        """Writes down what became of paths."""
        with _told():
            with self._store.keeping() as keep:
                now = {path: state_at(self._root, path, self._limits.file_bytes, keep) for path in before}
            self._add(turn, [PathChange(path, was, now[path]) for path, was in before.items() if was != now[path]])

    def finish(self, turn: TurnPlace) -> tuple[str, ...]:
        """The files that the turn changed, at its end."""
        point = self._open.get(turn)
        if point is None:
            return ()
        with _told():
            changes = [change for change in composed(self._changes(point)) if change.before != change.after]
            with self._store.transaction():
                self._store.set_state({point: "done" if changes else "empty"})
            return tuple(change.path for change in changes if "folder" not in (change.before.kind, change.after.kind))

    # Going back

    def points(self, session: str | None = None) -> tuple[UndoPoint, ...]:
        """The oldest first."""
        with _told():
            return tuple(
                UndoPoint(
                    row.id, row.session, row.position, row.at, row.kind, row.state == "undone", row.title, row.others
                )
                for row in self._store.points(session)
                if row.state in ("done", "undone")
            )

    def changes_of(self, points: Iterable[int]) -> tuple[PathChange, ...]:
        """What they changed, one after the other."""
        with _told():
            found = composed(change for point in sorted(points) for change in self._changes(point))
        return tuple(change for change in found if change.before != change.after or change.doubt)

    def plan(self, points: Sequence[int]) -> RestorePlan:
        """What taking them back would do now. Nothing is changed."""
        self.recover()
        changes = self.changes_of(points)
        with _told():
            with self._store.keeping() as keep:
                now = {
                    change.path: state_at(self._root, change.path, self._limits.file_bytes, keep) for change in changes
                }
            return planned(points, changes, now)

    def contents(self, plan: RestorePlan) -> dict[str, tuple[bytes | None, bytes | None]]:
        """What each path of a plan holds now, and would hold."""
        return {one.path: (self.content(one.now), self.content(one.back)) for one in plan.paths[:MOST_SHOWN]}

    def content(self, state: FileState) -> bytes | None:
        """What a file held, or where a link pointed; None where nothing was, or it is not kept."""
        if state.kind not in ("file", "link"):
            return None
        with suppress(StoreError):
            return self._store.content(bytes.fromhex(state.digest))
        return None

    def restore(self, plan: RestorePlan, turn: TurnPlace, kind: PointKind, *, forced: bool = False) -> Restored:
        """Takes points back, as planned, `forced` also over what others have changed."""
        with self._alone() as is_alone:
            if not is_alone:
                raise RestoreFailed("nothing was changed: another program brings files of this folder back just now")
            return self._restored(plan, turn, kind, forced=forced)

    def _restored(self, plan: RestorePlan, turn: TurnPlace, kind: PointKind, *, forced: bool) -> Restored:
        chosen = plan.chosen(forced=forced)
        moves = moves_for(self._root, chosen)
        with _told():
            with self._store.transaction(durable=True):
                point = self._store.add_point(turn.session, turn.position, kind, "restoring", turn.title, plan.points)
                rows = [PathRow(os.fsencode(move.path), str(move.now), str(move.back), "") for move in moves]
                states = [state for move in moves for state in (move.now, move.back)]
                self._store.add_paths(point, rows, _digests(states))
            try:
                Restore(self._root, point, self._read).run(moves)
            except RestoreFailed:
                with self._store.transaction():
                    self._store.set_state({point: "failed"})
                raise
            self._settle(point, plan.points)
        left = (*plan.of("cannot"), *(() if forced else plan.of("ask")))
        files = [move.path for move in moves if not {move.now.kind, move.back.kind} <= {"folder", "absent"}]
        return Restored(point, tuple(files), left)

    def recover(self) -> tuple[str, ...]:
        """Finishes what a killed process has left half-way; which files that was about. Nothing is done while another
        process brings files back."""
        with _told():
            if all(row.state != "restoring" for row in self._store.points()):
                return ()
            with self._alone() as is_alone:
                left = [row for row in self._store.points() if row.state == "restoring"] if is_alone else []
                return tuple(path for row in left for path in self._finish_restore(row))

    @contextmanager
    def _alone(self) -> Iterator[bool]:
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

    def _finish_restore(self, row: PointRow) -> list[str]:
        changes = tuple(self._changes(row.id))
        restore = Restore(self._root, row.id, self._read)
        restore.clear(change.path for change in changes)
        with self._store.keeping() as keep:
            now = {change.path: state_at(self._root, change.path, self._limits.file_bytes, keep) for change in changes}
        paths = [
            PlannedPath(change.path, now[change.path], change.after, "restore")
            for change in changes
            if now[change.path] != change.after and is_half_way(change, now[change.path])
        ]
        restore.run(moves_for(self._root, paths))
        self._settle(row.id, row.others)
        return [change.path for change in changes]

    def _settle(self, point: int, others: Sequence[int]) -> None:
        """The restore is done. What it took back is undone; what that had taken back is done again."""
        states = {point: "done"}
        known = {row.id: row for row in self._store.points()}
        for other in others:
            states[other] = "undone"
            if other in known and known[other].kind != "turn":
                states |= dict.fromkeys(known[other].others, "done")
        with self._store.transaction(durable=True):
            self._store.set_state(states)

    # Looking and writing down

    def _look(self, stopped: Callable[[], bool]) -> dict[str, Change] | str:
        tree = self._tree
        if self._too_much:
            return self._too_much
        if tree is None:
            self._too_much = unbounded(Path(self._root))
            if self._too_much:
                return self._too_much
            tree = WorkTree(self._root, (str(self._data),), self._kept_folders())
        try:
            with self._store.keeping() as keep:
                found = tree.look(self._limits, keep, stopped)
        except TooMuch as error:
            self._too_much = str(error)
            return self._too_much
        except Stopped:
            return "it was interrupted while the files were looked at"
        except OSError as error:
            return f"the folder cannot be read: {error.strerror or error}"
        rows = [FolderRow(os.fsencode(name), tree.folders[name].encoded()) for name in found.touched]
        if rows or found.gone:
            with self._store.transaction():
                self._store.put_folders(rows, map(os.fsencode, found.gone))
        self._tree, self._last = tree, found
        return found.changes

    def _kept_folders(self) -> dict[str, Folder]:
        folders = {}
        for row in self._store.folders():
            with suppress(ValueError, OverflowError):
                folders[os.fsdecode(row.path)] = decoded_folder(row.body)
        return folders if "" in folders else {}

    def _finish_cut_off(self, turn: TurnPlace, found: Mapping[str, Change]) -> None:
        """What was changed while a command ran whose program was killed is that turn's, with a doubt."""
        for row in self._store.points():
            is_ours = row.session == turn.session
            if row.state != "running" or row.id in self._open.values():
                continue
            if not is_ours and is_open(self._data / "locks", row.session):
                continue
            if found:
                self._write(row.id, [PathChange(path, *change, CUT_OFF) for path, change in found.items()])
            with self._store.transaction():
                self._store.set_state({row.id: "done" if self._store.paths(row.id) else "empty"})

    def _point(self, turn: TurnPlace, state: str) -> int:
        """To be called in a transaction."""
        if turn not in self._open:
            self._open = {turn: self._store.add_point(turn.session, turn.position, "turn", state, turn.title)}
        else:
            self._store.set_state({self._open[turn]: state})
        return self._open[turn]

    def _add(self, turn: TurnPlace, changes: Sequence[PathChange]) -> None:
        if changes:
            with self._store.transaction():
                point = self._point(turn, "running")
            self._write(point, changes)

    def _write(self, point: int, changes: Sequence[PathChange]) -> None:
        rows = [PathRow(os.fsencode(one.path), str(one.before), str(one.after), one.doubt) for one in changes]
        with self._store.transaction():
            self._store.add_paths(point, rows, _digests(state for one in changes for state in (one.before, one.after)))

    def _changes(self, point: int) -> Iterator[PathChange]:
        for row in self._store.paths(point):
            yield PathChange(os.fsdecode(row.path), read_state(row.before), read_state(row.after), row.told)

    def _read(self, digest: str) -> bytes:
        try:
            content = self._store.content(bytes.fromhex(digest))
        except StoreError as error:
            raise RestoreFailed(str(error)) from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise RestoreFailed("what the file held is damaged where it was kept")
        return content

    def _name(self, path: str) -> str:
        root = self._root.rstrip("/")
        return path[len(root) + 1 :] if path.startswith(f"{root}/") else path

    def _with_missing(self, name: str) -> Iterator[str]:
        """The path, and the folders above it that are not there."""
        yield name
        above = name.rpartition("/")[0]
        while above and not os.path.lexists(os.path.join(self._root, above)):
            yield above
            above = above.rpartition("/")[0]


def _opened(path: Path) -> CheckpointStore:
    """The database; what is damaged is set aside for a new one."""
    try:
        return CheckpointStore(path)
    except StoreError as error:
        if error.reason != "corrupt":
            raise
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(OSError):
            (path.parent / name).rename(path.parent / f"{name}.damaged-{time.time():.0f}")
    return CheckpointStore(path)


def unbounded(root: Path) -> str:
    """Why a folder is not looked at as a whole; empty where it may be."""
    home = Path(os.path.realpath(Path.home()))
    if root == home:
        return "it is your home folder"
    if root == root.parent or home.is_relative_to(root):
        return "your home folder is below it"
    return ""


def _digests(states: Iterable[FileState]) -> Iterator[bytes]:
    return (bytes.fromhex(state.digest) for state in states if state.kind in ("file", "link"))


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise StoreFailed(str(error), error.reason) from error
