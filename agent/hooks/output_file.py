"""Writes the output of a call to a file, for hooks."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ebbtide.tools.base import LoggedOutput, Result
from ebbtide.tools.files.private_folder import create_private_folder

_CHUNK_BYTES = 1 << 20


@contextmanager
def temporary_output_path(result: Result, folder: Path) -> Iterator[Path]:
    """Yield the path of a file to which `write_output` can write the raw bytes of an output. Only the user can read the
    file, and it is deleted afterwards."""
    for needed_folder in (folder.parent, folder):  # each separately, because `mkdir` does not apply the mode to parents
        create_private_folder(needed_folder)
    path = (result.log.path.parent if result.log else folder) / f"hook-{secrets.token_hex(8)}"
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def write_output(result: Result, path: Path) -> int:
    """Write the output to a file and return its size in bytes. A program's log is hard-linked if it contains only this
    output, and copied otherwise, without loading all of it into memory."""
    if result.log is not None:
        if not _try_hard_link(result.log, path):
            _copy_log(result.log, path)
        return result.log.end - result.log.start
    data = (result.text if result.full_text is None else result.full_text).encode("utf-8", "surrogatepass")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
    return len(data)


def _try_hard_link(log: LoggedOutput, path: Path) -> bool:
    """Hard-link the log at the path, if possible, and return whether that succeeded. The link is made read-only."""
    if not log.is_finished or log.start != 0 or log.path.stat().st_size != log.end:
        return False
    try:
        os.link(log.path, path)
    except OSError:  # the file system has no hard links
        return False
    path.chmod(0o400)
    return True


def _copy_log(log: LoggedOutput, path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as target, log.path.open("rb") as source:
        source.seek(log.start)
        remaining_bytes = log.end - log.start
        while remaining_bytes > 0 and (chunk := source.read(min(_CHUNK_BYTES, remaining_bytes))):
            target.write(chunk)
            remaining_bytes -= len(chunk)
