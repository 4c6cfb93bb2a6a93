"""Compares two scans of a folder."""

import os
from collections.abc import Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field

from ebbtide.agent.checkpoints.file_state import ABSENT, FileState
from ebbtide.agent.checkpoints.folder_record import FIELDS_PER_FILE, Folder

Change = tuple[FileState, FileState]
_CLOCKS = 20_000_000
"""How far the clock of files may be ahead of the clock read here, in nanoseconds. Keeping an unneeded folder does
less harm than removing a needed one; for files the user is asked."""


@dataclass(slots=True)
class FolderChanges:
    """The result of a scan."""

    changes: dict[str, Change] = field(default_factory=dict)
    """The previous and the current state of each path."""
    touched: set[str] = field(default_factory=set)
    """Folders whose record must be stored again."""
    removed: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    """Paths that may have existed before, but were ignored."""
    unkept: list[str] = field(default_factory=list)
    """Files whose content is not stored."""


def compare(
    root: str,
    before: Mapping[str, Folder],
    after: MutableMapping[str, Folder],
    found: FolderChanges,
    ruled_anew: Collection[str],
    since: int,
    state_of: Callable[[str], FileState],
) -> None:
    """Record the changes in the folders that were read again, and remove from `after` what was deleted with its
    folder. `ruled_anew`: folders whose ignore rules have changed. `since`: start of the previous scan, in
    nanoseconds. `state_of`: the current state of a path that the scan left out."""
    if before:  # the first scan has nothing to compare with
        _Comparison(root, before, after, found, ruled_anew, since, state_of).run()


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
        for name in sorted(self.found.touched):
            old, new = self.before.get(name), self.after[name]
            # The root, whose name is empty, belongs to the user.
            if name and (old is None or old.mode != new.mode) and not self._was_ignored(name, old):
                was = FileState("folder", old.mode) if old is not None else ABSENT
                self._note(name, was, FileState("folder", new.mode))
            self._files(name, old, new)
            there = set(new.folders)
            for each in old.folders if old is not None else ():
                if each not in there:
                    self._note_removed(f"{name}/{each}" if name else each, may_be_there=name in self.changed_rules)

    def _was_ignored(self, name: str, old: Folder | None) -> bool:
        """Whether a folder probably existed before and only became visible now."""
        is_seen_anew = old is None and name.rpartition("/")[0] in self.changed_rules
        return is_seen_anew and changed_at(os.path.join(self.root, name)) < self.since + _CLOCKS

    def _files(self, name: str, old: Folder | None, new: Folder) -> None:
        prefix = f"{name}/" if name else ""
        old_places = {each: index for index, each in enumerate(old.names)} if old is not None else {}
        for index, each in enumerate(new.names):
            place = old_places.pop(each, None)
            then = old.state(place) if old is not None and place is not None else ABSENT
            now = new.state(index)
            if then == now:
                continue
            if then == ABSENT and name in self.changed_rules:  # it may have been ignored before
                if changed_at(os.path.join(self.root, prefix + each)) < self.since:
                    continue
                self.found.doubtful.add(prefix + each)
            self._note(prefix + each, then, now)
        for each, place in old_places.items():
            if old is not None:
                self._left_out(prefix + each, old, place, may_be_there=name in self.changed_rules)

    def _left_out(self, path: str, old: Folder, place: int, *, may_be_there: bool) -> None:
        """Record a file that is not listed any more: it was deleted, or it is ignored now and may have changed."""
        then = old.state(place)
        if not may_be_there:
            self._note(path, then, ABSENT)
        elif numbers_at(os.path.join(self.root, path)) != tuple(
            old.numbers[place * FIELDS_PER_FILE : (place + 1) * FIELDS_PER_FILE]
        ):
            self._note(path, then, self.state_of(path))

    def _note(self, path: str, was: FileState, now: FileState) -> None:
        """Record a change. If a folder replaces a file, each of the two is recorded separately and merged here."""
        if was == now:
            return
        earlier = self.found.changes.get(path, (ABSENT, ABSENT))
        self.found.changes[path] = (was if was != ABSENT else earlier[0], now if now != ABSENT else earlier[1])

    def _note_removed(self, name: str, *, may_be_there: bool) -> None:
        waiting = [name]
        while waiting:
            each = waiting.pop()
            old = self.before.get(each)
            if old is None:
                continue
            self._note(each, FileState("folder", old.mode), self.state_of(each) if may_be_there else ABSENT)
            for index, one in enumerate(old.names):
                self._left_out(f"{each}/{one}", old, index, may_be_there=may_be_there)
            waiting.extend(f"{each}/{one}" for one in old.folders)
            self.after.pop(each, None)
            self.found.removed.add(each)
            self.found.touched.discard(each)


def numbers_at(path: str) -> tuple[int, ...]:
    """Mode, size, change time and inode, as in a folder's record."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return found.st_mode, found.st_size, found.st_ctime_ns, found.st_ino


def changed_at(path: str) -> int:
    """The change time in nanoseconds; 1 if it is unknown."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 1
