"""Makes renames of files in a sandbox wait for our decision, and then becomes a command.

It starts with every command that may write Git's settings, so it loads as little as possible. Arguments: the descriptor
of a socket, the system call filter in hexadecimal, the command. If the kernel does not support such a filter, the
command runs without it.
"""

import _socket  # `socket` takes twice as long to import
import array
import ctypes
import os
import sys

SECCOMP = 317 if os.uname().machine == "x86_64" else 277
SET_FILTER, NEW_LISTENER = 1, 8


class _Filter(ctypes.Structure):
    """The kernel's structure for a filter: number of 8-byte instructions, and their address."""

    _fields_ = (("steps", ctypes.c_ushort), ("address", ctypes.c_void_p))


def install_listener(system_calls: bytes) -> int:
    """Return a descriptor that reports waiting calls, or a negative number if not supported."""
    held = ctypes.create_string_buffer(system_calls, len(system_calls))
    steps = _Filter(len(system_calls) // 8, ctypes.addressof(held))
    return int(ctypes.CDLL(None).syscall(SECCOMP, SET_FILTER, NEW_LISTENER, ctypes.byref(steps)))


def initial_environment() -> dict[bytes, bytes]:
    """Return the original environment: without a locale, Python adds `LC_CTYPE` to its own."""
    with open("/proc/self/environ", "rb") as block:
        return dict(line.split(b"=", 1) for line in block.read().split(b"\0") if b"=" in line)


if __name__ == "__main__":
    sender = _socket.socket(fileno=int(sys.argv[1]))
    listener = install_listener(bytes.fromhex(sys.argv[2]))
    if listener >= 0:
        sender.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [listener]))])
        os.close(listener)
    sender.close()
    os.execve(sys.argv[3], sys.argv[3:], initial_environment())
