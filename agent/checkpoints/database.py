"""Opens a project's checkpoint database. A damaged database is moved aside."""

import fcntl
import os
import time
from contextlib import closing, suppress
from pathlib import Path

from ebbtide.store.checkpoints import CheckpointStore
from ebbtide.store.errors import StoreError

DATABASE_NAME = "checkpoints.db"
_DAMAGE_MARKER = "damaged"
"""Name of the marker file for suspected damage. The next process that opens the database checks it completely."""


def open_database(path: Path) -> tuple[CheckpointStore, str]:
    """Open the database. Also return a notice for the user if the database was damaged and replaced, otherwise an empty
    string. Raises `StoreError` if the database is damaged and another process has it open."""
    marker = path.parent / _DAMAGE_MARKER
    try:
        store = CheckpointStore(path)
        if not marker.exists():
            return store, ""
        if store.is_intact():
            marker.unlink()
            return store, ""
        store.close()
        damage = StoreError("corrupt", f"`{path}` is damaged; it will be moved aside once no other program uses it")
    except StoreError as error:
        if error.reason != "corrupt":
            raise
        damage = error
    with closing(UsageLock(path.parent)) as usage_lock:
        if (
            not usage_lock.has_exclusive_use()
        ):  # otherwise the other process would remove the new database's log when it exits
            raise damage
        suffix = f"damaged-{time.time():.0f}"
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            with suppress(OSError):
                (path.parent / name).rename(path.parent / f"{name}.{suffix}")
        marker.unlink(missing_ok=True)
        notice = f"the undo history of this folder was damaged; it was moved to `{path}.{suffix}`"
        return CheckpointStore(path), notice


def request_check(folder: Path) -> None:
    """Request a complete check of the database when it is next opened. Raises `OSError`."""
    (folder / _DAMAGE_MARKER).touch()


class UsageLock:
    """A lock that shows other processes that this process uses the checkpoints."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / "in-use", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_SH)  # prevents other processes from removing data that is still needed

    def has_exclusive_use(self) -> bool:
        """Check whether no other process uses the checkpoints. If so, no process can start using them until this lock
        is closed."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    @property
    def cleaned_at(self) -> float:
        """When garbage was last removed, in Unix seconds."""
        return os.fstat(self._fd).st_mtime

    def record_cleanup(self) -> None:
        os.utime(self._fd)

    def close(self) -> None:
        os.close(self._fd)
