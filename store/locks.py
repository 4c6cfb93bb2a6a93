"""Locks for sessions, so that only one process has a session open. The locks are file locks, which the operating system
releases when a process ends."""

import fcntl
import os
import time
from pathlib import Path

from ebbtide.store.errors import StoreError

MAX_TRIES, RETRY_PAUSE_S = 3, 0.02
"""Number of attempts to acquire a lock, and the pause between them in seconds. One attempt is not enough, because
`is_open` holds the lock for a moment."""


def is_open(folder: Path, session: str) -> bool:
    """Whether any process has the session open; True if that cannot be determined."""
    try:
        handle = os.open(folder / f"{session}.lock", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


class SessionLock:
    """A lock held from `acquire` to `release`, or until the process ends."""

    def __init__(self, folder: Path, session: str) -> None:
        self._path = folder / f"{session}.lock"
        self._session = session
        self._handle: int | None = None

    def acquire(self) -> None:
        """Acquire the lock. Raises `StoreError` ("in use") if another process has the session open."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        tries = 0
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(handle)
                tries += 1
                if tries < MAX_TRIES:
                    time.sleep(RETRY_PAUSE_S)
                    continue
                raise StoreError(
                    "in use", f"session `{self._session}` is open in another window; close it there or start a new one"
                ) from error
            if self._is_still_there(handle):
                self._handle = handle
                return
            # The last owner removed the file after it was opened here and before it was locked, so this lock would not
            # exclude anyone.
            os.close(handle)

    def _is_still_there(self, handle: int) -> bool:
        try:
            return os.fstat(handle).st_ino == self._path.stat().st_ino
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the lock; releasing twice is allowed."""
        if self._handle is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None
