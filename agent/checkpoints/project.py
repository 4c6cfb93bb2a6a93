"""The checkpoints of a project: the file changes of each turn, and how to undo them. Not thread-safe."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ebbtide.agent.checkpoints.comparison import FolderChanges
from ebbtide.agent.checkpoints.database import DATABASE_NAME, UsageLock, open_database, request_check
from ebbtide.agent.checkpoints.file_state import (
    ABSENT,
    CHANGED_BY_OTHER_SESSION,
    CHANGED_DURING_JOB,
    CHANGED_UNREPORTED,
    CONTENT_LOST,
    FileState,
    PathChange,
    PlannedPath,
    RestorePlan,
    TurnChanges,
    merge_changes,
    plan_restore,
)
from ebbtide.agent.checkpoints.folder_record import FolderRecord, decode_folder
from ebbtide.agent.checkpoints.nofollow_paths import blocking_path, read_state
from ebbtide.agent.checkpoints.point_log import PointLog
from ebbtide.agent.checkpoints.recovery import Recovery
from ebbtide.agent.checkpoints.staged_files import StagedFiles, staged_description
from ebbtide.agent.checkpoints.tracked_files import TrackedFiles
from ebbtide.agent.checkpoints.undo_points import PointKind, RestoreResult, TurnKey, UndoPoint
from ebbtide.agent.checkpoints.unread_files import ScanCancelled, ScanLimits
from ebbtide.agent.checkpoints.work_tree import FolderTooLarge, WorkTree
from ebbtide.agent.errors import StoreFailed
from ebbtide.store.checkpoints import CheckpointStore, FolderRow
from ebbtide.store.errors import StoreError
from ebbtide.store.locks import is_open
from ebbtide.tools.files.diff import count_changed_lines
from ebbtide.tools.files.private_folder import create_private_folder


class OtherSessions:
    """Detects whether other sessions change project files at the same time."""

    def __init__(self, data_folder: Path, store: CheckpointStore) -> None:
        self._locks, self._store = data_folder / "locks", store
        self._newest_point, self._was_other_session_open = 0, False
        """The newest point when the last command began, and whether another session was working at that time."""

    def is_session_open(self, session_id: str) -> bool:
        """Whether a session is open, in any process."""
        return is_open(self._locks, session_id)

    def sessions_in_turn(self) -> tuple[str, ...]:
        """Return the sessions that are in the middle of a turn that changes files. Raises `StoreError`."""
        recent_sessions = self._store.sessions_since(self._store.newest_point(), "")
        return tuple(sorted(filter(self.is_session_open, recent_sessions)))

    def record_command_start(self, session: str) -> None:
        """Record that a command of this session begins. Must be called after the session's point was stored. Raises
        `StoreError`."""
        self._newest_point = self._store.newest_point()
        self._was_other_session_open = self._is_other_session_open(session)

    def has_other_session_changed_files(self, session: str) -> bool:
        """Whether another session has changed files since the last `record_command_start`. Raises `StoreError`."""
        return self._was_other_session_open or self._is_other_session_open(session)

    def _is_other_session_open(self, session: str) -> bool:
        return any(map(self.is_session_open, self._store.sessions_since(self._newest_point, session)))


DAY_SECONDS = 86_400.0
MAX_COMPARED_FILES = 500
"""Maximum number of files that are compared for display."""
MAX_COUNTED_FILE_BYTES = 1_000_000
"""Largest file in which changed lines are counted, in bytes."""
IGNORE_RULES_CHANGED = "ignore rules changed in the same step: it may have existed before"


def checkpoint_folder(data: Path, root: Path) -> Path:
    """Return the folder for a project's checkpoints."""
    return data / "checkpoints" / hashlib.sha256(os.fsencode(root)).hexdigest()[:16]


class ProjectCheckpoints:
    """The checkpoints of one project. Methods raise `StoreFailed` and `RestoreFailed`."""

    def __init__(self, data: Path, root: Path, limits: ScanLimits, max_bytes: int) -> None:
        self._data = data
        self._root = str(root)
        self._limits = limits
        self._max_bytes = max_bytes
        self._folder = folder = checkpoint_folder(data, root)
        with suppress(OSError):  # opening the database below reports any problem
            create_private_folder(folder.parent)
        with self._translate_errors():
            self._store, self.damage_notice = open_database(folder / DATABASE_NAME)
        self._usage_lock = UsageLock(folder)
        self._point_log = PointLog(self._store)
        self._staged_files = StagedFiles(self._root)
        self._tracked_files = TrackedFiles(self._root)
        self._recovery = Recovery(
            self._root, folder, self._store, self._point_log, self._staged_files, self._capture_states
        )
        self._tree: WorkTree | None = None
        self._is_first_scan = True
        """Whether no scan has been completed yet."""
        self._other_sessions = OtherSessions(data, self._store)
        self._last_scan = FolderChanges()
        self._unscannable_reason = ""
        """Why the folder cannot be scanned; empty if it can, or if that is not known yet. Kept because finding out
        takes long."""
        self._checked_turn: TurnKey | None = None
        """The turn in which all folders were last visited before a command."""

    def close(self) -> None:
        if self._tree is not None:
            self._tree.close()
        try:
            with self._translate_errors():
                if self._must_remove_garbage():
                    self._remove_garbage()
                self._store.close()
        finally:
            self._usage_lock.close()

    def _must_remove_garbage(self) -> bool:
        """Whether garbage must be removed: the data is too large, or the last removal was more than a day ago."""
        return self._store.size > self._max_bytes or time.time() - self._usage_lock.cleaned_at > DAY_SECONDS

    def _remove_garbage(self) -> None:
        """Remove garbage, unless another process might still need it."""
        if self._usage_lock.has_exclusive_use():
            folders = self._stored_folders().values()
            self._store.collect_garbage(
                self._max_bytes, (digest for folder in folders for digest in folder.digests if digest)
            )
            self._usage_lock.record_cleanup()

    @property
    def unread_file_count(self) -> int:
        """Number of files that the current scan has yet to read. May be read from any thread."""
        return self._tree.unread_file_count if self._tree is not None else 0

    # During a turn

    def scan_ahead(self, session: str, is_cancelled: Callable[[], bool]) -> str:
        """Scan the files, so that `begin_command` is fast. Return why the files are not covered, or an empty string if
        they are."""
        with self._translate_errors():
            problem = self._scan(is_cancelled)
            if not problem:
                with self._store.transaction():
                    self._store_scan(session)
            return problem

    def begin_command(self, turn: TurnKey, *, in_job: bool, is_cancelled: Callable[[], bool]) -> str:
        """Scan the files before a command that might change them. Changes since the last scan are assigned to this turn
        if `in_job`; otherwise they belong to no turn. Return why the files are not covered, or an empty string if they
        are."""
        with self._translate_errors():
            is_first, is_checked = self._is_first_scan, self._checked_turn == turn
            problem = self._scan(is_cancelled, must_be_complete=not is_checked)
            if problem:
                return problem
            self._checked_turn = turn
            with self._store.transaction():
                self._store_scan(turn.session)
                if in_job and not is_first:
                    self._point_log.add_changes(
                        turn,
                        [
                            PathChange(path, *states, CHANGED_DURING_JOB)
                            for path, states in self._last_scan.changes.items()
                        ],
                    )
                self._point_log.begin_turn(turn)
                self._other_sessions.record_command_start(turn.session)
            return ""

    def end_command(self, turn: TurnKey) -> str:
        """Record what has changed since `begin_command`. Return why that failed, or an empty string on success."""
        with self._translate_errors():
            problem = self._scan(lambda: False, must_be_complete=False)
            if problem:
                return problem
            changes, doubtful = self._last_scan.changes.items(), self._last_scan.maybe_ignored_paths
            doubt = (
                CHANGED_BY_OTHER_SESSION if self._other_sessions.has_other_session_changed_files(turn.session) else ""
            )
            with self._store.transaction():
                self._store_scan(turn.session)
                self._point_log.add_changes(
                    turn,
                    [
                        PathChange(path, *states, IGNORE_RULES_CHANGED if path in doubtful else doubt)
                        for path, states in changes
                    ],
                )
            return ""

    def check_turn(self, turn: TurnKey, *, in_job: bool) -> None:
        """After a turn, look for changes that the kernel did not report while its commands ran. They are assigned to
        the turn, with a doubt. `in_job`: whether commands run in the background."""
        if self._tree is None or not self._tree.is_watching or self._checked_turn != turn:
            return
        with self._translate_errors():
            # What is reported since the last command is the user's, unless a command runs in the background.
            for must_be_complete, doubt in (
                (False, CHANGED_DURING_JOB if in_job else ""),
                (True, CHANGED_DURING_JOB if in_job else CHANGED_UNREPORTED),
            ):
                if self._scan(lambda: False, must_be_complete=must_be_complete):
                    return
                changes = self._last_scan.changes.items() if doubt else ()
                with self._store.transaction():
                    self._store_scan(turn.session)
                    self._point_log.add_changes(turn, [PathChange(path, *states, doubt) for path, states in changes])
                if changes:
                    self._point_log.finish_turn(turn)

    def finish_interrupted_turns(self, session: str) -> None:
        """Record the changes made by a killed program, so that they can be undone as well. Call this before the first
        scan. `session`: the session that is open in this process."""
        if not self._is_first_scan:
            return
        with self._translate_errors():
            if not self._point_log.interrupted_points(session, self._other_sessions.is_session_open):
                return
        if self.scan_ahead(session, lambda: False):  # changes by file tools were already recorded
            with self._translate_errors():
                self._point_log.finish_interrupted_turns(session, {}, self._other_sessions.is_session_open)

    def sessions_in_turn(self) -> tuple[str, ...]:
        """Return the sessions that are in the middle of a turn that changes files."""
        with self._translate_errors():
            return self._other_sessions.sessions_in_turn()

    def capture_states(self, paths: Iterable[str]) -> dict[str, FileState]:
        """Return the current states of absolute paths, and of their missing parent folders. The files' content is
        stored."""
        with self._translate_errors():
            return self._capture_states(
                name for path in paths for name in self._with_missing_parents(self._relative_path(path))
            )

    def record_changes(self, turn: TurnKey, previous_states: Mapping[str, FileState]) -> None:
        """Record how paths have changed since the states in `previous_states`."""
        with self._translate_errors():
            new_states = self._capture_states(previous_states)
            self._point_log.add_changes(
                turn,
                [
                    PathChange(path, old_state, new_states[path])
                    for path, old_state in previous_states.items()
                    if old_state != new_states[path]
                ],
            )

    def finish_turn(self, turn: TurnKey) -> TurnChanges:
        """End a turn and return its changes."""
        with self._translate_errors():
            all_changes = self._point_log.finish_turn(turn)
        changes = [
            change for change in all_changes if not {"folder", "staged"} & {change.before.kind, change.after.kind}
        ]
        line_counts = [
            count_changed_lines(self._comparable_text(change.before), self._comparable_text(change.after))
            for change in changes[:MAX_COMPARED_FILES]
        ]
        paths = tuple(change.path for change in changes)
        return TurnChanges(paths, sum(added for added, _ in line_counts), sum(removed for _, removed in line_counts))

    def _comparable_text(self, state: FileState) -> str:
        """Return a file's text; empty if it is binary, too large or not stored."""
        content = (self.read_content(state) or b"") if state.kind == "file" else b""
        return "" if len(content) > MAX_COUNTED_FILE_BYTES or b"\0" in content else content.decode("utf-8", "replace")

    # Undo

    def points(self, session: str | None = None) -> tuple[UndoPoint, ...]:
        """Return the undo points, oldest first."""
        with self._translate_errors():
            return self._point_log.points(session)

    def merged_changes(self, points: Iterable[int]) -> tuple[PathChange, ...]:
        """Return the changes of the points, merged into one change per path."""
        with self._translate_errors():
            merged = merge_changes(change for point in sorted(points) for change in self._point_log.changes(point))
        return tuple(change for change in merged if change.before != change.after or change.other_cause)

    def plan_undo(self, points: Sequence[int]) -> RestorePlan:
        """Plan how to undo the points, without changing anything."""
        self.finish_interrupted_restores()
        changes = self.merged_changes(points)
        with self._translate_errors():
            current_states = self._capture_states(change.path for change in changes)
        missing_paths = (path for path, state in current_states.items() if state == ABSENT)
        blocked = {path: above for path in missing_paths if (above := blocking_path(self._root, path))}
        plan = plan_restore(points, changes, current_states, blocked)
        return replace(plan, paths=tuple(self._refuse_if_lost(planned) for planned in plan.paths))

    def _refuse_if_lost(self, planned: PlannedPath) -> PlannedPath:
        """Mark a path as not restorable if its stored content is damaged, so that other paths can still be restored."""
        is_lost = planned.target.kind in ("file", "link") and self.read_content(planned.target) is None
        return (
            replace(planned, outcome="impossible", reason=CONTENT_LOST)
            if is_lost and planned.outcome in ("restore", "ask")
            else planned
        )

    def planned_contents(self, plan: RestorePlan) -> dict[str, tuple[bytes | None, bytes | None]]:
        """Return, for each path in a plan, its current content and the content to restore. For staged entries, return
        descriptions."""
        return {
            planned.path: (self.read_content(planned.current), self.read_content(planned.target))
            for planned in plan.paths[:MAX_COMPARED_FILES]
        }

    def point_contents(self, point: int) -> tuple[tuple[PathChange, bytes | None, bytes | None], ...]:
        """Return the changes of a point, with the previous and the new content of each path."""
        changes = self.merged_changes((point,))[:MAX_COMPARED_FILES]
        return tuple((change, self.read_content(change.before), self.read_content(change.after)) for change in changes)

    def read_content(self, state: FileState) -> bytes | None:
        """Return the content of a file or the target of a link; None if there was none or it is not stored."""
        if state.kind == "staged":
            return staged_description(state)
        if state.kind not in ("file", "link"):
            return None
        digest = bytes.fromhex(state.digest)
        with suppress(StoreError):
            content = self._store.content(digest)
            return content if hashlib.sha256(content).digest() == digest else None
        return None

    def restore(self, plan: RestorePlan, turn: TurnKey, kind: PointKind, *, is_forced: bool = False) -> RestoreResult:
        """Carry out a plan. With `is_forced`, also overwrite changes made by other programs or the user."""
        with self._translate_errors():
            return self._recovery.restore(plan, turn, kind, is_forced=is_forced)

    def finish_interrupted_restores(self) -> tuple[str, ...]:
        """Finish restores that a killed process left incomplete. Return their paths."""
        with self._translate_errors():
            return self._recovery.finish_interrupted_restores()

    # Scanning

    def _scan(self, is_cancelled: Callable[[], bool], *, must_be_complete: bool = True) -> str:
        """Scan the folder and set `_last_scan` to the changes. Return why the scan failed, or an empty string on
        success. `must_be_complete`: visit all folders, even those in which the kernel has reported no change."""
        if self._is_first_scan:
            self._recovery.finish_interrupted_restores()
        if self._tree is None and not self._unscannable_reason:
            self._unscannable_reason = reason_not_to_scan(Path(self._root))
        if self._unscannable_reason:
            return self._unscannable_reason
        if self._tree is None:
            self._tree = WorkTree(self._root, (str(self._data),), self._stored_folders())
        try:
            with self._store.frame_writer() as store_content:
                get_state = partial(
                    read_state, self._root, max_bytes=self._limits.max_file_bytes, store_content=store_content
                )
                self._last_scan = self._tree.scan(
                    self._limits, store_content, is_cancelled, get_state, must_be_complete=must_be_complete
                )
                self._last_scan.changes |= self._staged_files.scan(self._tree.repositories)
                tracked_changes = self._tracked_files.scan(
                    self._staged_files.staged_by_tree, self._tree.folders, self._limits, get_state,
                    has_changed_rules=self._tree.has_changed_rules,
                )  # fmt: skip
                self._last_scan.changes |= tracked_changes
                self._last_scan.maybe_ignored_paths -= tracked_changes.keys()
        except FolderTooLarge as error:
            self._unscannable_reason = str(error)
            return self._unscannable_reason
        except ScanCancelled:
            return "interrupted while scanning files"
        except OSError as error:
            return f"the folder cannot be read: {error.strerror or error}"
        return ""

    def _store_scan(self, session: str) -> None:
        """Store the scan. Must be called in the transaction that stores the scan's changes, so that both or neither are
        stored if the program is killed."""
        scan, folders = self._last_scan, self._tree.folders if self._tree is not None else {}
        rows = [FolderRow(os.fsencode(name), folders[name].encode()) for name in scan.changed_folders]
        if rows or scan.removed_folders:
            self._store.put_folders(rows, map(os.fsencode, scan.removed_folders))
        if self._is_first_scan:
            self._point_log.finish_interrupted_turns(session, scan.changes, self._other_sessions.is_session_open)
            self._is_first_scan = False

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            if error.reason == "corrupt":
                with suppress(OSError):
                    request_check(self._folder)
            raise StoreFailed(str(error), error.reason) from error

    def _stored_folders(self) -> dict[str, FolderRecord]:
        folders = {}
        for row in self._store.folders():
            with suppress(ValueError, OverflowError):
                folders[os.fsdecode(row.path)] = decode_folder(row.body)
        return folders if "" in folders else {}

    def _capture_states(self, paths: Iterable[str]) -> dict[str, FileState]:
        paths = tuple(paths)
        with self._store.frame_writer() as store_content:
            files = [path for path in paths if "\0" not in path]
            states = {path: read_state(self._root, path, self._limits.max_file_bytes, store_content) for path in files}
        return states | self._staged_files.current_states(path for path in paths if path not in states)

    def _relative_path(self, path: str) -> str:
        root = self._root.rstrip("/")
        return path[len(root) + 1 :] if path.startswith(f"{root}/") else path

    def _with_missing_parents(self, name: str) -> Iterator[str]:
        """Yield the path and the missing folders above it."""
        yield name
        parent = name.rpartition("/")[0]
        while parent and not os.path.lexists(os.path.join(self._root, parent)):
            yield parent
            parent = parent.rpartition("/")[0]


def reason_not_to_scan(root: Path) -> str:
    """Return why a folder cannot be scanned; empty if it can."""
    home = Path(os.path.realpath(Path.home()))
    if root == home:
        return "it is your home folder"
    if root == root.parent or home.is_relative_to(root):
        return "it contains your home folder"
    return ""
