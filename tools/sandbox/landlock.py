"""The boundary on Linux without bubblewrap. This module creates a Landlock ruleset. A small program applies it and a
system call filter to itself, and then replaces itself with the command.

This is weaker than bubblewrap. The names of hidden files are visible, though not their content. Nothing inside a
writable folder can be protected, so Git's settings and hooks can be changed. Named sockets cannot be used; without
network access, no sockets can be used at all. New terminals cannot be opened. /tmp cannot be used, so `TMPDIR` names
another folder.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ebbtide.tools.sandbox import landlock_program

_CREATE_RULESET, _ADD_RULE = 444, 445
_RULE_PATH_BENEATH = 1
_EXECUTE = 1
_WRITE_FILE = 2
_READ_FILE = 4
_READ_FOLDER = 8
_TRUNCATE = 1 << 14
_SCOPE_FLAGS = 3
"""Keeps processes in the sandbox from sending signals or connecting to abstract sockets outside it."""
_ALL_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
"""All file rights, by Landlock version. Rights added by later versions are not needed."""
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_HIDDEN_FOLDERS = ("/dev", "/run", "/tmp", "/var/tmp")
"""Folders with devices and other programs' sockets. They are hidden except for a few files."""
_USABLE_DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/shm",
)
"""Devices that commands can use. The only terminal among them is the command's own, because a command could read and
write other programs' terminals."""
_EXTRA_READABLE_FOLDERS = ("/run/systemd/resolve", "/run/current-system")
_LIBC = ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """Return the kernel's Landlock version; 0 if it has none."""
    return max(int(_LIBC.syscall(_CREATE_RULESET, None, 0, 1)), 0)


def landlock_command(ruleset: int, filter_program: bytes, command: Sequence[str]) -> tuple[str, ...]:
    """Build the command line that runs a command under a ruleset, whose descriptor it inherits. It uses the base
    interpreter, because a virtual environment may be hidden."""
    program = (os.path.realpath(sys.executable), "-I", "-S", landlock_program.__file__)
    return (*program, str(ruleset), filter_program.hex(), *command)


def create_ruleset(access_by_path: Mapping[str, str], scratch: str) -> int:
    """Create a ruleset for a command and return its descriptor. The caller passes it to the command and then closes it.
    Raises `OSError`."""
    kernel_version = landlock_version()
    if not kernel_version:
        raise OSError("the kernel has no Landlock")
    all_rights = _ALL_RIGHTS[min(kernel_version, 3)]
    attributes = struct.pack("=QQQ", all_rights, 0, _SCOPE_FLAGS if kernel_version >= 6 else 0)
    ruleset = _check_result(_LIBC.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    try:
        read_rights = _EXECUTE | _READ_FILE | _READ_FOLDER
        writable_paths = [path for path, access in access_by_path.items() if access == "write"]
        for path in (
            scratch,
            *_USABLE_DEVICES,
            *(path for path in writable_paths if not _lies_in(path, writable_paths)),
        ):
            _allow(ruleset, path, all_rights)  # nested paths are writable anyway, and may be links by now
        for path in (*_EXTRA_READABLE_FOLDERS, *allowed_read_paths(access_by_path)):
            _allow(ruleset, path, read_rights)
    except OSError:
        os.close(ruleset)
        raise
    return ruleset


def allowed_read_paths(access_by_path: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths that may be read. Access to a folder includes everything in it, so a folder with hidden paths is
    replaced by its entries."""
    hidden = {path for path, access in access_by_path.items() if access.startswith("hidden")} | {*_HIDDEN_FOLDERS}
    writable_paths = [path for path, access in access_by_path.items() if access == "write"]
    readable_paths = (
        path for path, access in access_by_path.items() if access == "read" and not _lies_in(path, writable_paths)
    )
    yield from (path for path in readable_paths if _lies_in(path, hidden))
    pending = ["/"]
    while pending:
        folder = pending.pop()
        if not any(_lies_in(path, (folder,)) for path in hidden):
            yield folder
            continue
        try:
            entries = [entry.path for entry in os.scandir(folder) if not entry.is_symlink()]
        except OSError:
            continue
        pending += [path for path in entries if path not in hidden]


def _lies_in(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # the path does not exist
    try:
        applicable_rights = rights if os.path.isdir(path) else rights & _FILE_RIGHTS
        rule = struct.pack("=Qi", applicable_rights, descriptor)
        _check_result(_LIBC.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0))
    finally:
        os.close(descriptor)


def _check_result(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
