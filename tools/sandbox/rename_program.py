"""The program that has this program asked about each renaming of a file in a sandbox, and then becomes a command.

It is started for each command that may write Git's settings, so it loads as little as can be. Its arguments: the
descriptor of a socket, the filter of system calls in hexadecimal digits, the command. Where the kernel has no such
filter, the command runs without.
"""

import _socket  # `socket` takes twice as long to load
import array
import ctypes
import os
import sys

SECCOMP = 317 if os.uname().machine == "x86_64" else 277
SET_FILTER, NEW_LISTENER = 1, 8


class _Filter(ctypes.Structure):
    """As the kernel is told of a filter: how many steps of eight bytes, and where."""

    _fields_ = (("steps", ctypes.c_ushort), ("address", ctypes.c_void_p))


def install_listener(system_calls: bytes) -> int:
    """A descriptor that tells of the calls that are waiting for an answer; negative where there is none."""
    held = ctypes.create_string_buffer(system_calls, len(system_calls))
    steps = _Filter(len(system_calls) // 8, ctypes.addressof(held))
    return int(ctypes.CDLL(None).syscall(SECCOMP, SET_FILTER, NEW_LISTENER, ctypes.byref(steps)))


def initial_environment() -> dict[bytes, bytes]:
    """The environment as it was given: where Python finds no locale, it sets `LC_CTYPE` for what it starts, too."""
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
