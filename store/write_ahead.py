"""The write-ahead log of a database: others read and write while the disk is waited for. SQLite itself synchronises a
durable commit while it keeps everybody else from writing."""

import os
import sqlite3
import time
from pathlib import Path

from ebbtide.store.errors import translate_os_errors


def use_log(db: sqlite3.Connection, patience: float) -> None:
    """Has readers and a writer at once, and commits that survive a killed process; `synchronise` has them survive a
    loss of power. Network file systems refuse that and answer with the mode that stays, the rollback journal: there
    each commit waits for the disk, since less could damage the database. `patience`: seconds."""
    end = time.monotonic() + patience
    while True:
        try:
            ((mode,),) = db.execute("pragma journal_mode = wal").fetchall()
            break
        except sqlite3.OperationalError as error:
            # Of a new database, SQLite does not wait for others that do the same.
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > end:
                raise
            time.sleep(0.005)
    db.execute(f"pragma synchronous = {'normal' if mode == 'wal' else 'extra'}")


def synchronise(path: Path) -> None:
    """Waits until what was committed is on the disk. A log that is gone was brought into the database, which was
    synchronised then. Raises `StoreError`."""
    with translate_os_errors(path.parent):
        try:
            log = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.fsync(log)
        finally:
            os.close(log)
