"""Compares two scans of a folder."""

import os
from collections.abc import Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field

from ebbtide.agent.checkpoints.file_state import ABSENT, FileState
from ebbtide.agent.checkpoints.folder_record import FIELDS_PER_FILE, Folder

StateChange = tuple[FileState, FileState]
_CLOCK_TOLERANCE_NS = 20_000_000
"""How far the clock of file times may be ahead of the clock read here, in nanoseconds. A generous value is safe:
keeping an unneeded folder does less harm than removing a needed one, and for files the user is asked."""


@dataclass(slots=True)
class FolderChanges:
    """The result of a scan."""

    changes: dict[str, StateChange] = field(default_factory=dict)
    """The previous and current state of each changed path."""
    changed_records: set[str] = field(default_factory=set)
    """Folders whose records must be stored again."""
    removed_folders: set[str] = field(default_factory=set)
    doubtful_paths: set[str] = field(default_factory=set)
    """New paths that may have existed before as ignored files."""
    unstored_files: list[str] = field(default_factory=list)
    """Files whose content is not stored."""


def record_changes(
    root: str,
    before: Mapping[str, Folder],
    after: MutableMapping[str, Folder],
    found: FolderChanges,
    changed_rules: Collection[str],
    since: int,
    state_of: Callable[[str], FileState],
) -> None:
    """Record in `found` the changes in the folders that were read again, and remove deleted subfolders from `after`.
    `changed_rules`: folders whose ignore rules have changed. `since`: start of the previous scan, in nanoseconds.
    `state_of`: returns the current state of a path that the scan left out."""
    if before:  # the first scan has nothing to compare with
        _Comparison(root, before, after, found, changed_rules, since, state_of).run()


@dataclass(slots=True)
class _Comparison:
    root: str
    before: Mapping[str, Folder]
    after: MutableMapping[str, Folder]
    found: FolderChanges
    changed_rules: Collection[str]
    since: int
    state_of: Callable[[str], FileState]

    def run(self) -> None:
        for name in sorted(self.found.changed_records):
            old, new = self.before.get(name), self.after[name]
            # Changes to the root itself, whose name is empty, are not recorded, because the root belongs to the user.
            if name and (old is None or old.mode != new.mode) and not self._was_ignored(name, old):
                was = FileState("folder", old.mode) if old is not None else ABSENT
                self._note(name, was, FileState("folder", new.mode))
            self._compare_files(name, old, new)
            current_folders = set(new.folders)
            for each in old.folders if old is not None else ():
                if each not in current_folders:
                    self._note_removed(f"{name}/{each}" if name else each, may_still_exist=name in self.changed_rules)

    def _was_ignored(self, name: str, old: Folder | None) -> bool:
        """Whether a folder probably existed at the last scan, and is new only because ignore rules have changed."""
        is_newly_visible = old is None and name.rpartition("/")[0] in self.changed_rules
        return is_newly_visible and change_time_ns(os.path.join(self.root, name)) < self.since + _CLOCK_TOLERANCE_NS

    def _compare_files(self, name: str, old: Folder | None, new: Folder) -> None:
        prefix = f"{name}/" if name else ""
        old_places = {each: index for index, each in enumerate(old.names)} if old is not None else {}
        for index, each in enumerate(new.names):
            place = old_places.pop(each, None)
            then = old.state(place) if old is not None and place is not None else ABSENT
            now = new.state(index)
            if then == now:
                continue
            if then == ABSENT and name in self.changed_rules:  # the file may be old and no longer ignored
                if change_time_ns(os.path.join(self.root, prefix + each)) < self.since:
                    continue
                self.found.doubtful_paths.add(prefix + each)
            self._note(prefix + each, then, now)
        for each, place in old_places.items():
            if old is not None:
                self._note_unlisted(prefix + each, old, place, may_still_exist=name in self.changed_rules)

    def _note_unlisted(self, path: str, old: Folder, place: int, *, may_still_exist: bool) -> None:
        """Record a file that is no longer listed. Either it was deleted, or it is ignored now and may have changed."""
        then = old.state(place)
        if not may_still_exist:
            self._note(path, then, ABSENT)
        elif stat_numbers(os.path.join(self.root, path)) != tuple(
            old.numbers[place * FIELDS_PER_FILE : (place + 1) * FIELDS_PER_FILE]
        ):
            self._note(path, then, self.state_of(path))

    def _note(self, path: str, was: FileState, now: FileState) -> None:
        """Record a change. If a folder replaces a file, or a file replaces a folder, this method is called twice for
        the path and merges both changes."""
        if was == now:
            return
        earlier = self.found.changes.get(path, (ABSENT, ABSENT))
        self.found.changes[path] = (was if was != ABSENT else earlier[0], now if now != ABSENT else earlier[1])

    def _note_removed(self, name: str, *, may_still_exist: bool) -> None:
        pending = [name]
        while pending:
            each = pending.pop()
            old = self.before.get(each)
            if old is None:
                continue
            self._note(each, FileState("folder", old.mode), self.state_of(each) if may_still_exist else ABSENT)
            for index, one in enumerate(old.names):
                self._note_unlisted(f"{each}/{one}", old, index, may_still_exist=may_still_exist)
            pending.extend(f"{each}/{one}" for one in old.folders)
            self.after.pop(each, None)
            self.found.removed_folders.add(each)
            self.found.changed_records.discard(each)


def stat_numbers(path: str) -> tuple[int, ...]:
    """Return a file's mode, size, change time and inode, in the order of a folder record; empty if there is no file."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return found.st_mode, found.st_size, found.st_ctime_ns, found.st_ino


def change_time_ns(path: str) -> int:
    """Return the change time of a path in nanoseconds; 1 if it is unknown."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 1
