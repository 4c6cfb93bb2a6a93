"""Locks that allow only one process at a time to open a session. They are file locks, which the operating system
releases when a process ends."""

import fcntl
import os
import time
from pathlib import Path

from ebbtide.store.errors import StoreError

MAX_ATTEMPTS, RETRY_PAUSE_S = 3, 0.02
"""Number of attempts to acquire a lock, and the pause between them in seconds. One attempt is not enough, because
`is_open` holds the lock briefly."""


def is_open(folder: Path, session: str) -> bool:
    """Whether any process has the session open. True if this cannot be determined."""
    try:
        descriptor = os.open(folder / f"{session}.lock", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


class SessionLock:
    """A session lock. It is held from `acquire` until `release` or the end of the process."""

    def __init__(self, folder: Path, session: str) -> None:
        self._path = folder / f"{session}.lock"
        self._session = session
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Acquire the lock. Raises `StoreError` ("in use") if another process has the session open."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        attempt_count = 0
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(descriptor)
                attempt_count += 1
                if attempt_count < MAX_ATTEMPTS:
                    time.sleep(RETRY_PAUSE_S)
                    continue
                raise StoreError(
                    "in use", f"session `{self._session}` is open in another window; close it there or start a new one"
                ) from error
            if self._is_current_file(descriptor):
                self._descriptor = descriptor
                return
            # The previous owner removed the file after we opened it but before we locked it. This lock would exclude
            # nobody.
            os.close(descriptor)

    def _is_current_file(self, descriptor: int) -> bool:
        try:
            return os.fstat(descriptor).st_ino == self._path.stat().st_ino
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the lock. May be called twice."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None
