"""What became another between two looks at a folder."""

import os
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass, field

from agent.checkpoints.file_state import ABSENT, FileState
from agent.checkpoints.folder_record import Folder

Change = tuple[FileState, FileState]


@dataclass(slots=True)
class Found:
    """What a look at the folder has found."""

    changes: dict[str, Change] = field(default_factory=dict)
    """What each path was when it was looked at before, and is now."""
    touched: set[str] = field(default_factory=set)
    """Folders of which something is kept anew."""
    gone: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    """Paths that may have been there before, ignored."""
    unkept: list[str] = field(default_factory=list)
    """Files of which the bytes are not kept."""


def compare(
    root: str,
    before: Mapping[str, Folder],
    after: MutableMapping[str, Folder],
    found: Found,
    ruled_anew: Collection[str],
    since: int,
) -> None:
    """Notes what became another of the folders that were read anew, and takes out of `after` what went with its folder.
    `ruled_anew`: folders in which other rules for ignored files hold than before. `since`: when the look before began,
    in nanoseconds."""
    if before:  # the first look has nothing to be compared with
        _Comparison(root, before, after, found, ruled_anew, since).run()


@dataclass(slots=True)
class _Comparison:
    root: str
    before: Mapping[str, Folder]
    after: MutableMapping[str, Folder]
    found: Found
    ruled_anew: Collection[str]
    since: int

    def run(self) -> None:
        for name in sorted(self.found.touched):
            old, new = self.before.get(name), self.after[name]
            if name and (old is None or old.mode != new.mode):  # the folder itself is the user's
                was = FileState("folder", old.mode) if old is not None else ABSENT
                self._note(name, was, FileState("folder", new.mode))
            self._files(name, old, new)
            there = set(new.folders)
            for each in old.folders if old is not None else ():
                if each not in there:
                    path = f"{name}/{each}" if name else each
                    self._went(path, is_ignored=self._is_ignored_now(name, path))

    def _files(self, name: str, old: Folder | None, new: Folder) -> None:
        prefix = f"{name}/" if name else ""
        old_places = {each: index for index, each in enumerate(old.names)} if old is not None else {}
        for index, each in enumerate(new.names):
            place = old_places.pop(each, None)
            then = old.state(place) if old is not None and place is not None else ABSENT
            now = new.state(index)
            if then == now:
                continue
            if then == ABSENT and name in self.ruled_anew:  # it may have been ignored before
                if changed_at(os.path.join(self.root, prefix + each)) < self.since:
                    continue
                self.found.doubtful.add(prefix + each)
            self._note(prefix + each, then, now)
        for each, place in old_places.items():
            if old is not None and not self._is_ignored_now(name, prefix + each):
                self._note(prefix + each, old.state(place), ABSENT)

    def _note(self, path: str, was: FileState, now: FileState) -> None:
        """Where a folder takes the place of a file, each of the two is found by itself."""
        earlier = self.found.changes.get(path, (ABSENT, ABSENT))
        self.found.changes[path] = (was if was != ABSENT else earlier[0], now if now != ABSENT else earlier[1])

    def _is_ignored_now(self, folder: str, name: str) -> bool:
        """Whether a name that is listed no longer is there still."""
        return folder in self.ruled_anew and os.path.lexists(os.path.join(self.root, name))

    def _went(self, name: str, *, is_ignored: bool) -> None:
        waiting = [name]
        while waiting:
            each = waiting.pop()
            old = self.before.get(each)
            if old is None:
                continue
            if not is_ignored:
                self._note(each, FileState("folder", old.mode), ABSENT)
                for index, one in enumerate(old.names):
                    self._note(f"{each}/{one}", old.state(index), ABSENT)
            waiting.extend(f"{each}/{one}" for one in old.folders)
            self.after.pop(each, None)
            self.found.gone.add(each)
            self.found.touched.discard(each)


def changed_at(path: str) -> int:
    """When it was changed last, in nanoseconds; 1 where that cannot be said."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 1
