"""The current files of a folder, detected by times and sizes, and read only if these have changed.

Symbolic links are not followed; `.git` and everything that git ignores are skipped. The result is stored for the
next scan, one row per folder. Like git's index, it does not trust times as recent as the scan itself: a file changed
twice within one clock tick is read again."""

import hashlib
import os
import stat
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter

from ebbtide.agent.checkpoints.comparison import FolderChanges, changed_at, compare
from ebbtide.agent.checkpoints.file_state import FileState
from ebbtide.agent.checkpoints.folder_record import CHANGED_FIELD, FIELDS_PER_FILE, Folder
from ebbtide.tools.search.walk import FolderRules, WalkScope, is_ignored, rules_in, scope_of

TICK, COARSE_TICK = 20_000_000, 2_100_000_000
"""Nanoseconds within which two changes may have the same time: on file systems that store nanoseconds, and on
others."""

_FILE_CLOCK = 5 if sys.platform == "linux" else time.CLOCK_REALTIME
"""The clock of file times: on Linux the coarse one, which lags behind. Since Linux 6.13 a file whose time was
queried gets a finer time, which may be later."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NUMBERS = attrgetter("st_mode", "st_size", "st_ctime_ns", "st_ino")
_name = attrgetter("name")
_NEVER = frozenset((".git", "__pycache__"))
"""Folders that programs create and maintain themselves."""


class FolderTooLarge(Exception):
    """The folder exceeds a scan limit. The text says which."""


class ScanCancelled(Exception):
    """The scan is no longer needed."""


@dataclass(frozen=True, slots=True)
class Limits:
    files: int
    file_bytes: int
    all_bytes: int
    """Total size of all files, in bytes."""


Keep = Callable[[bytes, bytes], None]
"""Stores bytes under their digest. May be called for bytes already stored."""


class WorkTree:
    """A folder as of the last scan. For one thread at a time."""

    def __init__(self, root: str, left_out: Iterable[str], folders: Mapping[str, Folder]) -> None:
        """`left_out`: absolute paths to skip. `folders`: the records of an earlier scan."""
        self.root = root
        self.folders = dict(folders)
        self.to_read = 0
        """How many files the current scan still has to read."""
        self._left_out = frozenset(left_out)
        self._rules: dict[str, tuple[FolderRules, ...]] = {}
        self._scope: WalkScope | None = None
        self._unread: list[tuple[str, Folder, list[int]]] = []
        """For each folder, the files to read."""
        self._found = FolderChanges()
        self._before: Mapping[str, Folder] = {}
        self._ruled_anew: set[str] = set()
        self._seen = self._bytes = self._since = 0

    @property
    def repositories(self) -> list[str]:
        """Folders that may be the work tree of a repository."""
        return [name for name, folder in self.folders.items() if folder.rules]

    @property
    def has_changed_rules(self) -> bool:
        """Whether any ignore rules have changed since the previous scan."""
        return bool(self._ruled_anew)

    def look(
        self, limits: Limits, keep: Keep, stopped: Callable[[], bool], state_of: Callable[[str], FileState]
    ) -> FolderChanges:
        """Scan for changes since the last scan; without one, nothing has changed. Raises `FolderTooLarge`,
        `ScanCancelled`, and `OSError` if the folder itself cannot be read; the scan is then discarded. `stopped`
        is checked for every file and folder. `state_of`: the current state of a path, storing its content."""
        before, started = self.folders, time.clock_gettime_ns(_FILE_CLOCK)
        self._before, self.folders, self._found = before, dict(before), FolderChanges()
        self._unread, self._seen, self._bytes, self.to_read = [], 0, 0, 0
        self._scope = None
        self._rules.clear()
        self._ruled_anew.clear()
        try:
            self._walk(limits, stopped)
            for name, folder, places in self._unread:
                self._read_files(name, folder, places, limits, keep, stopped)
            compare(self.root, before, self.folders, self._found, self._ruled_anew, self._since, state_of)
        except BaseException:
            self.folders = before
            raise
        finally:
            self.to_read = 0
        self._since = started
        return self._found

    def _walk(self, limits: Limits, stopped: Callable[[], bool]) -> None:
        """Look at every name. Files to be read are left in `_unread`."""
        waiting: list[tuple[str, bool]] = [("", False)]
        while waiting:
            if stopped():
                raise ScanCancelled
            name, is_ruled_anew = waiting.pop()
            path = f"{self.root}/{name}" if name else self.root
            try:
                handle = os.open(path, FOLDER)
            except OSError:
                if not name:
                    raise
                self._found.unkept.append(f"{name}/")
                self._carry_unreadable(name, path)
                continue
            try:
                folder, is_ruled_anew = self._folder(name, path, handle, is_ruled_anew, limits)
            finally:
                os.close(handle)
            self._seen += len(folder.names)
            if self._seen > limits.files:
                raise FolderTooLarge(f"it contains more than {limits.files:,} files")
            prefix = f"{name}/" if name else ""
            waiting.extend((prefix + each, is_ruled_anew) for each in folder.folders)
        if self._bytes > limits.all_bytes:
            raise FolderTooLarge(f"its files exceed {limits.all_bytes / 1e6:,.0f} MB")

    def _carry_unreadable(self, name: str, path: str) -> None:
        """Assume that the content of an unreadable folder is unchanged."""
        known = self.folders.get(name)
        with suppress(OSError):
            status = os.lstat(path)
            if (
                known is not None
                and known.mode != (mode := stat.S_IMODE(status.st_mode))
                and stat.S_ISDIR(status.st_mode)
            ):
                self.folders[name] = replace(known, mode=mode, changed=0)
                self._found.touched.add(name)

    def _folder(self, name: str, path: str, handle: int, is_ruled_anew: bool, limits: Limits) -> tuple[Folder, bool]:
        """The current record of a folder, and whether its ignore rules have changed."""
        now = time.time_ns()
        status = os.fstat(handle)
        known = self.folders.get(name)
        is_same = known is not None and (known.changed, known.number) == (status.st_ctime_ns, status.st_ino)
        rules = _rules_number(handle) if known is None or known.rules or not is_same else 0
        is_ruled_anew = is_ruled_anew or (known is not None and known.rules != rules)
        if is_ruled_anew:
            self._ruled_anew.add(name)
        if known is None or is_ruled_anew or not is_same:
            return self._list_folder(name, path, handle, status, rules, now, limits), is_ruled_anew
        others, place, numbers, look = [], 0, known.numbers, os.stat
        try:
            for each, size, changed, number in zip(
                known.names, numbers[1::4], numbers[2::4], numbers[3::4], strict=True
            ):
                found = look(each, dir_fd=handle, follow_symlinks=False)
                # Any change to a file, even of its mode, updates the ctime, which programs cannot set.
                if found.st_ctime_ns != changed or found.st_size != size or found.st_ino != number:
                    if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                        return self._list_folder(name, path, handle, status, rules, now, limits), is_ruled_anew
                    others.append((place, array("q", _NUMBERS(found))))
                place += 1
        except OSError:  # it was just deleted
            return self._list_folder(name, path, handle, status, rules, now, limits), is_ruled_anew
        if not others:
            return known, is_ruled_anew
        folder = replace(known, numbers=known.numbers[:], digests=list(known.digests))
        self.folders[name] = folder
        self._found.touched.add(name)
        self._note(name, folder, others, now, limits)
        return folder, is_ruled_anew

    def _list_folder(
        self, name: str, path: str, handle: int, status: os.stat_result, rules: int, now: int, limits: Limits
    ) -> Folder:
        """The folder with its names listed again."""
        known = self._before.get(name)
        places = {each: index for index, each in enumerate(known.names)} if known is not None else {}
        folder = Folder(stat.S_IMODE(status.st_mode), _sure(status.st_ctime_ns, now), status.st_ino, rules)
        here = self._rules_for(name, path)
        self.folders[name] = folder
        self._found.touched.add(name)
        others: list[tuple[int, array[int]]] = []
        with os.scandir(handle) as entries:
            listed = sorted(entries, key=_name)
        for entry in listed:
            each = entry.name
            full = f"{path}/{each}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if each in _NEVER or full in self._left_out or (here and is_ignored(full, is_folder, here)):
                continue
            if is_folder:
                folder.folders.append(each)
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                continue
            numbers = array("q", _NUMBERS(found))
            place = places.get(each)
            folder.names.append(each)
            folder.numbers.extend(numbers)
            if place is None or known is None:
                folder.digests.append(b"")
                others.append((len(folder.names) - 1, numbers))
                continue
            folder.digests.append(known.digests[place])
            if known.numbers[place * FIELDS_PER_FILE : (place + 1) * FIELDS_PER_FILE] != numbers:
                others.append((len(folder.names) - 1, numbers))
        if self._seen + len(folder.names) > limits.files:
            raise FolderTooLarge(f"it contains more than {limits.files:,} files")
        self._note(name, folder, others, now, limits)
        return folder

    def _note(
        self, name: str, folder: Folder, others: Sequence[tuple[int, "array[int]"]], now: int, limits: Limits
    ) -> None:
        """Update the numbers of files, and queue those that must be read."""
        unread = []
        for index, numbers in others:
            mode, size, changed, _ = numbers
            at = index * FIELDS_PER_FILE
            folder.numbers[at : at + FIELDS_PER_FILE] = numbers
            if stat.S_ISREG(mode) and size > limits.file_bytes:
                folder.digests[index] = b""
                continue
            folder.numbers[at + CHANGED_FIELD] = _sure(changed, now)
            unread.append(index)
            self._bytes += size
        if unread:
            self._unread.append((name, folder, unread))
            self.to_read += len(unread)

    def _read_files(
        self, name: str, folder: Folder, places: Sequence[int], limits: Limits, keep: Keep, stopped: Callable[[], bool]
    ) -> None:
        prefix = f"{name}/" if name else ""
        try:
            handle = os.open(os.path.join(self.root, name), FOLDER)
        except OSError:
            handle = -1  # so that each of its files is recorded as unreadable
        try:
            for index in places:
                if stopped():
                    raise ScanCancelled
                self.to_read -= 1
                each, at = folder.names[index], index * FIELDS_PER_FILE
                try:
                    if stat.S_ISLNK(folder.numbers[at]):
                        content = os.fsencode(os.readlink(each, dir_fd=handle))
                    else:
                        content, folder.numbers[at + CHANGED_FIELD] = read_content(
                            each, folder.numbers[at + CHANGED_FIELD], limits.file_bytes, handle
                        )
                except (OSError, ValueError):
                    folder.digests[index] = b""
                    folder.numbers[at + CHANGED_FIELD] = -changed_at(f"{self.root}/{prefix}{each}")
                    self._found.unkept.append(prefix + each)
                    continue
                folder.digests[index] = digest = hashlib.sha256(content).digest()
                keep(digest, content)
        finally:
            if handle >= 0:
                os.close(handle)

    def _rules_for(self, name: str, path: str) -> tuple[FolderRules, ...]:
        """The ignore rules of a folder, outermost first."""
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


def _sure(changed: int, now: int) -> int:
    """The time, or 0 if a later change could have the same time."""
    tick = TICK if changed % 1_000_000_000 else COARSE_TICK
    return changed if changed + tick < now else 0


def _rules_number(handle: int) -> int:
    """A number that changes with a folder's ignore rules."""
    number = 0
    for name in (".gitignore", ".git", ".git/info/exclude"):
        with suppress(OSError):
            found = os.stat(name, dir_fd=handle, follow_symlinks=False)
            kept = (found.st_ino,) if name == ".git" else (found.st_ino, found.st_size, found.st_mtime_ns)
            number = hash((number, name == ".git", *kept)) & 0x7FFFFFFFFFFFFFFF
    return number


def read_content(name: str, changed: int, most: int, folder: int) -> tuple[bytes, int]:
    """Read a file in a folder. Return its bytes and its change time, or 0 if it changed in the meantime. `changed`:
    the change time seen before. Raises `OSError`, and `ValueError` if the file was replaced or grew."""
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
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
