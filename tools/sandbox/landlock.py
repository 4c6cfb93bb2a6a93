"""The boundary where bubblewrap cannot be had, on Linux: a Landlock ruleset, made here, which a small program puts on
itself, beside a filter of system calls, before it becomes the command.

It holds less than bubblewrap. What is hidden cannot be opened, but its name is seen; nothing in a folder that can be
written can be kept from being written, so Git's settings and hooks can be; there are no sockets with names, and without
network none at all; no new terminals; /tmp cannot be used, and TMPDIR is another folder.
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
"""Sockets without a file, and signals to others."""
_WRITES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
"""All rights on files, by the version that the kernel has of this; since the third none was added that matters here."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_ELSEWHERE = ("/dev", "/run", "/tmp", "/var/tmp")
"""Folders with devices and other programs' sockets: hidden, but for a few files."""
_DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/shm",
)
"""No terminals but its own: those of other programs lie in the same folder, and could be read and written."""
_ALSO_READ = ("/run/systemd/resolve", "/run/current-system")
_LIBC = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Of the kernel's Landlock; 0 where there is none."""
    return max(int(_LIBC.syscall(_CREATE, None, 0, 1)), 0)


def command_line(ruleset: int, system_calls: bytes, command: Sequence[str]) -> tuple[str, ...]:
    """What runs a command in a ruleset, whose descriptor it finds open. The interpreter itself: an environment for it
    may lie in a place that is hidden."""
    program = (os.path.realpath(sys.executable), "-I", "-S", landlock_program.__file__)
    return (*program, str(ruleset), system_calls.hex(), *command)


def ruleset_of(places: Mapping[str, str], scratch: str) -> int:
    """A descriptor of the rules for what a command may do, to be handed to it and closed. Raises `OSError`."""
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
            _allow(ruleset, path, handled)  # what lies in one is written anyway, and may be a link by now
        for path in (*_ALSO_READ, *readable(places)):
            _allow(ruleset, path, reads)
    except OSError:
        os.close(ruleset)
        raise
    return ruleset


def readable(places: Mapping[str, str]) -> Iterator[str]:
    """What may be read. Nothing can be taken back from what lies in a folder that is granted, so it is everything that
    is there now beside what is hidden."""
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
        return  # it is not there: nothing can be done with it
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
