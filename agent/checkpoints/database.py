"""Opens the checkpoint database of a project. A damaged one is moved aside."""

import fcntl
import os
import time
from contextlib import closing, suppress
from pathlib import Path

from ebbtide.store.checkpoints import CheckpointStore
from ebbtide.store.errors import StoreError

NAME = "checkpoints.db"
_DOUBT = "damaged"
"""A marker file for damage: the next program to open the database checks all of it."""


def open_database(path: Path) -> tuple[CheckpointStore, str]:
    """Open the database; also return a notice if it was damaged. A damaged database is moved aside and replaced,
    unless another process has it open."""
    doubt = path.parent / _DOUBT
    try:
        store = CheckpointStore(path)
        if not doubt.exists():
            return store, ""
        if store.is_whole():
            doubt.unlink()
            return store, ""
        store.close()
        damage = StoreError("corrupt", f"`{path}` is damaged; it will be moved aside once no other program uses it")
    except StoreError as error:
        if error.reason != "corrupt":
            raise
        damage = error
    with closing(InUse(path.parent)) as in_use:
        if not in_use.is_alone():  # else the other process would remove the new database's log when it exits
            raise damage
        ending = f"damaged-{time.time():.0f}"
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            with suppress(OSError):
                (path.parent / name).rename(path.parent / f"{name}.{ending}")
        doubt.unlink(missing_ok=True)
        told = f"the undo history of this folder was damaged; it was moved to `{path}.{ending}`"
        return CheckpointStore(path), told


def note_damage(folder: Path) -> None:
    """Have the whole database checked when it is next opened. Raises `OSError`."""
    (folder / _DOUBT).touch()


class InUse:
    """Tells other processes that this one uses the checkpoints, until it is closed."""

    def __init__(self, folder: Path) -> None:
        self._handle = os.open(folder / "in-use", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._handle, fcntl.LOCK_SH)  # prevents the removal of data that is still needed

    def is_alone(self) -> bool:
        """Whether no other process uses the checkpoints. If so, none can until this is closed."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    @property
    def cleaned_at(self) -> float:
        """When garbage was last removed, in Unix seconds."""
        return os.fstat(self._handle).st_mtime

    def note_cleaned(self) -> None:
        os.utime(self._handle)

    def close(self) -> None:
        os.close(self._handle)
