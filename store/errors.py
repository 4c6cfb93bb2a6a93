"""How a database and stored files fail, in words that are not SQLite's. It knows no user and no session."""

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

MIN_FREE_BYTES = 1 << 16
"""Bytes that SQLite needs beside a database to open it."""

Reason: TypeAlias = Literal["locked", "newer", "corrupt", "full", "unreadable", "in use", "missing"]


class StoreError(Exception):
    """The store cannot do what was asked. The text says why, and what to do."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


_REPAIR = "`ebb doctor --repair` saves what can be read"
_REASONS: dict[str, tuple[Reason, str]] = {
    "SQLITE_BUSY": ("locked", "is locked by another program; close it or try again"),
    "SQLITE_LOCKED": ("locked", "is locked by another program; close it or try again"),
    "SQLITE_FULL": ("full", "cannot grow: the disk is full; free some space and resume the session"),
    "SQLITE_CORRUPT": ("corrupt", "is damaged; {mend}"),
    "SQLITE_NOTADB": ("corrupt", "is not a {what}; {mend}"),
    "SQLITE_CONSTRAINT": ("unreadable", "was changed by another program: the session is not there as it was"),
    "SQLITE_READONLY": ("unreadable", "can only be read: nothing is stored there"),
    "SQLITE_IOERR": ("unreadable", "cannot be read or written: the disk reports an error"),
}


@contextmanager
def translate_sqlite_errors(path: Path | str, what: str = "session database", mend: str = _REPAIR) -> Iterator[None]:
    """Turns SQLite's errors into `StoreError`s that name the file, and `what` it is. `mend`: what becomes of damage."""
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite tells of damage in bytes that were damaged, and Python cannot say them
        raise StoreError("corrupt", f"the {what} `{path}` is damaged; {mend}") from error
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", None) or ""
        if name.startswith("SQLITE_IOERR") and isinstance(path, Path) and _is_full(path.parent):
            name = "SQLITE_FULL"  # it has no room for what it makes beside the database
        for known, (reason, text) in _REASONS.items():
            if name.startswith(known):
                raise StoreError(reason, f"the {what} `{path}` {text.format(what=what, mend=mend)}") from error
        if isinstance(error, sqlite3.OperationalError):
            raise StoreError("unreadable", f"the {what} `{path}` cannot be used: {error}") from error
        raise


def is_disk_full(error: BaseException) -> bool:
    """Whether it is SQLite that has found the disk full."""
    return isinstance(error, StoreError) and error.reason == "full" and isinstance(error.__cause__, sqlite3.Error)


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < MIN_FREE_BYTES
    except OSError:
        return False


@contextmanager
def translate_os_errors(folder: Path) -> Iterator[None]:
    """Turns the system's errors about stored files into `StoreError`s that name their folder."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StoreError("full", f"nothing more can be stored in `{folder}`: the disk is full") from error
        raise StoreError("unreadable", f"`{folder}` cannot be used: {error.strerror or error}") from error
