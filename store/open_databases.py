"""Which databases this process has open.

Where a process opens and closes the file of one itself, the system lets go of every lock that SQLite has on it in this
process, as POSIX wants it. Another process then takes the database for one that nobody uses: it removes the log, and
what is written to it from then on is lost. So whoever wants to look at such a file asks here first."""

import os
import sqlite3
import threading
from collections import Counter
from pathlib import Path
from typing import TypeAlias

_Place: TypeAlias = tuple[int, int]
"""Device and number of a file: it may have several names."""

_counts: Counter[_Place] = Counter()

opening = threading.RLock()
"""Held from the question whether a database is open here until it is: no other thread opens it meanwhile."""


class OpenDatabase(sqlite3.Connection):
    """A connection that is known here until it is closed, and whose end something else can wait for."""

    _place: _Place | None = None

    def note(self, path: Path) -> None:
        """It is one to this file."""
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
