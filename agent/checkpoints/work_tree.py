"""The files of a folder as they are now, found by looking at times and sizes, and read only where those have changed.

It follows no symbolic link and goes into nothing that git would ignore; `.git` is left out. What is found is kept for
the next time in rows, one for each folder. As git's index does, it trusts no time that is as new as the look at it: a
file that is changed twice within one tick of the clock is read again.
"""

import hashlib
import os
import stat
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from agent.checkpoints.file_state import ABSENT, FileState
from agent.checkpoints.folder_record import FIELDS, Folder
from tools.search.walk import FolderRules, WalkScope, is_ignored, rules_in, scope_of

TICK, COARSE_TICK = 20_000_000, 2_100_000_000
"""Nanoseconds within which two changes may have the same time: of file systems that count them, and of others."""


class TooMuch(Exception):
    """The folder holds more than may be looked at. The text says what."""


class Stopped(Exception):
    """Nobody waits for it any more."""


@dataclass(frozen=True, slots=True)
class Limits:
    files: int
    file_bytes: int
    all_bytes: int
    """Bytes of all files together."""


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


Keep = Callable[[bytes, bytes], None]
"""Takes bytes with their digest. May be called for what it has already."""


class WorkTree:
    """A folder, as it was found last. For one thread at a time."""

    def __init__(self, root: str, left_out: Iterable[str], folders: Mapping[str, Folder]) -> None:
        """`left_out`: absolute paths that are not looked at. `folders`: what an earlier one has kept."""
        self.root = root
        self.folders = dict(folders)
        self._left_out = frozenset(left_out)
        self._rules: dict[str, tuple[FolderRules, ...]] = {}
        self._scope: WalkScope | None = None
        self._unread: list[tuple[str, Folder, int]] = []
        self._found = Found()
        self._before: Mapping[str, Folder] = {}
        self._ruled_anew: set[str] = set()
        self._seen = self._bytes = self._since = 0

    def look(self, limits: Limits, keep: Keep, stopped: Callable[[], bool]) -> Found:
        """What has changed since the last look. Raises `TooMuch` and `Stopped`, and `OSError` where the folder itself
        cannot be read; then nothing is kept of it."""
        before, started = self.folders, time.time_ns()
        self._before, self.folders, self._found = before, dict(before), Found()
        self._unread, self._seen, self._bytes = [], 0, 0
        self._scope = None
        self._rules.clear()
        self._ruled_anew.clear()
        try:
            self._walk(limits, stopped)
            self._read(limits, keep, stopped)
            self._compare(before)
        except BaseException:
            self.folders = before
            raise
        self._since = started
        return self._found

    def _walk(self, limits: Limits, stopped: Callable[[], bool]) -> None:
        """Looks at every name. What has to be read is left in `_unread`."""
        waiting: list[tuple[str, bool]] = [("", False)]
        while waiting:
            if stopped():
                raise Stopped
            name, is_ruled_anew = waiting.pop()
            path = os.path.join(self.root, name) if name else self.root
            try:
                handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                if not name:
                    raise
                self._found.unkept.append(f"{name}/")  # what was there before is taken to be there still
                continue
            try:
                folder, is_ruled_anew = self._folder(name, path, handle, is_ruled_anew, limits)
            finally:
                os.close(handle)
            self._seen += len(folder.names)
            if self._seen > limits.files:
                raise TooMuch(f"it holds more than {limits.files:,} files")
            prefix = f"{name}/" if name else ""
            waiting.extend((prefix + each, is_ruled_anew) for each in folder.folders)
        if self._bytes > limits.all_bytes:
            raise TooMuch(f"its files hold more than {limits.all_bytes / 1e6:,.0f} MB")

    def _folder(self, name: str, path: str, handle: int, is_ruled_anew: bool, limits: Limits) -> tuple[Folder, bool]:
        """What is in the folder now, and whether other rules hold in it than before."""
        now = time.time_ns()
        status = os.fstat(handle)
        known = self.folders.get(name)
        is_same = known is not None and (known.changed, known.number) == (status.st_mtime_ns, status.st_ino)
        rules = _rules_number(handle) if known is None or known.rules or not is_same else 0
        is_ruled_anew = is_ruled_anew or (known is not None and known.rules != rules)
        if is_ruled_anew:
            self._ruled_anew.add(name)
        if known is None or is_ruled_anew or not is_same:
            return self._listed(name, path, handle, status, rules, now, limits), is_ruled_anew
        numbers, at, look = known.numbers, 0, os.stat
        for index, each in enumerate(known.names):
            try:
                found = look(each, dir_fd=handle, follow_symlinks=False)
            except OSError:  # it went a moment ago
                return self._listed(name, path, handle, status, rules, now, limits), is_ruled_anew
            if (
                found.st_ctime_ns != numbers[at + 2]
                or found.st_size != numbers[at + 1]
                or found.st_mode != numbers[at]
                or found.st_ino != numbers[at + 3]
            ):
                if known is self.folders.get(name) and name not in self._found.touched:
                    known = self._anew(name, known)
                    numbers = known.numbers
                if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                    return self._listed(name, path, handle, status, rules, now, limits), is_ruled_anew
                self._note(name, known, index, found, now, limits)
            at += FIELDS
        if stat.S_IMODE(status.st_mode) != known.mode:
            known = self._anew(name, known)
            known.mode = stat.S_IMODE(status.st_mode)
        return known, is_ruled_anew

    def _anew(self, name: str, known: Folder) -> Folder:
        """A copy to be changed."""
        copy = Folder(
            known.mode, known.changed, known.number, known.rules, list(known.names), array("q", known.numbers),
            list(known.digests), list(known.folders),
        )  # fmt: skip
        self.folders[name] = copy
        self._found.touched.add(name)
        return copy

    def _listed(
        self, name: str, path: str, handle: int, status: os.stat_result, rules: int, now: int, limits: Limits
    ) -> Folder:
        """The folder with its names read anew."""
        known = self._before.get(name)
        places = {each: index for index, each in enumerate(known.names)} if known is not None else {}
        folder = Folder(stat.S_IMODE(status.st_mode), _sure(status.st_mtime_ns, now), status.st_ino, rules)
        here = self._rules_for(name, path)
        self.folders[name] = folder
        self._found.touched.add(name)
        with os.scandir(handle) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            full = os.path.join(path, entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or full in self._left_out or (here and is_ignored(full, is_folder, here)):
                continue
            if is_folder:
                folder.folders.append(entry.name)
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                continue
            folder.names.append(entry.name)
            place = places.get(entry.name)
            if place is not None and known is not None:
                folder.numbers.extend(known.numbers[place * FIELDS : (place + 1) * FIELDS])
                folder.digests.append(known.digests[place])
                if tuple(folder.numbers[-FIELDS:]) == _numbers(found):
                    continue
            else:
                folder.numbers.extend((0,) * FIELDS)
                folder.digests.append(b"")
            self._note(name, folder, len(folder.names) - 1, found, now, limits)
            if self._seen + len(folder.names) > limits.files:
                raise TooMuch(f"it holds more than {limits.files:,} files")
        return folder

    def _note(self, name: str, folder: Folder, index: int, found: os.stat_result, now: int, limits: Limits) -> None:
        """Takes over what is known of a file without reading it."""
        mode, size, changed, number = _numbers(found)
        at = index * FIELDS
        folder.numbers[at : at + FIELDS] = array("q", (mode, size, _sure(changed, now), number))
        if stat.S_ISREG(mode) and size > limits.file_bytes:
            folder.digests[index] = b""
            folder.numbers[at + 2] = changed
            return
        self._unread.append((name, folder, index))
        self._bytes += size

    def _read(self, limits: Limits, keep: Keep, stopped: Callable[[], bool]) -> None:
        for name, folder, index in self._unread:
            if stopped():
                raise Stopped
            path = os.path.join(self.root, name, folder.names[index])
            at = index * FIELDS
            try:
                if stat.S_ISLNK(folder.numbers[at]):
                    content = os.fsencode(os.readlink(path))
                else:
                    content, folder.numbers[at + 2] = read_content(path, folder.numbers[at + 2], limits.file_bytes)
            except (OSError, ValueError):
                folder.digests[index] = b""
                folder.numbers[at + 2] = -_changed_at(path)
                self._found.unkept.append(f"{name}/{folder.names[index]}" if name else folder.names[index])
                continue
            digest = hashlib.sha256(content).digest()
            folder.digests[index] = digest
            keep(digest, content)

    def _compare(self, before: Mapping[str, Folder]) -> None:
        """What became another, of the folders that were read anew; and what went with its folder."""
        for name in sorted(self._found.touched):
            prefix = f"{name}/" if name else ""
            old, new = before.get(name), self.folders[name]
            old_names = {each: index for index, each in enumerate(old.names)} if old is not None else {}
            if old is None or old.mode != new.mode:
                was = FileState("folder", old.mode) if old is not None else ABSENT
                self._note_change(name, was, FileState("folder", new.mode))
            for index, each in enumerate(new.names):
                place = old_names.pop(each, None)
                then = old.state(place) if old is not None and place is not None else ABSENT
                now = new.state(index)
                if then == now:
                    continue
                if then == ABSENT and name in self._ruled_anew:  # it may have been ignored before
                    if _changed_at(os.path.join(self.root, prefix + each)) < self._since:
                        continue
                    self._found.doubtful.add(prefix + each)
                self._note_change(prefix + each, then, now)
            for each, place in old_names.items():
                if old is not None and not self._is_ignored_now(name, prefix + each):
                    self._note_change(prefix + each, old.state(place), ABSENT)
            for each in old.folders if old is not None else ():
                if each not in new.folders:
                    self._went(prefix + each, before, is_ignored=self._is_ignored_now(name, prefix + each))

    def _note_change(self, path: str, was: FileState, now: FileState) -> None:
        """Where a folder takes the place of a file, each of the two is found by itself."""
        earlier = self._found.changes.get(path, (ABSENT, ABSENT))
        self._found.changes[path] = (was if was != ABSENT else earlier[0], now if now != ABSENT else earlier[1])

    def _is_ignored_now(self, folder: str, name: str) -> bool:
        """Whether a name that is listed no longer is there still."""
        return folder in self._ruled_anew and os.path.lexists(os.path.join(self.root, name))

    def _went(self, name: str, before: Mapping[str, Folder], *, is_ignored: bool) -> None:
        waiting = [name]
        while waiting:
            each = waiting.pop()
            old = before.get(each)
            if old is None:
                continue
            if not is_ignored:
                self._note_change(each, FileState("folder", old.mode), ABSENT)
                for index, one in enumerate(old.names):
                    self._note_change(f"{each}/{one}", old.state(index), ABSENT)
            waiting.extend(f"{each}/{one}" for one in old.folders)
            self.folders.pop(each, None)
            self._found.gone.add(each)
            self._found.touched.discard(each)

    def _rules_for(self, name: str, path: str) -> tuple[FolderRules, ...]:
        """The rules that hold in a folder, outermost first."""
        if name in self._rules:
            return self._rules[name]
        if self._scope is None:
            self._scope = scope_of(self.root)
        above = self._scope.above
        if name:
            parent = name.rpartition("/")[0]
            above = self._rules_for(parent, os.path.join(self.root, parent) if parent else self.root)
        found = rules_in(path, above, self._scope.is_tracked)
        self._rules[name] = found
        return found


def _changed_at(path: str) -> int:
    """When it was changed last, in nanoseconds; 1 where that cannot be said."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 1


def _numbers(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_mode, found.st_size, found.st_ctime_ns, found.st_ino


def _sure(changed: int, now: int) -> int:
    """The time, or 0 where something that was changed again by now could have the same."""
    tick = TICK if changed % 1_000_000_000 else COARSE_TICK
    return changed if changed + tick < now else 0


def _rules_number(handle: int) -> int:
    """What tells whether the rules of a folder are still the same."""
    number = 0
    for name in (".gitignore", ".git", ".git/info/exclude"):
        with suppress(OSError):
            found = os.stat(name, dir_fd=handle, follow_symlinks=False)
            kept = (found.st_ino,) if name == ".git" else (found.st_ino, found.st_size, found.st_mtime_ns)
            number = hash((number, name == ".git", *kept)) & 0x7FFFFFFFFFFFFFFF
    return number


def read_content(path: str, changed: int, most: int, folder: int | None = None) -> tuple[bytes, int]:
    """The bytes of a file, and the time of its last change where it stayed the same meanwhile. Raises `OSError`, and
    `ValueError` when it is not what it was."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode) or before.st_size > most:
            raise ValueError("it has become another")
        content = os.read(handle, before.st_size + 1)
        while 0 < len(content) <= most and len(content) != before.st_size:
            more = os.read(handle, most)
            if not more:
                break
            content += more
        if len(content) > most:
            raise ValueError("it grows")
        after = os.fstat(handle)
    finally:
        os.close(handle)
    is_same = before.st_ctime_ns == after.st_ctime_ns == changed and len(content) == after.st_size
    return content, changed if is_same else 0
