"""Tracks which databases this process has open.

If a process opens and closes a database file itself, POSIX releases all locks that SQLite holds on the file in that
process. Another process could then consider the database unused and remove its log, and later writes would be lost.
Code that reads such a file must therefore check here first."""

import os
import sqlite3
import threading
from collections import Counter
from pathlib import Path
from typing import TypeAlias

_Place: TypeAlias = tuple[int, int]
"""Device and inode of a file, which may have several names."""

_counts: Counter[_Place] = Counter()

opening = threading.RLock()
"""Held from checking whether a database is open here until it is opened, so that no other thread opens it meanwhile."""


class OpenDatabase(sqlite3.Connection):
    """A connection that is tracked until it is closed, and that supports weak references."""

    _place: _Place | None = None

    def note(self, path: Path) -> None:
        """Register the connection for this file."""
        with opening:
            self._place = _place_of(path)
            if self._place is not None:
                _counts[self._place] += 1

    def close(self) -> None:
        super().close()
        self._forget()

    def __del__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        with opening:
            if self._place is not None:
                _counts[self._place] -= 1
                if not _counts[self._place]:
                    del _counts[self._place]
                self._place = None


def is_open_here(path: Path) -> bool:
    """Whether this process has a connection to the database."""
    with opening:
        place = _place_of(path)
        return place is not None and _counts[place] > 0


def _place_of(path: Path) -> _Place | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
