"""Safe reading and writing of regular files.

A resolved path contains no symbolic links, so every folder on the way is opened without following links. A link created
between the check and the use causes an error and never leads to another file.
"""

import asyncio
import errno
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import IO, TypeVar

from ebbtide.tools.base import ToolError
from ebbtide.tools.outputs.plain_text import printable

T = TypeVar("T")

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Maximum size in bytes of a file that is read into memory."""

_FOLDER_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OF_THE_SYSTEM = ("security.", "trusted.")
"""Prefixes of extended attributes that programs cannot set."""

_IN_PLACE = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC

_one_at_a_time = threading.Lock()


async def run_exclusive(work: Callable[[], T]) -> T:
    """Run the work in a thread, one such call at a time. A cancelled caller still waits for it to end."""
    task = asyncio.ensure_future(asyncio.to_thread(_alone, work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        task.exception()  # retrieved so that asyncio does not print it, since the caller has gone
        raise


def _alone(work: Callable[[], T]) -> T:
    with _one_at_a_time:
        return work()


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file. Raises `ToolError` for anything else."""
    with open_regular(path) as (file, size):
        if size > MAX_FILE_BYTES:
            about = f"{size / 1e6:.0f} MB"
            raise ToolError(
                f"`{printable_path(path)}` is too large ({about}): look at parts of it with grep, or sed in bash"
            )
        return file.read()


@contextmanager
def open_regular(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    """Open a regular file for reading, and yield it with its size. Raises `ToolError` for anything else."""
    with _translate_errors("read", path), _folder(path.parent) as folder:
        descriptor = os.open(path.name or ".", _READ_FLAGS, dir_fd=folder)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            _require_regular(path, status)
        with open(descriptor, "rb") as file:
            yield file, status.st_size


def content_of(path: Path) -> bytes | None:
    """Return the content of a regular file, or None if it does not exist."""
    return read_bytes(path) if os.path.lexists(path) else None


def mode_of(path: Path) -> int | None:
    """Return the permission bits of a file, or None if it does not exist."""
    return stat.S_IMODE(path.lstat().st_mode) if os.path.lexists(path) else None


def write_bytes(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file atomically: readers see the old content or the new.

    An existing file keeps its mode, owner and attributes. A new one gets `mode`, or the default of the umask. A file
    with several hard links is written in place so that it keeps them, as is one whose owner or attributes cannot be
    copied. A copy of the old content is kept beside it meanwhile.
    """
    with _translate_errors("write", path), _folder(path.parent, create=True) as folder:
        status = _status(path.name, folder)
        if status is not None:
            _require_regular(path, status)
            mode = stat.S_IMODE(status.st_mode)
            if not os.access(path.name, os.W_OK, dir_fd=folder):
                raise PermissionError(13, "Permission denied")
        temporary = f".{path.name[:80]}.{secrets.token_hex(4)}.tmp"
        has_one_name = status is None or status.st_nlink == 1
        is_done = has_one_name and _put_in_place(path.name, temporary, content, mode, status, folder)
        if status is not None and not is_done:
            _write_in_place(path.name, temporary, content, status, folder)


def _put_in_place(
    name: str, temporary: str, content: bytes, mode: int | None, status: os.stat_result | None, folder: int
) -> bool:
    """Replace the file with a new one, and return whether that worked. It fails if owner or attributes cannot be
    copied."""
    try:
        _fill(os.open(temporary, _CREATE_FLAGS, 0o666, dir_fd=folder), content, mode)
        if status is None or (_has_owner(temporary, status, folder) and _has_attributes(temporary, name, folder)):
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            return True
    finally:
        if _status(temporary, folder) is not None:
            os.unlink(temporary, dir_fd=folder)
    return False


def _has_owner(name: str, of: os.stat_result, folder: int) -> bool:
    """Whether our file has the owner of another one, or could be given it."""
    ours = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if (ours.st_uid, ours.st_gid) == (of.st_uid, of.st_gid):
        return True
    try:
        os.chown(name, of.st_uid, of.st_gid, dir_fd=folder, follow_symlinks=False)
        os.chmod(name, stat.S_IMODE(of.st_mode), dir_fd=folder)  # a change of owner resets some of the mode
    except PermissionError:
        return False
    return True


def _has_attributes(name: str, of: str, folder: int) -> bool:
    """Whether our file could be given exactly the extended attributes of another one, including access lists.
    `security.` attributes are left to the system."""
    if not hasattr(os, "listxattr"):  # macOS, where Python does not support them
        return True
    with ExitStack() as stack:
        try:
            theirs = stack.enter_context(open(os.open(of, _READ_FLAGS, dir_fd=folder), "rb")).fileno()
            ours = stack.enter_context(open(os.open(name, _READ_FLAGS, dir_fd=folder), "rb")).fileno()
        except PermissionError:  # attributes of an unreadable file can be neither read nor set
            return True
        try:
            wanted = [name for name in os.listxattr(theirs) if not name.startswith(_OF_THE_SYSTEM)]
            for attribute in wanted:
                os.setxattr(ours, attribute, os.getxattr(theirs, attribute))
            for attribute in os.listxattr(ours):  # for example an access list inherited from the folder
                if attribute not in wanted and not attribute.startswith(_OF_THE_SYSTEM):
                    os.removexattr(ours, attribute)
        except OSError as error:
            return error.errno == errno.ENOTSUP
    return True


def _write_in_place(name: str, copy: str, content: bytes, status: os.stat_result, folder: int) -> None:
    """Write into the file itself. If that fails, the old content is restored. If that fails too, or the program is
    killed, the copy still has it."""
    with open(os.open(name, _IN_PLACE, dir_fd=folder), "r+b", buffering=0) as file:
        found = os.fstat(file.fileno())
        if (found.st_dev, found.st_ino) != (status.st_dev, status.st_ino):
            raise OSError(errno.EAGAIN, "the file was replaced meanwhile")
        before = file.read()
        try:
            _fill(os.open(copy, _CREATE_FLAGS, 0o600, dir_fd=folder), before, stat.S_IMODE(status.st_mode))
            _overwrite_or_put_back(file, content, before, copy)
        except _NotPutBack:
            raise
        except BaseException:
            if _status(copy, folder) is not None:
                os.unlink(copy, dir_fd=folder)
            raise
        os.unlink(copy, dir_fd=folder)


class _NotPutBack(ToolError):
    """A file has neither its old content nor the new one."""


def _overwrite_or_put_back(file: FileIO, content: bytes, before: bytes, copy: str) -> None:
    """Raises `_NotPutBack` if the old content remains only in the copy."""
    try:
        _overwrite(file, content)
    except BaseException as error:
        try:
            _overwrite(file, before)
        except OSError as again:
            why = (again.strerror or str(again)).lower()
            lost = f"cannot write the file or restore its content: {why}"
            raise _NotPutBack(f"{lost}. A copy is in `{printable(copy)}` beside it") from error
        raise


def _overwrite(file: FileIO, content: bytes) -> None:
    """Unbuffered, so that data a full disk rejected is not written later, over the restored content."""
    left = memoryview(content)
    file.seek(0)
    while left:
        left = left[file.write(left) :]
    file.truncate()
    os.fsync(file.fileno())


def delete(path: Path) -> None:
    """Delete a regular file."""
    with _translate_errors("delete", path), _folder(path.parent) as folder:
        _require_regular(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False))
        os.unlink(path.name, dir_fd=folder)


def printable_path(path: Path) -> str:
    return printable(str(path))


def _fill(descriptor: int, content: bytes, mode: int | None) -> None:
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
        if mode is not None:
            os.fchmod(descriptor, mode)


def _status(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _require_regular(path: Path, status: os.stat_result) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFREG:
        return
    if kind == stat.S_IFDIR:
        raise ToolError(f"`{printable_path(path)}` is a folder: list it with read")
    names = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a symbolic link that was just put there"}
    raise ToolError(
        f"`{printable_path(path)}` is {names.get(kind, 'a device')}, not a regular file: choose another path"
    )


@contextmanager
def _folder(path: Path, create: bool = False) -> Iterator[int]:
    """Yield a descriptor of the folder, opened from the file system's root without following links."""
    descriptor = os.open(path.anchor, _FOLDER_FLAGS)
    try:
        for name in path.parts[1:]:
            try:
                inner = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
            except FileNotFoundError:
                if not create:
                    raise
                os.mkdir(name, dir_fd=descriptor)
                inner = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _translate_errors(verb: str, path: Path) -> Iterator[None]:
    """Translate system errors into messages for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"cannot {verb} `{printable_path(path)}`: no such file") from error
    except NotADirectoryError as error:
        raise ToolError(
            f"cannot {verb} `{printable_path(path)}`: a part of the path is a file, not a folder"
        ) from error
    except PermissionError as error:
        raise ToolError(f"cannot {verb} `{printable_path(path)}`: permission denied") from error
    except OSError as error:
        name = printable_path(path) if len(str(path)) < 500 else printable_path(path)[:200] + "…"
        raise ToolError(f"cannot {verb} `{name}`: {(error.strerror or str(error)).lower()}") from error
