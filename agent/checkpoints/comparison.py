"""What became another between two looks at a folder."""

import os
from collections.abc import Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field

from ebbtide.agent.checkpoints.file_state import ABSENT, FileState
from ebbtide.agent.checkpoints.folder_record import FIELDS_PER_FILE, Folder

Change = tuple[FileState, FileState]
_CLOCKS = 20_000_000
"""Nanoseconds by which the clock of files may be ahead of the one that is read here. A folder that stays for it does
less harm than one that is taken away; of files one is asked."""


@dataclass(slots=True)
class FolderChanges:
    """What a look at the folder has found."""

    changes: dict[str, Change] = field(default_factory=dict)
    """What each path was when it was looked at before, and is now."""
    touched: set[str] = field(default_factory=set)
    """Folders of which something is kept anew."""
    removed: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    """Paths that may have been there before, ignored."""
    unkept: list[str] = field(default_factory=list)
    """Files of which the bytes are not kept."""


def compare(
    root: str,
    before: Mapping[str, Folder],
    after: MutableMapping[str, Folder],
    found: FolderChanges,
    ruled_anew: Collection[str],
    since: int,
    state_of: Callable[[str], FileState],
) -> None:
    """Notes what became another of the folders that were read anew, and takes out of `after` what went with its folder.
    `changed_rules`: folders whose rules for ignored files have changed. `since`: when the look before began,
    in nanoseconds. `state_of`: what stands at a path now, which the look has left out."""
    if before:  # the first look has nothing to be compared with
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
            # The folder without a name is the user's.
            if name and (old is None or old.mode != new.mode) and not self._was_ignored(name, old):
                was = FileState("folder", old.mode) if old is not None else ABSENT
                self._note(name, was, FileState("folder", new.mode))
            self._files(name, old, new)
            there = set(new.folders)
            for each in old.folders if old is not None else ():
                if each not in there:
                    self._note_removed(f"{name}/{each}" if name else each, may_be_there=name in self.changed_rules)

    def _was_ignored(self, name: str, old: Folder | None) -> bool:
        """Whether a folder was there before, for all that can be said, and is only seen now."""
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
        """A file that is listed no longer: it went, or it is ignored since then and may hold something else."""
        then = old.state(place)
        if not may_be_there:
            self._note(path, then, ABSENT)
        elif numbers_at(os.path.join(self.root, path)) != tuple(
            old.numbers[place * FIELDS_PER_FILE : (place + 1) * FIELDS_PER_FILE]
        ):
            self._note(path, then, self.state_of(path))

    def _note(self, path: str, was: FileState, now: FileState) -> None:
        """Where a folder takes the place of a file, each of the two is found by itself."""
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
    """Mode, size, time of the last change and inode, as a folder's record has them."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return found.st_mode, found.st_size, found.st_ctime_ns, found.st_ino


def changed_at(path: str) -> int:
    """When it was changed last, in nanoseconds; 1 where that cannot be said."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 1
