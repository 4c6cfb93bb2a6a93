"""Safe reading and writing of regular files.

A resolved path contains no symbolic links, so every folder along it is opened without following links. A link created
between check and use causes an error instead of leading to another file.
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
from ebbtide.tools.outputs.plain_text import printable_name

T = TypeVar("T")

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Maximum size in bytes of a file that is read into memory."""

_FOLDER_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SYSTEM_ATTRIBUTE_PREFIXES = ("security.", "trusted.")
"""Prefixes of extended attributes that unprivileged programs cannot set."""

_IN_PLACE_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC

_exclusive_lock = threading.Lock()


async def run_exclusive(work: Callable[[], T]) -> T:
    """Run `work` in a thread. Only one call runs at a time. If the caller is cancelled, wait for `work` to finish
    before raising."""
    task = asyncio.ensure_future(asyncio.to_thread(_with_exclusive_lock, work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        task.exception()  # retrieved so that asyncio does not print it
        raise


def _with_exclusive_lock(work: Callable[[], T]) -> T:
    with _exclusive_lock:
        return work()


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file. Raises `ToolError` if it is not a regular file."""
    with open_regular(path) as (file, size):
        if size > MAX_FILE_BYTES:
            size_text = f"{size / 1e6:.0f} MB"
            raise ToolError(
                f"`{printable_path(path)}` is too large ({size_text}): look at parts of it with grep, or sed in bash"
            )
        return file.read()


@contextmanager
def open_regular(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    """Open a regular file for reading, and yield it with its size. Raises `ToolError` if it is not a regular file."""
    with _translate_errors("read", path), _open_folder(path.parent) as folder:
        descriptor = os.open(path.name or ".", _READ_FLAGS, dir_fd=folder)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            _require_regular(path, status)
        with open(descriptor, "rb") as file:
            yield file, status.st_size


def read_bytes_if_exists(path: Path) -> bytes | None:
    """Return the content of a regular file; None if it does not exist."""
    return read_bytes(path) if os.path.lexists(path) else None


def mode_if_exists(path: Path) -> int | None:
    """Return the permission bits of a file; None if it does not exist."""
    return stat.S_IMODE(path.lstat().st_mode) if os.path.lexists(path) else None


def write_bytes(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file atomically: readers see either the old or the new content.

    An existing file keeps its mode, owner and attributes. A new file gets `mode`, or the default of the umask. A file
    is written in place instead if it has several hard links, or if its owner or attributes cannot be copied. During
    such a write, a copy of the old content exists next to it.
    """
    with _translate_errors("write", path), _open_folder(path.parent, create=True) as folder:
        status = _stat_if_exists(path.name, folder)
        if status is not None:
            _require_regular(path, status)
            mode = stat.S_IMODE(status.st_mode)
            if not os.access(path.name, os.W_OK, dir_fd=folder):
                raise PermissionError(13, "Permission denied")
        temporary_name = f".{path.name[:80]}.{secrets.token_hex(4)}.tmp"
        has_single_link = status is None or status.st_nlink == 1
        was_replaced = has_single_link and _replace_atomically(path.name, temporary_name, content, mode, status, folder)
        if status is not None and not was_replaced:
            _write_in_place(path.name, temporary_name, content, status, folder)


def _replace_atomically(
    name: str, temporary_name: str, content: bytes, mode: int | None, status: os.stat_result | None, folder: int
) -> bool:
    """Replace the file with a new one. Return False if the owner or attributes cannot be copied."""
    try:
        _write_and_sync(os.open(temporary_name, _CREATE_FLAGS, 0o666, dir_fd=folder), content, mode)
        if status is None or (
            _copy_owner(temporary_name, status, folder) and _copy_attributes(temporary_name, name, folder)
        ):
            os.replace(temporary_name, name, src_dir_fd=folder, dst_dir_fd=folder)
            return True
    finally:
        if _stat_if_exists(temporary_name, folder) is not None:
            os.unlink(temporary_name, dir_fd=folder)
    return False


def _copy_owner(name: str, source: os.stat_result, folder: int) -> bool:
    """Give the temporary file another file's owner. Return whether that worked."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if (status.st_uid, status.st_gid) == (source.st_uid, source.st_gid):
        return True
    try:
        os.chown(name, source.st_uid, source.st_gid, dir_fd=folder, follow_symlinks=False)
        os.chmod(name, stat.S_IMODE(source.st_mode), dir_fd=folder)  # changing the owner resets part of the mode
    except PermissionError:
        return False
    return True


def _copy_attributes(name: str, source: str, folder: int) -> bool:
    """Give the temporary file the same extended attributes as another file, including access lists. Return whether that
    worked. Attributes that programs cannot set are left to the system."""
    if not hasattr(os, "listxattr"):  # macOS, where Python does not support them
        return True
    with ExitStack() as stack:
        try:
            source_descriptor = stack.enter_context(open(os.open(source, _READ_FLAGS, dir_fd=folder), "rb")).fileno()
            descriptor = stack.enter_context(open(os.open(name, _READ_FLAGS, dir_fd=folder), "rb")).fileno()
        except PermissionError:  # attributes of an unreadable file cannot be read or set
            return True
        try:
            copied = [
                attribute
                for attribute in os.listxattr(source_descriptor)
                if not attribute.startswith(_SYSTEM_ATTRIBUTE_PREFIXES)
            ]
            for attribute in copied:
                os.setxattr(descriptor, attribute, os.getxattr(source_descriptor, attribute))
            for attribute in os.listxattr(descriptor):  # e.g. an access list inherited from the folder
                if attribute not in copied and not attribute.startswith(_SYSTEM_ATTRIBUTE_PREFIXES):
                    os.removexattr(descriptor, attribute)
        except OSError as error:
            return error.errno == errno.ENOTSUP
    return True


def _write_in_place(name: str, copy_name: str, content: bytes, status: os.stat_result, folder: int) -> None:
    """Overwrite the file itself. If that fails, restore the old content. If restoring also fails, or the program is
    killed, the copy still contains the old content."""
    with open(os.open(name, _IN_PLACE_FLAGS, dir_fd=folder), "r+b", buffering=0) as file:
        current_status = os.fstat(file.fileno())
        if (current_status.st_dev, current_status.st_ino) != (status.st_dev, status.st_ino):
            raise OSError(errno.EAGAIN, "the file has just been replaced")
        old_content = file.read()
        try:
            _write_and_sync(
                os.open(copy_name, _CREATE_FLAGS, 0o600, dir_fd=folder), old_content, stat.S_IMODE(status.st_mode)
            )
            _overwrite_or_restore(file, content, old_content, copy_name)
        except _RestoreError:
            raise
        except BaseException:
            if _stat_if_exists(copy_name, folder) is not None:
                os.unlink(copy_name, dir_fd=folder)
            raise
        os.unlink(copy_name, dir_fd=folder)


class _RestoreError(ToolError):
    """Raised if a file is left with neither its old nor its new content."""


def _overwrite_or_restore(file: FileIO, content: bytes, old_content: bytes, copy_name: str) -> None:
    """Overwrite the file, or restore its old content. Raises `_RestoreError` if only the copy still has the old
    content."""
    try:
        _overwrite(file, content)
    except BaseException as error:
        try:
            _overwrite(file, old_content)
        except OSError as restore_error:
            reason = (restore_error.strerror or str(restore_error)).lower()
            problem = f"cannot write the file or restore its content: {reason}"
            raise _RestoreError(f"{problem}. A copy is in `{printable_name(copy_name)}` beside it") from error
        raise


def _overwrite(file: FileIO, content: bytes) -> None:
    """Write without buffering. Otherwise, data rejected by a full disk could be written later, over the restored
    content."""
    remaining = memoryview(content)
    file.seek(0)
    while remaining:
        remaining = remaining[file.write(remaining) :]
    file.truncate()
    os.fsync(file.fileno())


def delete_file(path: Path) -> None:
    """Delete a regular file."""
    with _translate_errors("delete", path), _open_folder(path.parent) as folder:
        _require_regular(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False))
        os.unlink(path.name, dir_fd=folder)


def printable_path(path: Path) -> str:
    return printable_name(str(path))


def _write_and_sync(descriptor: int, content: bytes, mode: int | None) -> None:
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
        if mode is not None:
            os.fchmod(descriptor, mode)


def _stat_if_exists(name: str, folder: int) -> os.stat_result | None:
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
    descriptions = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a symbolic link created just now"}
    raise ToolError(
        f"`{printable_path(path)}` is {descriptions.get(kind, 'a device')}, not a regular file: choose another path"
    )


@contextmanager
def _open_folder(path: Path, create: bool = False) -> Iterator[int]:
    """Yield a descriptor of the folder. It is opened step by step from the root of the file system, without following
    links."""
    descriptor = os.open(path.anchor, _FOLDER_FLAGS)
    try:
        for name in path.parts[1:]:
            try:
                child = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
            except FileNotFoundError:
                if not create:
                    raise
                os.mkdir(name, dir_fd=descriptor)
                child = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = child
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
