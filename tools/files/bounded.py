"""Reads files that other users or programs may control, with a size limit."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

_NON_BLOCKING_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Flags for opening a file without blocking, even if it is a pipe or a terminal."""

MAX_PROGRAM_FILE_BYTES = 1 << 26
"""Size limit for reading files that Ebbtide itself has written, in bytes. They never get that large."""


def read_prefix(path: Path | str, max_bytes: int) -> bytes:
    """Read the first `max_bytes` bytes of a regular file. Raises `OSError` for anything else, because reading a pipe or
    device could block or never end."""
    with _open_regular(path) as file:
        return file.read(max_bytes)


def read_trusted_prefix(path: Path | str, max_bytes: int) -> bytes:
    """Like `read_prefix`, but for a file that grants permissions. Also raises `OSError` if the file belongs to another
    user or is writable by everyone."""
    with _open_regular(path) as file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (0, os.geteuid()):
            raise OSError(errno.EPERM, "it belongs to another user", str(path))
        if status.st_mode & stat.S_IWOTH:
            raise OSError(errno.EPERM, "everybody may change it", str(path))
        return file.read(max_bytes)


@contextmanager
def _open_regular(path: Path | str) -> Iterator[BufferedReader]:
    with open_regular_file(path) as file:
        yield file


def open_regular_file(path: Path | str) -> BufferedReader:
    """Open a regular file. Raises `OSError` if it is not one."""
    file = open(path, "rb", opener=lambda path, _: os.open(path, _NON_BLOCKING_FLAGS))  # noqa: SIM115  # closed by the caller
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))
