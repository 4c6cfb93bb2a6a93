"""The lock of the search index. Its holder brings the index up to date; its file says how far the index is."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from ebbtide.store.errors import translate_os_errors


class IndexLock:
    """Allows one process at a time to index everything. It is held until `close`, also by processes that inherit its
    descriptor until they end."""

    def __init__(self, descriptor: int | None) -> None:
        """`descriptor`: the locked file, open for writing; None if the index has only one user."""
        self.descriptor = descriptor

    @classmethod
    def acquire(cls, database: Path | None) -> Self | None:
        """Acquire the lock of a database; None if it is held already. `database`: None for one that no other process
        can open. Raises `StoreError`."""
        if database is None:
            return cls(None)
        path = _lock_path(database)
        with translate_os_errors(path.parent):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(descriptor)
                if isinstance(error, BlockingIOError):
                    return None
                raise
        return cls(descriptor)

    def record(self, message_id: int) -> None:
        """Record that all messages up to this row id are indexed."""
        text = b"%d" % message_id
        with suppress(OSError):  # without the record, a process looks for messages in vain
            if self.descriptor is not None and os.pread(self.descriptor, len(text) + 1, 0) != text:
                os.truncate(self.descriptor, 0)
                os.pwrite(self.descriptor, text, 0)

    def close(self) -> None:
        """Release the lock, unless another process has inherited it. May be called twice."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def last_indexed_message(database: Path) -> int:
    """Return the row id up to which all messages were indexed when an `IndexLock` last recorded it; 0 if unknown."""
    try:
        return int(_lock_path(database).read_bytes() or b"0")
    except (OSError, ValueError):
        return 0


def _lock_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-index")
