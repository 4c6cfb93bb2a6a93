"""Write-ahead log (WAL) mode. The log is synced separately from commits, because a durable commit by SQLite would block
other processes until the disk write has finished."""

import os
import sqlite3
import time
from pathlib import Path

from ebbtide.store.errors import translate_os_errors


def enable_wal(db: sqlite3.Connection, timeout_s: float) -> None:
    """Enable WAL mode, in which other processes can read during a write and commits survive if the process is killed.
    `sync_log` makes them survive a power failure too. Network file systems do not support WAL; there, the database
    stays in rollback journal mode and syncs every commit, which prevents corruption. `timeout_s`: how long to keep
    trying, in seconds."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            ((mode,),) = db.execute("pragma journal_mode = wal").fetchall()
            break
        except sqlite3.OperationalError as error:
            # If another process is enabling WAL on a new database, SQLite fails immediately, ignoring its busy timeout.
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
    db.execute(f"pragma synchronous = {'normal' if mode == 'wal' else 'extra'}")


def sync_log(path: Path) -> None:
    """Sync committed data to disk. If the log no longer exists, SQLite has already synced its content to the database
    file. Raises `StoreError`."""
    with translate_os_errors(path.parent):
        try:
            descriptor = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
