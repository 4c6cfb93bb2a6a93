"""Reads the files whose content has changed since the last scan of a folder."""

import hashlib
import os
import stat
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ebbtide.agent.checkpoints.comparison import change_time_ns
from ebbtide.agent.checkpoints.folder_record import CHANGE_TIME_INDEX, FIELDS_PER_FILE, FolderRecord

TICK_NS, COARSE_TICK_NS = 20_000_000, 2_100_000_000
"""Two changes within this many nanoseconds can get the same time: the first value is for file systems with nanosecond
times, the second for all others."""
OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ScanCancelled(Exception):
    """The scan was stopped because it is no longer needed."""


@dataclass(frozen=True, slots=True)
class ScanLimits:
    max_files: int
    max_file_bytes: int
    max_total_bytes: int
    """Total size of all files, in bytes."""


StoreContent = Callable[[bytes, bytes], None]
"""Stores content under its digest. It may be called again for content that is already stored."""


class UnreadFiles:
    """The files that a scan has yet to read."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._files: list[tuple[str, FolderRecord, list[int]]] = []
        """For each folder its name, its record, and the indexes of the files in the record."""
        self.count = 0
        self.total_bytes = 0

    def clear(self) -> None:
        self._files = []
        self.count = self.total_bytes = 0

    def add(
        self,
        name: str,
        folder: FolderRecord,
        changed_files: Sequence[tuple[int, "array[int]"]],
        now: int,
        max_file_bytes: int,
    ) -> None:
        """Update the stat numbers of a folder's changed files, and queue those that must be read. `changed_files`: for
        each, its index in the record and its stat numbers."""
        unread = []
        for index, numbers in changed_files:
            mode, size, change_time, _ = numbers
            offset = index * FIELDS_PER_FILE
            folder.stat_numbers[offset : offset + FIELDS_PER_FILE] = numbers
            if stat.S_ISREG(mode) and size > max_file_bytes:
                folder.digests[index] = b""
                continue
            folder.stat_numbers[offset + CHANGE_TIME_INDEX] = reliable_time(change_time, now)
            unread.append(index)
            self.total_bytes += size
        if unread:
            self._files.append((name, folder, unread))
            self.count += len(unread)

    def read(self, max_file_bytes: int, store_content: StoreContent, is_cancelled: Callable[[], bool]) -> list[str]:
        """Read and store all queued files, and write their digests into the records. Return the paths of those that
        could not be read. Raises `ScanCancelled`."""
        unreadable_files: list[str] = []
        for name, folder, indexes in self._files:
            unreadable_files += self._read_folder(name, folder, indexes, max_file_bytes, store_content, is_cancelled)
        return unreadable_files

    def _read_folder(
        self,
        name: str,
        folder: FolderRecord,
        indexes: Sequence[int],
        max_file_bytes: int,
        store_content: StoreContent,
        is_cancelled: Callable[[], bool],
    ) -> list[str]:
        unreadable_files = []
        prefix = f"{name}/" if name else ""
        try:
            fd = os.open(os.path.join(self._root, name), OPEN_FOLDER_FLAGS)
        except OSError:
            fd = -1  # an invalid descriptor, so that each file is recorded as unreadable
        try:
            for index in indexes:
                if is_cancelled():
                    raise ScanCancelled
                self.count -= 1
                file_name, offset = folder.file_names[index], index * FIELDS_PER_FILE
                try:
                    if stat.S_ISLNK(folder.stat_numbers[offset]):
                        content = os.fsencode(os.readlink(file_name, dir_fd=fd))
                    else:
                        content, folder.stat_numbers[offset + CHANGE_TIME_INDEX] = read_content(
                            file_name, folder.stat_numbers[offset + CHANGE_TIME_INDEX], max_file_bytes, fd
                        )
                except (OSError, ValueError):
                    folder.digests[index] = b""
                    folder.stat_numbers[offset + CHANGE_TIME_INDEX] = -change_time_ns(
                        f"{self._root}/{prefix}{file_name}"
                    )
                    unreadable_files.append(prefix + file_name)
                    continue
                folder.digests[index] = digest = hashlib.sha256(content).digest()
                store_content(digest, content)
        finally:
            if fd >= 0:
                os.close(fd)
        return unreadable_files


def reliable_time(change_time_ns: int, now: int) -> int:
    """Return a file's change time; 0 if it is so recent that another change could get the same time."""
    tick = TICK_NS if change_time_ns % 1_000_000_000 else COARSE_TICK_NS
    return change_time_ns if change_time_ns + tick < now else 0


def read_content(name: str, change_time: int, max_bytes: int, folder_fd: int) -> tuple[bytes, int]:
    """Return the bytes of a file and its change time; the time is 0 if the file has changed since the last check.
    `change_time`: the change time at the last check. Raises `OSError`, and `ValueError` if the file was replaced or
    grew."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        old_status = os.fstat(fd)
        if not stat.S_ISREG(old_status.st_mode) or old_status.st_size > max_bytes:
            raise ValueError("it has become another")
        content = os.read(fd, old_status.st_size + 1)
        while 0 < len(content) <= max_bytes and len(content) != old_status.st_size:
            chunk = os.read(fd, max_bytes)
            if not chunk:
                break
            content += chunk
        if len(content) > max_bytes:
            raise ValueError("it grows")
        new_status = os.fstat(fd)
    finally:
        os.close(fd)
    is_same = old_status.st_ctime_ns == new_status.st_ctime_ns == change_time and len(content) == new_status.st_size
    return content, change_time if is_same else 0
