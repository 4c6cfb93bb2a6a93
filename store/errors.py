"""Errors from databases and stored files, independent of SQLite's own error classes."""

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

MIN_FREE_BYTES_FOR_SQLITE = 1 << 16
"""Free disk space, in bytes, that SQLite needs to open a database."""

StoreErrorReason: TypeAlias = Literal["locked", "newer", "corrupt", "full", "unreadable", "in use", "missing"]


class StoreError(Exception):
    """The store cannot do what was asked. The message says why and what the user can do."""

    def __init__(self, reason: StoreErrorReason, message: str) -> None:
        super().__init__(message)
        self.reason: StoreErrorReason = reason


_REPAIR_ADVICE = "`ebb doctor --repair` saves what can be read"
_ERRORS_BY_SQLITE_NAME: dict[str, tuple[StoreErrorReason, str]] = {
    "SQLITE_BUSY": ("locked", "is locked by another program; close it or try again"),
    "SQLITE_LOCKED": ("locked", "is locked by another program; close it or try again"),
    "SQLITE_FULL": ("full", "cannot grow: the disk is full; free some space and resume the session"),
    "SQLITE_CORRUPT": ("corrupt", "is damaged; {advice}"),
    "SQLITE_NOTADB": ("corrupt", "is not a {what}; {advice}"),
    "SQLITE_CONSTRAINT": (
        "unreadable",
        "was changed by another program: the session no longer exists in its previous state",
    ),
    "SQLITE_READONLY": ("unreadable", "is read-only: nothing can be stored"),
    "SQLITE_IOERR": ("unreadable", "cannot be read or written: the disk reports an error"),
}


@contextmanager
def translate_sqlite_errors(
    path: Path | str, file_kind: str = "session database", advice: str = _REPAIR_ADVICE
) -> Iterator[None]:
    """Translate SQLite errors to `StoreError`. `path` and `file_kind` identify the file in the message. `advice`: what
    to do if the file is damaged."""
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite's message contains damaged bytes that Python cannot decode
        raise StoreError("corrupt", f"the {file_kind} `{path}` is damaged; {advice}") from error
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", None) or ""
        if name.startswith("SQLITE_IOERR") and isinstance(path, Path) and _is_disk_nearly_full(path.parent):
            name = "SQLITE_FULL"  # SQLite reports this if its files next to the database do not fit
        for name_prefix, (reason, template) in _ERRORS_BY_SQLITE_NAME.items():
            if name.startswith(name_prefix):
                raise StoreError(
                    reason, f"the {file_kind} `{path}` {template.format(what=file_kind, advice=advice)}"
                ) from error
        if isinstance(error, sqlite3.OperationalError):
            raise StoreError("unreadable", f"the {file_kind} `{path}` cannot be used: {error}") from error
        raise


def is_disk_full(error: BaseException) -> bool:
    """Whether SQLite reported a full disk."""
    return isinstance(error, StoreError) and error.reason == "full" and isinstance(error.__cause__, sqlite3.Error)


def _is_disk_nearly_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < MIN_FREE_BYTES_FOR_SQLITE
    except OSError:
        return False


@contextmanager
def translate_os_errors(folder: Path) -> Iterator[None]:
    """Translate system errors about stored files to `StoreError`. The message names the folder."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StoreError("full", f"nothing more can be stored in `{folder}`: the disk is full") from error
        raise StoreError("unreadable", f"`{folder}` cannot be used: {error.strerror or error}") from error
