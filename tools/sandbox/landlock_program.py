"""Applies a Landlock ruleset and a system call filter to itself, and then replaces itself with a command. It runs
before every command, so it imports as little as possible.

Arguments: the ruleset's descriptor, the filter in hexadecimal, the command.
"""

import ctypes
import os
import sys

NO_NEW_PRIVILEGES = 38
DROP_CAPABILITY = 24
SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
LANDLOCK_RESTRICT_SELF = 446
CAPSET = 126 if os.uname().machine == "x86_64" else 91
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    """The kernel's structure for a filter: the number of 8-byte instructions, and their address."""

    _fields_ = (("steps", ctypes.c_ushort), ("address", ctypes.c_void_p))


def restrict_self(ruleset: int, filter_bytes: bytes) -> None:
    """Restrict this process and all its children. Raises `OSError`."""
    for capability in range(64):
        _LIBC.prctl(DROP_CAPABILITY, capability, 0, 0, 0)  # fails harmlessly without privileges
    version = (0x20080522).to_bytes(4, sys.byteorder) + bytes(4)
    _check(_LIBC.syscall(CAPSET, version, bytes(24)))
    _check(_LIBC.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _check(_LIBC.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    buffer = ctypes.create_string_buffer(filter_bytes)
    filter_program = _Filter(len(filter_bytes) // 8, ctypes.addressof(buffer))
    _check(_LIBC.prctl(SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter_program), 0, 0))


def _check(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def find_program(name: str) -> str:
    """Find a program and return its path. A bare name is searched for in the absolute folders of `PATH`, never in the
    current folder."""
    if "/" in name:
        return name
    paths = (os.path.join(folder, name) for folder in os.get_exec_path() if os.path.isabs(folder))
    program_path = next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)
    return program_path or sys.exit(f"`{name}`: No such file or directory")


def initial_environment() -> dict[bytes, bytes]:
    """Return the environment that the process was started with. Without a locale, Python adds `LC_CTYPE` to its own
    environment."""
    with open("/proc/self/environ", "rb") as block:
        return dict(line.split(b"=", 1) for line in block.read().split(b"\0") if b"=" in line)


if __name__ == "__main__":
    try:
        restrict_self(int(sys.argv[1]), bytes.fromhex(sys.argv[2]))
    except OSError as error:
        sys.exit(f"sandbox: {error}")
    os.execve(find_program(sys.argv[3]), sys.argv[3:], initial_environment())
