"""Reading of files that may be under someone else's control, with a limit on size."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

_AT_ONCE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Opening a pipe or a terminal would otherwise block forever."""

MAX_OWN_FILE_BYTES = 1 << 26
"""Size in bytes that no file written by this program reaches."""


def beginning_of(path: Path | str, most: int) -> bytes:
    """Return the first `most` bytes of a regular file. Raises `OSError`, also for anything but a regular file, which
    could block or be endless."""
    with _regular(path) as file:
        return file.read(most)


def own_beginning_of(path: Path | str, most: int) -> bytes:
    """Return the beginning of a file that grants permissions. Raises `OSError`, also if the file belongs to another
    user or is writable by everyone."""
    with _regular(path) as file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (0, os.geteuid()):
            raise OSError(errno.EPERM, "it belongs to another user", str(path))
        if status.st_mode & stat.S_IWOTH:
            raise OSError(errno.EPERM, "everybody may change it", str(path))
        return file.read(most)


@contextmanager
def _regular(path: Path | str) -> Iterator[BufferedReader]:
    with regular_file(path) as file:
        yield file


def regular_file(path: Path | str) -> BufferedReader:
    """Open a regular file. Raises `OSError`, also for anything else."""
    file = open(path, "rb", opener=lambda path, _: os.open(path, _AT_ONCE))  # noqa: SIM115  # closed by the caller
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))
