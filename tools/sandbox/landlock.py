"""The boundary without bubblewrap, on Linux: a Landlock ruleset created here, which a small program applies to itself
together with a system call filter before it becomes the command.

It is weaker than bubblewrap. Names of hidden files are visible, though their content is not. Nothing inside a writable
folder can be protected, so Git's settings and hooks can be changed. There are no named sockets, and without network
access no sockets at all; no new terminals; and /tmp is not usable, so TMPDIR is another folder.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ebbtide.tools.sandbox import landlock_program

_CREATE, _ADD = 444, 445
_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER, _TRUNCATE = 1, 2, 4, 8, 1 << 14
_SCOPES = 3
"""Abstract sockets, and signals to other processes."""
_WRITES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
"""All rights on files, by Landlock version. Later versions added none that matters here."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_ELSEWHERE = ("/dev", "/run", "/tmp", "/var/tmp")
"""Folders with devices and other programs' sockets: hidden except for a few files."""
_DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/shm",
)
"""Terminals are excluded except its own: those of other programs are in the same folder, and could be read and
written."""
_ALSO_READ = ("/run/systemd/resolve", "/run/current-system")
_LIBC = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the kernel's Landlock version, or 0 if it has none."""
    return max(int(_LIBC.syscall(_CREATE, None, 0, 1)), 0)


def command_line(ruleset: int, system_calls: bytes, command: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs another one in a ruleset, which it inherits as a descriptor. Uses the real
    interpreter, since a virtual environment may be hidden."""
    program = (os.path.realpath(sys.executable), "-I", "-S", landlock_program.__file__)
    return (*program, str(ruleset), system_calls.hex(), *command)


def ruleset_of(places: Mapping[str, str], scratch: str) -> int:
    """Return a descriptor of the ruleset for a command, to be passed to it and closed. Raises `OSError`."""
    known = version()
    if not known:
        raise OSError("the kernel has no Landlock")
    handled = _WRITES[min(known, 3)]
    parts = struct.pack("=QQQ", handled, 0, _SCOPES if known >= 6 else 0)
    ruleset = _check_result(_LIBC.syscall(_CREATE, parts, len(parts), 0))
    try:
        reads = _EXECUTE | _READ_FILE | _READ_FOLDER
        written = [path for path, access in places.items() if access == "write"]
        for path in (scratch, *_DEVICES, *(path for path in written if not _lies_in(path, written))):
            _allow(ruleset, path, handled)  # its content is writable anyway, and may be a link by now
        for path in (*_ALSO_READ, *readable(places)):
            _allow(ruleset, path, reads)
    except OSError:
        os.close(ruleset)
        raise
    return ruleset


def readable(places: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths that may be read. Access to a folder includes everything in it, so these are all existing paths
    beside hidden ones."""
    hidden = {path for path, access in places.items() if access.startswith("hidden")} | {*_ELSEWHERE}
    written = [path for path, access in places.items() if access == "write"]
    shown = (path for path, access in places.items() if access == "read" and not _lies_in(path, written))
    yield from (path for path in shown if _lies_in(path, hidden))
    waiting = ["/"]
    while waiting:
        folder = waiting.pop()
        if not any(_lies_in(path, (folder,)) for path in hidden):
            yield folder
            continue
        try:
            entries = [entry.path for entry in os.scandir(folder) if not entry.is_symlink()]
        except OSError:
            continue
        waiting += [path for path in entries if path not in hidden]


def _lies_in(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # it does not exist, so access does not matter
    try:
        held = rights if os.path.isdir(path) else rights & _OF_FILES
        rule = struct.pack("=Qi", held, descriptor)
        _check_result(_LIBC.syscall(_ADD, ruleset, _BENEATH, rule, 0))
    finally:
        os.close(descriptor)


def _check_result(answer: int) -> int:
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
