"""Write-ahead log mode. Syncing the log separately lets other processes read and write during the sync; SQLite's own
durable commit would block them."""

import os
import sqlite3
import time
from pathlib import Path

from ebbtide.store.errors import translate_os_errors


def use_log(db: sqlite3.Connection, patience: float) -> None:
    """Enable WAL mode, which allows concurrent readers and commits that survive a killed process; `synchronise` makes
    them survive a power loss. Network file systems reject it and stay in rollback journal mode, where each commit must
    be synced to prevent corruption. `patience` is the timeout in seconds."""
    end = time.monotonic() + patience
    while True:
        try:
            ((mode,),) = db.execute("pragma journal_mode = wal").fetchall()
            break
        except sqlite3.OperationalError as error:
            # For a new database, SQLite does not wait for other processes doing the same.
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > end:
                raise
            time.sleep(0.005)
    db.execute(f"pragma synchronous = {'normal' if mode == 'wal' else 'extra'}")


def synchronise(path: Path) -> None:
    """Sync committed data to disk. If the log no longer exists, its content was already synced to the database. Raises
    `StoreError`."""
    with translate_os_errors(path.parent):
        try:
            log = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.fsync(log)
        finally:
            os.close(log)
