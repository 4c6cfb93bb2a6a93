"""Scans the files of a folder. Changes are detected by file times and sizes, and only changed files are read.

Symbolic links are not followed. `.git` and everything that git ignores are skipped. The result is stored for the next
scan, one row per folder. As in git's index, a file time close to the time of the scan is not trusted: the file might
change again within the same clock tick. Such a file is read again in the next scan.
"""

import os
import stat
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter

from ebbtide.agent.checkpoints.comparison import FolderChanges, record_changes
from ebbtide.agent.checkpoints.file_state import FileState
from ebbtide.agent.checkpoints.folder_record import FIELDS_PER_FILE, FolderRecord
from ebbtide.agent.checkpoints.scan_scope import ScanScope, ScopeTracker
from ebbtide.agent.checkpoints.unread_files import (
    OPEN_FOLDER_FLAGS,
    ScanCancelled,
    ScanLimits,
    StoreContent,
    UnreadFiles,
    reliable_time,
)
from ebbtide.tools.search.walk import FolderRules, WalkScope, is_ignored, is_repository, rules_in_folder, walk_scope

_FILE_CLOCK = 5 if sys.platform == "linux" else time.CLOCK_REALTIME
"""The clock that file times are compared with. On Linux it is the coarse clock, which lags behind the exact time. Since
Linux 6.13, a file whose time has been queried gets an exact time at its next change, and that time can be later than
the coarse clock."""
_get_stat_numbers = attrgetter("st_mode", "st_size", "st_ctime_ns", "st_ino")
_get_name = attrgetter("name")
_SKIPPED_FOLDERS = frozenset((".git", "__pycache__"))
"""Folders that are never scanned, because programs maintain their content."""


class FolderTooLarge(Exception):
    """The folder exceeds a scan limit. The error message says which limit."""


class WorkTree:
    """A folder as of the last scan. Not thread-safe."""

    def __init__(self, root: str, skipped_paths: Iterable[str], folders: Mapping[str, FolderRecord]) -> None:
        """`skipped_paths`: absolute paths to skip. `folders`: the records of an earlier scan."""
        self.root = root
        self.folders = dict(folders)
        self._skipped_paths = frozenset(skipped_paths)
        self._rules: dict[str, tuple[FolderRules, ...]] = {}
        self._scope: WalkScope | None = None
        self._unread_files = UnreadFiles(root)
        self._changes = FolderChanges()
        self._previous_folders: Mapping[str, FolderRecord] = {}
        self._changed_rules: set[str] = set()
        self._file_count = self._last_scan_start = 0
        self._tracker = ScopeTracker()
        self._must_widen = False
        """Whether the current scan has found that it must visit all folders."""

    @property
    def unread_file_count(self) -> int:
        """Number of files that the current scan has yet to read."""
        return self._unread_files.count

    @property
    def is_watching(self) -> bool:
        """Whether the kernel reports what changes, so that scans need not visit all folders."""
        return self._tracker.is_watching

    def close(self) -> None:
        """Stop watching the folder."""
        self._tracker.close()

    @property
    def repositories(self) -> list[str]:
        """Names of the folders that might be the work tree of a repository."""
        return [name for name, folder in self.folders.items() if folder.rules_hash]

    @property
    def has_changed_rules(self) -> bool:
        """Whether any ignore rules have changed since the previous scan."""
        return bool(self._changed_rules)

    def scan(
        self,
        limits: ScanLimits,
        store_content: StoreContent,
        is_cancelled: Callable[[], bool],
        get_state: Callable[[str], FileState],
        *,
        must_be_complete: bool = True,
    ) -> FolderChanges:
        """Scan the folder and return the changes since the last scan; the first scan returns none. `is_cancelled` is
        called for every file and folder. `get_state`: returns the current state of a path and stores its content.
        `must_be_complete`: visit all folders, even those in which the kernel has reported no change. Raises
        `FolderTooLarge`, `ScanCancelled`, and `OSError` if the folder itself cannot be read; the scan is then
        discarded."""
        previous_folders, scan_start = self.folders, time.clock_gettime_ns(_FILE_CLOCK)
        scope = self._tracker.begin_scan(
            _count_files(previous_folders), len(previous_folders), must_be_complete=must_be_complete
        )
        try:
            self._begin_walk(previous_folders)
            self._walk(scope, limits, is_cancelled)
            if self._must_widen:
                self._begin_walk(previous_folders)
                self._walk(self._tracker.widen_scan(), limits, is_cancelled)
            self._changes.unstored_files += self._unread_files.read(limits.max_file_bytes, store_content, is_cancelled)
            record_changes(
                self.root,
                previous_folders,
                self.folders,
                self._changes,
                self._changed_rules,
                self._last_scan_start,
                get_state,
            )
            _check_file_count(_count_files(self.folders), limits)
        except BaseException:
            self.folders = previous_folders
            raise
        finally:
            self._unread_files.clear()
        self._tracker.finish_scan()
        self._last_scan_start = scan_start
        return self._changes

    def _begin_walk(self, previous_folders: Mapping[str, FolderRecord]) -> None:
        self._previous_folders, self.folders, self._changes = previous_folders, dict(previous_folders), FolderChanges()
        self._unread_files.clear()
        self._file_count = 0
        self._scope = None
        self._must_widen = False
        self._rules.clear()
        self._changed_rules.clear()

    def _walk(self, scope: ScanScope, limits: ScanLimits, is_cancelled: Callable[[], bool]) -> None:
        """Visit the folders in the scope. Files whose content must be read are added to `_unread_files`."""
        pending: list[tuple[str, bool, bool]] = [("", False, scope.is_complete)]
        while pending and not self._must_widen:
            if is_cancelled():
                raise ScanCancelled
            name, has_new_rules, is_deep = pending.pop()
            record = self.folders.get(name)
            if is_deep or record is None or name in scope.changed or name in scope.checked:
                folder, has_new_rules, is_deep = self._visit(name, scope, limits, is_deep, has_new_rules)
                if folder is None:
                    continue
            else:
                folder = record
            prefix = f"{name}/" if name else ""
            for subfolder in folder.subfolders:
                path = prefix + subfolder
                if is_deep or path in scope.reached or path not in self.folders:
                    pending.append((path, has_new_rules, is_deep or path in scope.replaced))
        if self._unread_files.total_bytes > limits.max_total_bytes:
            raise FolderTooLarge(f"its files exceed {limits.max_total_bytes / 1e6:,.0f} MB")

    def _visit(
        self, name: str, scope: ScanScope, limits: ScanLimits, is_deep: bool, has_new_rules: bool
    ) -> tuple[FolderRecord | None, bool, bool]:
        """Bring the record of a folder up to date. Return it (None if the folder cannot be read), whether its ignore
        rules have changed, and whether everything below it must be visited. Raises `OSError` if the root cannot be
        read."""
        path = f"{self.root}/{name}" if name else self.root
        record = self.folders.get(name)
        try:
            fd = os.open(path, OPEN_FOLDER_FLAGS)
        except OSError:
            if not name:
                raise
            self._changes.unstored_files.append(f"{name}/")
            self._keep_unreadable_record(name, path)
            self._tracker.skip_unreadable_folder(name)
            return None, has_new_rules, is_deep
        try:
            if record is not None and not is_deep and name not in scope.changed and _is_same_folder(fd, record):
                return record, has_new_rules, False
            is_deep = is_deep or record is None or record.inode != os.fstat(fd).st_ino
            if is_deep:
                self._tracker.enter_folder(name, fd)
            folder, has_new_rules = self._scan_folder(name, path, fd, has_new_rules, limits)
        finally:
            os.close(fd)
        self._file_count += len(folder.file_names)
        _check_file_count(self._file_count, limits)
        return folder, has_new_rules, is_deep or has_new_rules

    def _keep_unreadable_record(self, name: str, path: str) -> None:
        """Keep the record of an unreadable folder, apart from its mode."""
        record = self.folders.get(name)
        with suppress(OSError):
            status = os.lstat(path)
            if (
                record is not None
                and record.mode != (mode := stat.S_IMODE(status.st_mode))
                and stat.S_ISDIR(status.st_mode)
            ):
                self.folders[name] = replace(record, mode=mode, change_time_ns=0)
                self._changes.changed_folders.add(name)

    def _scan_folder(
        self, name: str, path: str, fd: int, has_new_rules: bool, limits: ScanLimits
    ) -> tuple[FolderRecord, bool]:
        """Return the current record of a folder, and whether its ignore rules have changed."""
        now = time.time_ns()
        status = os.fstat(fd)
        record = self.folders.get(name)
        is_same = record is not None and (record.change_time_ns, record.inode) == (status.st_ctime_ns, status.st_ino)
        rules_hash = _rules_hash(fd) if record is None or record.rules_hash or not is_same else 0
        if rules_hash and is_repository(path):
            self._tracker.note_repository(name)
        has_new_rules = has_new_rules or (record is not None and record.rules_hash != rules_hash)
        if has_new_rules:
            self._changed_rules.add(name)
        if record is None or has_new_rules or not is_same:
            return self._list_folder(name, path, fd, status, rules_hash, now, limits), has_new_rules
        changed_files = []
        index = 0
        has_links = has_changed_link = False
        numbers = record.stat_numbers
        get_status = os.stat
        try:
            for file_name, size, change_time, inode in zip(
                record.file_names, numbers[1::4], numbers[2::4], numbers[3::4], strict=True
            ):
                file_status = get_status(file_name, dir_fd=fd, follow_symlinks=False)
                # Any change to a file, even of its mode, updates the ctime. Programs cannot set the ctime.
                if file_status.st_ctime_ns != change_time or file_status.st_size != size or file_status.st_ino != inode:
                    if not (stat.S_ISREG(file_status.st_mode) or stat.S_ISLNK(file_status.st_mode)):
                        return self._list_folder(name, path, fd, status, rules_hash, now, limits), has_new_rules
                    changed_files.append((index, array("q", _get_stat_numbers(file_status))))
                    has_changed_link = has_changed_link or file_status.st_nlink > 1
                if file_status.st_nlink > 1:
                    has_links = True
                index += 1
        except OSError:  # a file was just deleted
            return self._list_folder(name, path, fd, status, rules_hash, now, limits), has_new_rules
        if has_links:
            self._note_links(name, is_changed=has_changed_link)
        if not changed_files:
            return record, has_new_rules
        folder = replace(record, stat_numbers=record.stat_numbers[:], digests=list(record.digests))
        self.folders[name] = folder
        self._changes.changed_folders.add(name)
        self._unread_files.add(name, folder, changed_files, now, limits.max_file_bytes)
        return folder, has_new_rules

    def _list_folder(
        self, name: str, path: str, fd: int, status: os.stat_result, rules_hash: int, now: int, limits: ScanLimits
    ) -> FolderRecord:
        """Return the folder's record after listing its names again."""
        previous = self._previous_folders.get(name)
        previous_indexes = (
            {file_name: index for index, file_name in enumerate(previous.file_names)} if previous is not None else {}
        )
        folder = FolderRecord(
            stat.S_IMODE(status.st_mode), reliable_time(status.st_ctime_ns, now), status.st_ino, rules_hash
        )
        ignore_rules = self._rules_for(name, path)
        self.folders[name] = folder
        self._changes.changed_folders.add(name)
        changed_files: list[tuple[int, array[int]]] = []
        has_links = has_changed_link = False
        with os.scandir(fd) as entries:
            sorted_entries = sorted(entries, key=_get_name)
        for entry in sorted_entries:
            entry_name = entry.name
            entry_path = f"{path}/{entry_name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if (
                entry_name in _SKIPPED_FOLDERS
                or entry_path in self._skipped_paths
                or (ignore_rules and is_ignored(entry_path, is_folder, ignore_rules))
            ):
                continue
            if is_folder:
                folder.subfolders.append(entry_name)
                continue
            try:
                entry_status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if not (stat.S_ISREG(entry_status.st_mode) or stat.S_ISLNK(entry_status.st_mode)):
                continue
            numbers = array("q", _get_stat_numbers(entry_status))
            previous_index = previous_indexes.get(entry_name)
            folder.file_names.append(entry_name)
            folder.stat_numbers.extend(numbers)
            if previous_index is None or previous is None:
                folder.digests.append(b"")
                is_changed = True
            else:
                folder.digests.append(previous.digests[previous_index])
                offset = previous_index * FIELDS_PER_FILE
                is_changed = previous.stat_numbers[offset : offset + FIELDS_PER_FILE] != numbers
            if is_changed:
                changed_files.append((len(folder.file_names) - 1, numbers))
            if entry_status.st_nlink > 1:
                has_links, has_changed_link = True, has_changed_link or is_changed
        if has_links:
            self._note_links(name, is_changed=has_changed_link)
        _check_file_count(self._file_count + len(folder.file_names), limits)
        self._unread_files.add(name, folder, changed_files, now, limits.max_file_bytes)
        return folder

    def _note_links(self, name: str, *, is_changed: bool) -> None:
        """Record that a folder contains files with several names. `is_changed`: whether one of them has changed."""
        if self._tracker.note_linked_file(name, is_changed=is_changed):
            self._must_widen = True

    def _rules_for(self, name: str, path: str) -> tuple[FolderRules, ...]:
        """Return the ignore rules that apply to a folder, outermost first."""
        if name in self._rules:
            return self._rules[name]
        if self._scope is None:
            self._scope = walk_scope(self.root)
        inherited_rules = self._scope.outer_rules
        if name:
            parent = name.rpartition("/")[0]
            inherited_rules = self._rules_for(parent, os.path.join(self.root, parent) if parent else self.root)
        rules = rules_in_folder(path, inherited_rules, self._scope.uses_repository_rules)
        self._rules[name] = rules
        return rules


def _is_same_folder(fd: int, record: FolderRecord) -> bool:
    """Whether an open folder is the recorded one, and its ignore rules are the recorded ones."""
    return os.fstat(fd).st_ino == record.inode and (not record.rules_hash or _rules_hash(fd) == record.rules_hash)


def _count_files(folders: Mapping[str, FolderRecord]) -> int:
    return sum(len(folder.file_names) for folder in folders.values())


def _check_file_count(count: int, limits: ScanLimits) -> None:
    """Raise `FolderTooLarge` if there are too many files."""
    if count > limits.max_files:
        raise FolderTooLarge(f"it contains more than {limits.max_files:,} files")


def _rules_hash(fd: int) -> int:
    """Return a number that changes whenever a folder's ignore rules do."""
    rules_hash = 0
    for name in (".gitignore", ".git", ".git/info/exclude"):
        with suppress(OSError):
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            identity = (status.st_ino,) if name == ".git" else (status.st_ino, status.st_size, status.st_mtime_ns)
            rules_hash = hash((rules_hash, name == ".git", *identity)) & 0x7FFFFFFFFFFFFFFF
    return rules_hash
