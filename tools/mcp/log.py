"""The file in which a server's error output ends up: only its owner can read it, and it does not grow without end."""

import os
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

LARGEST = 4 * 1024**2
"""Bytes of the file. One file of what came before is kept beside it."""

_LONGEST_TAIL = 2000


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log; none where there is no such file. Raises `OSError`."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, count)]
    except FileNotFoundError:
        return []


class ServerLog:
    """Takes bytes for as long as it is open. That they cannot be written harms nobody."""

    def __init__(self, path: Path, secrets: Collection[str] = ()) -> None:
        """`secrets`: what is not written down."""
        self._path = path
        self._secrets = tuple(secret.encode("utf-8", "surrogateescape") for secret in secrets)
        self._tail = b""
        self._descriptor: int | None = None
        self._size = 0
        with suppress(OSError):
            self._open()

    @property
    def last_line(self) -> str:
        """The last line with something in it."""
        lines = self._tail.decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def write(self, data: bytes) -> None:
        for secret in self._secrets:
            data = data.replace(secret, b"***")
        self._tail = (self._tail + data[-_LONGEST_TAIL:])[-_LONGEST_TAIL:]
        if self._descriptor is None:
            return
        try:
            if self._size + len(data) > LARGEST:
                self._turn_over()
            # A write that the system cuts short loses the rest of a chunk, of a log.
            self._size += os.write(self._descriptor, data[-LARGEST:])
        except OSError:
            self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _turn_over(self) -> None:
        self.close()
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self._open()

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size
