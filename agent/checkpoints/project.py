"""The checkpoints of a project: the file changes of each turn, and how to undo them. For one thread at a time."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ebbtide.agent.checkpoints.comparison import FolderChanges
from ebbtide.agent.checkpoints.database import NAME, InUse, note_damage, open_database
from ebbtide.agent.checkpoints.file_state import (
    ABSENT,
    CONTENT_LOST,
    IN_JOB,
    TOGETHER,
    FileState,
    PathChange,
    PlannedPath,
    RestorePlan,
    TurnChanges,
    compose_changes,
    plan_restore,
)
from ebbtide.agent.checkpoints.folder_record import Folder, decode_folder
from ebbtide.agent.checkpoints.nofollow_paths import blocking_path, state_at
from ebbtide.agent.checkpoints.other_sessions import OtherSessions
from ebbtide.agent.checkpoints.point_log import PointLog
from ebbtide.agent.checkpoints.recovery import Recovery
from ebbtide.agent.checkpoints.staged import StagedFiles, staged_description
from ebbtide.agent.checkpoints.tracked import TrackedFiles
from ebbtide.agent.checkpoints.undo_points import PointKind, RestoreResult, TurnPlace, UndoPoint
from ebbtide.agent.checkpoints.work_tree import FolderTooLarge, Limits, ScanCancelled, WorkTree
from ebbtide.agent.errors import StoreFailed
from ebbtide.store.checkpoints import FolderRow
from ebbtide.store.errors import StoreError
from ebbtide.tools.files.diff import size_of_change
from ebbtide.tools.files.private_folder import make_private

DAY = 86_400.0
MAX_COMPARED_FILES = 500
"""Files that are compared for display."""
LARGEST_COUNTED = 1_000_000
"""Largest file in which changed lines are counted, in bytes."""
IGNORE_RULES_CHANGED = "ignore rules changed in the same step: it may have existed before"


def folder_for(data: Path, root: Path) -> Path:
    """The folder for a project's checkpoints."""
    return data / "checkpoints" / hashlib.sha256(os.fsencode(root)).hexdigest()[:16]


class ProjectCheckpoints:
    """Methods raise `StoreFailed` and `RestoreFailed`."""

    def __init__(self, data: Path, root: Path, limits: Limits, most_bytes: int) -> None:
        self._data, self._root, self._limits, self._most = data, str(root), limits, most_bytes
        self._folder = folder = folder_for(data, root)
        with suppress(OSError):  # any problem is reported when the database is opened
            make_private(folder.parent)
        with self._translate_errors():
            self._store, self.set_aside = open_database(folder / NAME)
        self._in_use = InUse(folder)
        self._log = PointLog(self._store)
        self._staged = StagedFiles(self._root)
        self._tracked = TrackedFiles(self._root)
        self._recovery = Recovery(self._root, folder, self._store, self._log, self._staged, self._states)
        self._tree: WorkTree | None = None
        self._is_first = True
        """Whether no complete scan has been made yet."""
        self._others = OtherSessions(data, self._store)
        self._last = FolderChanges()
        self._too_much = ""
        """Why the folder is not scanned, once known: finding out is slow."""

    def close(self) -> None:
        try:
            with self._translate_errors():
                if self._is_full_or_due():
                    self._collect()
                self._store.close()
        finally:
            self._in_use.close()

    def _is_full_or_due(self) -> bool:
        """Whether the data is too large, or no garbage was removed for a day."""
        return self._store.size > self._most or time.time() - self._in_use.cleaned_at > DAY

    def _collect(self) -> None:
        """Remove garbage, unless another process may still need it."""
        if self._in_use.is_alone():
            folders = self._stored_folders().values()
            self._store.collect(self._most, (digest for each in folders for digest in each.digests if digest))
            self._in_use.note_cleaned()

    @property
    def to_read(self) -> int:
        """How many files the scan in another thread still has to read."""
        return self._tree.to_read if self._tree is not None else 0

    # While a turn runs

    def prepare(self, session: str, stopped: Callable[[], bool]) -> str:
        """Scan the files, so that `begin` is fast. Return why they are not covered, or an empty string."""
        with self._translate_errors():
            why = self._look(stopped)
            if not why:
                with self._store.transaction():
                    self._store_scan(session)
            return why

    def begin(self, turn: TurnPlace, *, in_job: bool, stopped: Callable[[], bool]) -> str:
        """Scan the files before a command may change them. Changes since the last scan belong to no turn, unless
        `in_job`. Return why the files are not covered, or an empty string."""
        with self._translate_errors():
            is_first, why = self._is_first, self._look(stopped)
            if why:
                return why
            with self._store.transaction():
                self._store_scan(turn.session)
                if in_job and not is_first:
                    self._log.add(turn, [PathChange(path, *each, IN_JOB) for path, each in self._last.changes.items()])
                self._log.begin(turn)
                self._others.note_begin(turn.session)
            return ""

    def end(self, turn: TurnPlace) -> str:
        """Record what has changed since `begin`. Return why that is impossible, or an empty string."""
        with self._translate_errors():
            why = self._look(lambda: False)
            if why:
                return why
            found, doubtful = self._last.changes.items(), self._last.doubtful
            doubt = TOGETHER if self._others.were_at_work(turn.session) else ""
            with self._store.transaction():
                self._store_scan(turn.session)
                self._log.add(
                    turn,
                    [
                        PathChange(path, *each, IGNORE_RULES_CHANGED if path in doubtful else doubt)
                        for path, each in found
                    ],
                )
            return ""

    def finish_interrupted(self, session: str) -> None:
        """Record changes left by a killed program, so that they can be undone as well, before anything else is
        scanned. `session`: the session open here."""
        if not self._is_first:
            return
        with self._translate_errors():
            if not self._log.interrupted_points(session, self._others.is_at_work):
                return
        if self.prepare(session, lambda: False):  # changes by file tools were already recorded
            with self._translate_errors():
                self._log.finish_interrupted(session, {}, self._others.is_at_work)

    def at_work(self) -> tuple[str, ...]:
        """The sessions in the middle of a turn that changes files."""
        with self._translate_errors():
            return self._others.at_work()

    def states(self, paths: Iterable[str]) -> dict[str, FileState]:
        """The current states of absolute paths and of missing folders above them, with their content stored."""
        with self._translate_errors():
            return self._states(each for path in paths for each in self._with_missing(self._name(path)))

    def record_changes(self, turn: TurnPlace, before: Mapping[str, FileState]) -> None:
        """Record how paths have changed since `before`."""
        with self._translate_errors():
            now = self._states(before)
            self._log.add(turn, [PathChange(path, was, now[path]) for path, was in before.items() if was != now[path]])

    def finish(self, turn: TurnPlace) -> TurnChanges:
        """End a turn and return its changes."""
        with self._translate_errors():
            found = self._log.finish(turn)
        changes = [change for change in found if not {"folder", "staged"} & {change.before.kind, change.after.kind}]
        sizes = [
            size_of_change(self._text(change.before), self._text(change.after))
            for change in changes[:MAX_COMPARED_FILES]
        ]
        paths = tuple(change.path for change in changes)
        return TurnChanges(paths, sum(added for added, _ in sizes), sum(removed for _, removed in sizes))

    def _text(self, state: FileState) -> str:
        """A file's text; empty if it is binary, too large or not stored."""
        content = (self.content(state) or b"") if state.kind == "file" else b""
        return "" if len(content) > LARGEST_COUNTED or b"\0" in content else content.decode("utf-8", "replace")

    # Undo

    def points(self, session: str | None = None) -> tuple[UndoPoint, ...]:
        """The undo points, oldest first."""
        with self._translate_errors():
            return self._log.points(session)

    def changes_of(self, points: Iterable[int]) -> tuple[PathChange, ...]:
        """The changes of the points, merged per path."""
        with self._translate_errors():
            found = compose_changes(change for point in sorted(points) for change in self._log.changes(point))
        return tuple(change for change in found if change.before != change.after or change.doubt)

    def plan(self, points: Sequence[int]) -> RestorePlan:
        """Plan what undoing the points would do now. Nothing is changed."""
        self.recover()
        changes = self.changes_of(points)
        with self._translate_errors():
            now = self._states(change.path for change in changes)
        gone = (path for path, state in now.items() if state == ABSENT)
        blocked = {path: above for path in gone if (above := blocking_path(self._root, path))}
        plan = plan_restore(points, changes, now, blocked)
        return replace(plan, paths=tuple(self._unless_lost(one) for one in plan.paths))

    def _unless_lost(self, one: PlannedPath) -> PlannedPath:
        """A path whose stored content is damaged is left out, so that the others can still be restored."""
        is_lost = one.back.kind in ("file", "link") and self.content(one.back) is None
        return (
            replace(one, outcome="cannot", why=CONTENT_LOST) if is_lost and one.outcome in ("restore", "ask") else one
        )

    def contents(self, plan: RestorePlan) -> dict[str, tuple[bytes | None, bytes | None]]:
        """The current and the restored content of each path in a plan; for staged entries, a description."""
        return {one.path: (self.content(one.now), self.content(one.back)) for one in plan.paths[:MAX_COMPARED_FILES]}

    def point_contents(self, point: int) -> tuple[tuple[PathChange, bytes | None, bytes | None], ...]:
        """The changes of a point, with each path's content before and after."""
        changes = self.changes_of((point,))[:MAX_COMPARED_FILES]
        return tuple((change, self.content(change.before), self.content(change.after)) for change in changes)

    def content(self, state: FileState) -> bytes | None:
        """The content of a file or the target of a link; None if there was none or it is not stored."""
        if state.kind == "staged":
            return staged_description(state)
        if state.kind not in ("file", "link"):
            return None
        digest = bytes.fromhex(state.digest)
        with suppress(StoreError):
            content = self._store.content(digest)
            return content if hashlib.sha256(content).digest() == digest else None
        return None

    def restore(self, plan: RestorePlan, turn: TurnPlace, kind: PointKind, *, forced: bool = False) -> RestoreResult:
        """Undo points as planned; with `forced`, also overwrite what others have changed."""
        with self._translate_errors():
            return self._recovery.restore(plan, turn, kind, forced=forced)

    def recover(self) -> tuple[str, ...]:
        """Finish restores that a killed process left incomplete. Return their paths."""
        with self._translate_errors():
            return self._recovery.finish()

    # Scanning

    def _look(self, stopped: Callable[[], bool]) -> str:
        """Scan the folder and set `_last` to the changes. Return why that failed, or an empty string."""
        if self._is_first:
            self._recovery.finish()
        if self._tree is None and not self._too_much:
            self._too_much = unscannable_reason(Path(self._root))
        if self._too_much:
            return self._too_much
        if self._tree is None:
            self._tree = WorkTree(self._root, (str(self._data),), self._stored_folders())
        try:
            with self._store.frame_writer() as keep:
                state_of = partial(state_at, self._root, most=self._limits.file_bytes, keep=keep)
                self._last = self._tree.look(self._limits, keep, stopped, state_of)
                self._last.changes |= self._staged.look(self._tree.repositories)
                tracked = self._tracked.look(
                    self._staged.staged_by_tree, self._tree.folders, self._limits, state_of,
                    is_ruled_anew=self._tree.has_changed_rules,
                )  # fmt: skip
                self._last.changes |= tracked
                self._last.doubtful -= tracked.keys()
        except FolderTooLarge as error:
            self._too_much = str(error)
            return self._too_much
        except ScanCancelled:
            return "interrupted while scanning files"
        except OSError as error:
            return f"the folder cannot be read: {error.strerror or error}"
        return ""

    def _store_scan(self, session: str) -> None:
        """Store the scan in the same transaction as its changes: if the program is killed, both are stored or
        neither. Call it inside a transaction."""
        found, folders = self._last, self._tree.folders if self._tree is not None else {}
        rows = [FolderRow(os.fsencode(name), folders[name].encode()) for name in found.touched]
        if rows or found.removed:
            self._store.put_folders(rows, map(os.fsencode, found.removed))
        if self._is_first:
            self._log.finish_interrupted(session, found.changes, self._others.is_at_work)
            self._is_first = False

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            if error.reason == "corrupt":
                with suppress(OSError):
                    note_damage(self._folder)
            raise StoreFailed(str(error), error.reason) from error

    def _stored_folders(self) -> dict[str, Folder]:
        folders = {}
        for row in self._store.folders():
            with suppress(ValueError, OverflowError):
                folders[os.fsdecode(row.path)] = decode_folder(row.body)
        return folders if "" in folders else {}

    def _states(self, paths: Iterable[str]) -> dict[str, FileState]:
        paths = tuple(paths)
        with self._store.frame_writer() as keep:
            files = [path for path in paths if "\0" not in path]
            found = {path: state_at(self._root, path, self._limits.file_bytes, keep) for path in files}
        return found | self._staged.states(path for path in paths if path not in found)

    def _name(self, path: str) -> str:
        root = self._root.rstrip("/")
        return path[len(root) + 1 :] if path.startswith(f"{root}/") else path

    def _with_missing(self, name: str) -> Iterator[str]:
        """The path, and the missing folders above it."""
        yield name
        above = name.rpartition("/")[0]
        while above and not os.path.lexists(os.path.join(self._root, above)):
            yield above
            above = above.rpartition("/")[0]


def unscannable_reason(root: Path) -> str:
    """Why a folder is not scanned; empty if it may be."""
    home = Path(os.path.realpath(Path.home()))
    if root == home:
        return "it is your home folder"
    if root == root.parent or home.is_relative_to(root):
        return "it contains your home folder"
    return ""
