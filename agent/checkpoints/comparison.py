"""Compares two scans of a folder."""

import os
from collections.abc import Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field

from ebbtide.agent.checkpoints.file_state import ABSENT, FileState
from ebbtide.agent.checkpoints.folder_record import FIELDS_PER_FILE, FolderRecord

StateChange = tuple[FileState, FileState]
_CLOCK_TOLERANCE_NS = 20_000_000
"""How far the file system's clock may be ahead of the clock read here, in nanoseconds. A generous value is safe:
keeping an unneeded folder does less harm than removing a needed one, and the user is asked before a file is
restored."""


@dataclass(slots=True)
class FolderChanges:
    """The result of a scan."""

    changes: dict[str, StateChange] = field(default_factory=dict)
    """The previous and current state of each changed path."""
    changed_folders: set[str] = field(default_factory=set)
    """Folders whose records must be stored again."""
    removed_folders: set[str] = field(default_factory=set)
    maybe_ignored_paths: set[str] = field(default_factory=set)
    """New paths that might have existed before as ignored files."""
    unstored_files: list[str] = field(default_factory=list)
    """Files whose content is not stored."""


def record_changes(
    root: str,
    old_folders: Mapping[str, FolderRecord],
    new_folders: MutableMapping[str, FolderRecord],
    result: FolderChanges,
    changed_rules: Collection[str],
    previous_scan_start: int,
    get_state: Callable[[str], FileState],
) -> None:
    """Record in `result` the changes in the folders that were read again, and remove deleted subfolders from
    `new_folders`. `changed_rules`: folders whose ignore rules have changed. `previous_scan_start`: start of the
    previous scan, in nanoseconds. `get_state`: returns the current state of a path that the scan skipped."""
    if old_folders:  # the first scan has nothing to compare with
        _Comparison(root, old_folders, new_folders, result, changed_rules, previous_scan_start, get_state).run()


@dataclass(slots=True)
class _Comparison:
    root: str
    old_folders: Mapping[str, FolderRecord]
    new_folders: MutableMapping[str, FolderRecord]
    result: FolderChanges
    changed_rules: Collection[str]
    previous_scan_start: int
    get_state: Callable[[str], FileState]

    def run(self) -> None:
        for name in sorted(self.result.changed_folders):
            old, new = self.old_folders.get(name), self.new_folders[name]
            # Changes to the root itself, whose name is empty, are not recorded, because the root belongs to the user.
            if name and (old is None or old.mode != new.mode) and not self._was_ignored(name, old):
                old_state = FileState("folder", old.mode) if old is not None else ABSENT
                self._record_change(name, old_state, FileState("folder", new.mode))
            self._compare_files(name, old, new)
            current_subfolders = set(new.subfolders)
            for subfolder in old.subfolders if old is not None else ():
                if subfolder not in current_subfolders:
                    path = f"{name}/{subfolder}" if name else subfolder
                    self._note_removed(path, may_still_exist=name in self.changed_rules)

    def _was_ignored(self, name: str, old: FolderRecord | None) -> bool:
        """Whether a folder probably existed at the last scan but was ignored then, and only seems new because ignore
        rules have changed."""
        is_newly_visible = old is None and name.rpartition("/")[0] in self.changed_rules
        return (
            is_newly_visible
            and change_time_ns(os.path.join(self.root, name)) < self.previous_scan_start + _CLOCK_TOLERANCE_NS
        )

    def _compare_files(self, name: str, old: FolderRecord | None, new: FolderRecord) -> None:
        prefix = f"{name}/" if name else ""
        old_indexes = {file_name: index for index, file_name in enumerate(old.file_names)} if old is not None else {}
        for index, file_name in enumerate(new.file_names):
            old_index = old_indexes.pop(file_name, None)
            old_state = old.state(old_index) if old is not None and old_index is not None else ABSENT
            new_state = new.state(index)
            if old_state == new_state:
                continue
            if old_state == ABSENT and name in self.changed_rules:  # the file may be old and no longer ignored
                if change_time_ns(os.path.join(self.root, prefix + file_name)) < self.previous_scan_start:
                    continue
                self.result.maybe_ignored_paths.add(prefix + file_name)
            self._record_change(prefix + file_name, old_state, new_state)
        for file_name, old_index in old_indexes.items():
            if old is not None:
                self._record_unlisted_file(
                    prefix + file_name, old, old_index, may_still_exist=name in self.changed_rules
                )

    def _record_unlisted_file(self, path: str, old: FolderRecord, index: int, *, may_still_exist: bool) -> None:
        """Record a file that is no longer listed. Either it was deleted, or it is now ignored and might have
        changed."""
        old_state = old.state(index)
        if not may_still_exist:
            self._record_change(path, old_state, ABSENT)
        elif stat_numbers(os.path.join(self.root, path)) != tuple(
            old.stat_numbers[index * FIELDS_PER_FILE : (index + 1) * FIELDS_PER_FILE]
        ):
            self._record_change(path, old_state, self.get_state(path))

    def _record_change(self, path: str, old_state: FileState, new_state: FileState) -> None:
        """Record a change. If a folder replaces a file or vice versa, this method is called twice for the path and
        merges both changes."""
        if old_state == new_state:
            return
        earlier_old_state, earlier_new_state = self.result.changes.get(path, (ABSENT, ABSENT))
        self.result.changes[path] = (
            old_state if old_state != ABSENT else earlier_old_state,
            new_state if new_state != ABSENT else earlier_new_state,
        )

    def _note_removed(self, name: str, *, may_still_exist: bool) -> None:
        pending = [name]
        while pending:
            path = pending.pop()
            old = self.old_folders.get(path)
            if old is None:
                continue
            self._record_change(
                path, FileState("folder", old.mode), self.get_state(path) if may_still_exist else ABSENT
            )
            for index, child in enumerate(old.file_names):
                self._record_unlisted_file(f"{path}/{child}", old, index, may_still_exist=may_still_exist)
            pending.extend(f"{path}/{child}" for child in old.subfolders)
            self.new_folders.pop(path, None)
            self.result.removed_folders.add(path)
            self.result.changed_folders.discard(path)


def stat_numbers(path: str) -> tuple[int, ...]:
    """Return a file's mode, size, change time and inode, ordered as in a folder record; empty if there is no file."""
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return status.st_mode, status.st_size, status.st_ctime_ns, status.st_ino


def change_time_ns(path: str) -> int:
    """Return the change time of a path in nanoseconds; 1 if it is unknown."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 1
