"""Lets the agent decide about file renames in a sandbox, and then replaces itself with a command.

It runs before every command that may write Git's settings, so it imports as little as possible. Arguments: the
descriptor of a socket, the system call filter in hexadecimal, the command. If the kernel does not support such a
filter, the command runs without it.
"""

import _socket  # `socket` takes twice as long to import
import array
import ctypes
import os
import sys

SECCOMP_CALL = 317 if os.uname().machine == "x86_64" else 277
SET_FILTER, NEW_LISTENER = 1, 8


class _Filter(ctypes.Structure):
    """The kernel's structure for a filter: the number of 8-byte instructions, and their address."""

    _fields_ = (("steps", ctypes.c_ushort), ("address", ctypes.c_void_p))


def install_listener(filter_bytes: bytes) -> int:
    """Install the filter. Return a descriptor on which the kernel reports waiting calls, or a negative number if it
    does not support this."""
    buffer = ctypes.create_string_buffer(filter_bytes, len(filter_bytes))
    filter_program = _Filter(len(filter_bytes) // 8, ctypes.addressof(buffer))
    return int(ctypes.CDLL(None).syscall(SECCOMP_CALL, SET_FILTER, NEW_LISTENER, ctypes.byref(filter_program)))


def initial_environment() -> dict[bytes, bytes]:
    """Return the environment that the process was started with. Without a locale, Python adds `LC_CTYPE` to its own
    environment."""
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
