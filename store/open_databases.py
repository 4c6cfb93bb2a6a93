"""Tracks which databases this process has open.

If a process opens and closes a database file directly, POSIX releases all locks that SQLite holds on that file in the
same process. Another process could then conclude that nobody uses the database and remove its log, and later writes
would be lost. Code that reads such a file directly must therefore check here first.
"""

import os
import sqlite3
import threading
from collections import Counter
from pathlib import Path
from typing import TypeAlias

_FileId: TypeAlias = tuple[int, int]
"""Device and inode of a file. Paths would not work, because a file may have several."""

_open_counts: Counter[_FileId] = Counter()

opening_lock = threading.RLock()
"""Held from checking whether this process has a database open until the database has been opened, so that no other
thread opens it in between."""


class OpenDatabase(sqlite3.Connection):
    """A connection that is tracked until it is closed. It supports weak references."""

    _registered_file: _FileId | None = None

    def register(self, path: Path) -> None:
        """Register this connection as open on the file at `path`."""
        with opening_lock:
            self._registered_file = _file_id(path)
            if self._registered_file is not None:
                _open_counts[self._registered_file] += 1

    def close(self) -> None:
        super().close()
        self._unregister()

    def __del__(self) -> None:
        self._unregister()

    def _unregister(self) -> None:
        with opening_lock:
            if self._registered_file is not None:
                _open_counts[self._registered_file] -= 1
                if not _open_counts[self._registered_file]:
                    del _open_counts[self._registered_file]
                self._registered_file = None


def is_open_in_process(path: Path) -> bool:
    """Whether this process has an open connection to the database."""
    with opening_lock:
        file_id = _file_id(path)
        return file_id is not None and _open_counts[file_id] > 0


def _file_id(path: Path) -> _FileId | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
