"""The boundary where bubblewrap cannot be had, on Linux: by Landlock and a filter of system calls, put on by a small
program that then becomes the command. Run as that program, it is told the boundary in JSON.

It holds less than bubblewrap. What is hidden cannot be opened, but its name is seen; nothing in a folder that can be
written can be kept from being written, so Git's settings and hooks can be; there are no sockets with names, and without
network none at all; /tmp cannot be used, and TMPDIR is another folder.
"""

import ctypes
import json
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_BENEATH = 1
_NO_NEW_PRIVILEGES, _DROP_CAPABILITY, _SET_FILTER, _FILTERS = 38, 24, 22, 2
_CAPSET = {"x86_64": 126, "aarch64": 91}
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
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
)
_ALSO_READ = ("/run/systemd/resolve", "/run/current-system")
_LIBC = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Of the kernel's Landlock; 0 where there is none."""
    return max(int(_LIBC.syscall(_CREATE, None, 0, 1)), 0)


def command_line(
    places: Mapping[str, str], scratch: str, system_calls: bytes, command: Sequence[str]
) -> tuple[str, ...]:
    """What runs a command within the boundary: this file, told all of it."""
    told = {"places": dict(places), "scratch": scratch, "system_calls": system_calls.hex()}
    return (sys.executable, "-I", "-S", __file__, json.dumps(told), "--", *command)


def put_up(places: Mapping[str, str], scratch: str, system_calls: bytes) -> None:
    """Holds this process, and all that it starts, in the boundary from now on. Raises `OSError`."""
    known = version()
    handled = _WRITES[min(known, 3)] if known else 0
    if not handled or not system_calls:
        raise OSError("the kernel has no Landlock, or it is a machine whose system calls are not known here")
    parts = struct.pack("=QQQ", handled, 0, _SCOPES if known >= 6 else 0)
    ruleset = _checked(_LIBC.syscall(_CREATE, parts, len(parts), 0))
    reads = _EXECUTE | _READ_FILE | _READ_FOLDER
    for path in (scratch, *_DEVICES, *(path for path, access in places.items() if access == "write")):
        _allow(ruleset, path, handled)
    for path in (*_ALSO_READ, *readable(places)):
        _allow(ruleset, path, reads)
    for capability in range(64):
        _LIBC.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)  # refused to who has none anyway
    _checked(_LIBC.syscall(_CAPSET[os.uname().machine], struct.pack("=Ii", 0x20080522, 0), bytes(24)))
    _checked(_LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(_LIBC.syscall(_RESTRICT, ruleset, 0))
    os.close(ruleset)
    held = ctypes.create_string_buffer(system_calls)
    program = struct.pack("@HP", len(system_calls) // 8, ctypes.addressof(held))
    _checked(_LIBC.prctl(_SET_FILTER, _FILTERS, program, 0, 0))


def readable(places: Mapping[str, str]) -> Iterator[str]:
    """What may be read. Nothing can be taken back from what lies in a folder that is granted, so it is everything that
    is there now beside what is hidden."""
    hidden = {path for path, access in places.items() if access.startswith("hidden")} | {*_ELSEWHERE}
    yield from (path for path, access in places.items() if access == "read" and _lies_in(path, hidden))
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
        _checked(_LIBC.syscall(_ADD, ruleset, _BENEATH, rule, 0))
    finally:
        os.close(descriptor)


def _checked(answer: int) -> int:
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def _main() -> None:
    told: dict[str, Any] = json.loads(sys.argv[1])
    try:
        put_up(told["places"], told["scratch"], bytes.fromhex(told["system_calls"]))
    except OSError as error:
        sys.exit(f"sandbox: {error}")
    os.execv(sys.argv[3], sys.argv[3:])


if __name__ == "__main__":
    _main()
