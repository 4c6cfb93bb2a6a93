"""Files that somebody else may have put there, read no further than agreed. It knows bytes, not what they mean."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

_AT_ONCE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""A pipe, or a link to a terminal, would be waited for without end."""

MAX_OWN_FILE_BYTES = 1 << 26
"""Bytes that no file comes near which this program writes for itself."""


def beginning_of(path: Path | str, most: int) -> bytes:
    """The first bytes of a regular file, all of a shorter one. Raises `OSError`, also for anything else that is there:
    it could be waited for, or read, without end."""
    with _regular(path) as file:
        return file.read(most)


def own_beginning_of(path: Path | str, most: int) -> bytes:
    """The same of a file by which the user allows something. Raises `OSError`, also where somebody else may have
    written it: it belongs to another user, or everybody may change it."""
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
    """The file, open. Raises `OSError`, also for anything else that is there."""
    file = open(path, "rb", opener=lambda path, _: os.open(path, _AT_ONCE))  # noqa: SIM115  # who asked closes it
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))
