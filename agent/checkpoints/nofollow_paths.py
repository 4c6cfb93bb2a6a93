"""Reads and writes paths without following symbolic links. A path is relative to the workspace, or absolute if outside
it."""

import errno
import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ebbtide.agent.checkpoints.file_state import ABSENT, FileState
from ebbtide.agent.checkpoints.unread_files import StoreContent, read_content

_NOT_FOUND_ERRNOS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def split_path(root: str, path: str) -> tuple[str, list[str], str]:
    """Split a path into the folder to start from, the names of the folders down to the path, and its last component."""
    *folders, name = path.strip("/").split("/")
    return ("/" if path.startswith("/") else root), folders, name


@contextmanager
def open_parent(root: str, path: str) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the folder that contains the path, and the path's name in that folder. Raises `OSError`,
    for example if a component is a symbolic link."""
    start, folders, name = split_path(root, path)
    fd = os.open(start, _OPEN_FOLDER_FLAGS)
    try:
        for folder in folders:
            subfolder_fd = os.open(folder, _OPEN_FOLDER_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = subfolder_fd
        yield fd, name
    finally:
        os.close(fd)


def blocking_path(root: str, path: str) -> str:
    """Return the path's first ancestor that exists but is not a folder; empty if there is none."""
    start, folders, _ = split_path(root, path)
    current, fd = "" if start == root else "/", os.open(start, _OPEN_FOLDER_FLAGS)
    try:
        for folder in folders:
            current = f"{current.rstrip('/')}/{folder}" if current else folder
            subfolder_fd = os.open(folder, _OPEN_FOLDER_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = subfolder_fd
    except OSError as error:
        return current if error.errno in (errno.ENOTDIR, errno.ELOOP) else ""
    finally:
        os.close(fd)
    return ""


def identity_at(root: str, path: str) -> tuple[int, ...]:
    """Return numbers that identify the current file or folder; empty if there is none."""
    try:
        with open_parent(root, path) as (folder, name):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NOT_FOUND_ERRNOS:
            return ()
        raise
    if stat.S_ISDIR(status.st_mode):
        return stat.S_IFMT(status.st_mode), status.st_ino
    return status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_state(root: str, path: str, max_bytes: int, store_content: StoreContent) -> FileState:
    """Return the current state of a path. Content of up to `max_bytes` bytes is stored with `store_content`."""
    try:
        with open_parent(root, path) as (folder, name):
            return _state_in_folder(folder, name, max_bytes, store_content)
    except OSError as error:
        return ABSENT if error.errno in _NOT_FOUND_ERRNOS else FileState("unreadable", 0, str(error.errno))


def _state_in_folder(folder: int, name: str, max_bytes: int, store_content: StoreContent) -> FileState:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    mode = stat.S_IMODE(status.st_mode)
    identity = f"{status.st_size}-{status.st_ctime_ns}-{status.st_ino}"
    if stat.S_ISDIR(status.st_mode):
        return FileState("folder", mode)
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=folder))
        store_content(hashlib.sha256(target).digest(), target)
        return FileState("link", 0, hashlib.sha256(target).hexdigest())
    if not stat.S_ISREG(status.st_mode):
        return FileState("special", 0, identity)
    if status.st_size > max_bytes:
        return FileState("large", mode, identity)
    try:
        content = read_content(name, 0, max_bytes, folder)[0]
    except FileNotFoundError:
        raise
    except (OSError, ValueError):
        return FileState("unreadable", mode, identity)
    digest = hashlib.sha256(content)
    store_content(digest.digest(), content)
    return FileState("file", mode, digest.hexdigest())


def write_new_file(folder_fd: int, name: str, state: FileState, content: bytes, *, sync: bool) -> None:
    """Create a file or link with an unused name. On failure, remove it and raise `OSError`. `sync`: sync the file."""
    if state.kind == "link":
        os.symlink(content, os.fsencode(name), dir_fd=folder_fd)
        return
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder_fd)
    try:
        try:
            remaining = memoryview(content)
            while remaining:
                remaining = remaining[os.write(fd, remaining) :]
            os.fchmod(fd, state.mode)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
    except BaseException:
        os.unlink(name, dir_fd=folder_fd)
        raise


def set_folder_mode(root: str, path: str, mode: int) -> None:
    """Set the mode of a folder, even if its owner cannot open it. Raises `OSError`."""
    with open_parent(root, path) as (folder, name):
        try:
            fd = os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=folder)
            target: int | str = fd
        except PermissionError:
            if sys.platform != "linux":
                raise
            fd = os.open(name, _OPEN_FOLDER_FLAGS | os.O_PATH, dir_fd=folder)
            target = f"/proc/self/fd/{fd}"
        try:
            os.chmod(target, mode)
        finally:
            os.close(fd)


def list_folder(root: str, path: str) -> list[str]:
    """Return the names in a folder; empty if the path is not a folder. Raises `OSError`."""
    try:
        with open_parent(root, path) as (folder, name):
            fd = os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=folder)
            try:
                return os.listdir(fd)
            finally:
                os.close(fd)
    except OSError as error:
        if error.errno in _NOT_FOUND_ERRNOS:
            return []
        raise
