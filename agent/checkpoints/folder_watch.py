"""Watches folders with inotify, which Linux has. The kernel queues an event before the system call that caused it
returns, so after a command has ended, all its changes can be read here.

It reports no change that another machine makes (so network file systems are not watched), none through a second name
of a file in another folder, and a write through a memory map only once the map is gone.
"""

import ctypes
import os
import struct
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, field

_MODIFY, _ATTRIBUTES, _CLOSE_AFTER_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_CREATED, _DELETED, _QUEUE_OVERFLOW, _WATCH_ENDED = 0x100, 0x200, 0x4000, 0x8000
_ONLY_FOLDERS, _NOT_IF_DELETED, _OF_FOLDER = 0x1000000, 0x4000000, 0x40000000
_WATCHED_EVENTS = (
    _MODIFY | _ATTRIBUTES | _CLOSE_AFTER_WRITE | _MOVED_FROM | _MOVED_TO | _CREATED | _DELETED
    | _ONLY_FOLDERS | _NOT_IF_DELETED
)  # fmt: skip
_HEADER = struct.Struct("iIII")
_READ_BYTES = 1 << 18
_LOCAL_FILE_SYSTEMS = frozenset(
    (0xEF53, 0x9123683E, 0x58465342, 0xF2F52010, 0x2FC12FC1, 0xCA451A4E, 0x01021994, 0x794C7630)
)
"""File systems that only this machine changes: ext2 to ext4, Btrfs, XFS, F2FS, ZFS, bcachefs, tmpfs and OverlayFS. On
others, such as the shared folders of virtual machines, changes may come from elsewhere."""
_STATFS_BYTES = 256
"""Larger than `struct statfs` on any machine. It begins with the type of the file system."""


@dataclass(slots=True)
class FolderEvents:
    """What has happened in the watched folders."""

    changed: set[str] = field(default_factory=set)
    """Names of folders in which something has changed, or whose mode has."""
    replaced: set[str] = field(default_factory=set)
    """Names at which there may be another folder than before."""


class FolderWatch:
    """Collects the changes in any number of folders. Not thread-safe."""

    def __init__(self) -> None:
        """Raises `OSError` if the system does not offer this, or offers it to no more programs."""
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        except AttributeError as error:
            raise OSError("the system has no inotify") from error
        self._names: dict[int, str] = {}
        """The folder of each watch."""
        self._is_local: dict[int, bool] = {}
        """Whether only this machine changes the file system on a device."""

    def close(self) -> None:
        os.close(self._fd)

    def add(self, name: str, folder_fd: int) -> str | None:
        """Watch an open folder, and report its changes under this name. Return the name under which it was watched
        before, or None. Raises `OSError` if no more folders can be watched."""
        watch = self._checked(
            self._libc.inotify_add_watch(self._fd, b"/proc/self/fd/%d" % folder_fd, ctypes.c_uint32(_WATCHED_EVENTS))
        )
        previous = self._names.get(watch)
        self._names[watch] = name
        return previous

    def is_local(self, folder_fd: int) -> bool:
        """Whether all changes of an open folder are reported, because only this machine makes them."""
        device = os.fstat(folder_fd).st_dev
        if device not in self._is_local:
            status = ctypes.create_string_buffer(_STATFS_BYTES)
            found = self._libc.fstatfs(folder_fd, status) == 0
            self._is_local[device] = found and ctypes.c_long.from_buffer(status).value in _LOCAL_FILE_SYSTEMS
        return self._is_local[device]

    def forget_names(self) -> frozenset[int]:
        """Forget the names of all watches, whose events are then ignored until `add` names them again. Return the
        watches."""
        watches = frozenset(self._names)
        self._names.clear()
        return watches

    def remove_unnamed(self, watches: Set[int]) -> None:
        """Remove those of the watches that have no name."""
        for watch in watches - self._names.keys():
            self._libc.inotify_rm_watch(self._fd, watch)

    def take_events(self) -> FolderEvents | None:
        """Return what has happened since the last call; None if the kernel had to drop events."""
        events = FolderEvents()
        is_complete = True
        with suppress(BlockingIOError):
            while data := os.read(self._fd, _READ_BYTES):
                is_complete = self._read_events(data, events) and is_complete
        return events if is_complete else None

    def _read_events(self, data: bytes, events: FolderEvents) -> bool:
        """Add the events in these bytes. Return whether there were no others."""
        offset = 0
        is_complete = True
        while offset < len(data):
            watch, mask, _, name_length = _HEADER.unpack_from(data, offset)
            name_start = offset + _HEADER.size
            offset = name_start + name_length
            if mask & _QUEUE_OVERFLOW:
                is_complete = False
            folder = self._names.get(watch)
            if folder is None:
                continue
            if mask & _WATCH_ENDED:  # the folder was deleted, or its file system is no longer mounted
                del self._names[watch]
                events.replaced.add(folder)
                continue
            events.changed.add(folder)
            if mask & _OF_FOLDER and name_length and mask & (_CREATED | _MOVED_TO | _ATTRIBUTES):
                name = os.fsdecode(data[name_start:offset].rstrip(b"\0"))
                (events.changed if mask & _ATTRIBUTES else events.replaced).add(f"{folder}/{name}" if folder else name)
        return is_complete

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result
