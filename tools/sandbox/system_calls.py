"""Builds the system call filter for sandboxed programs, as bytes for the kernel. No I/O.

The filter rejects administrative calls, calls that leave or create namespaces, socket families that are not confined to
the network namespace, and inserting input into terminals.
"""

import struct
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal, TypeAlias

Sockets: TypeAlias = Literal["network", "local", "none"]
"""The sockets that a command can create. `network`: those of the network namespace, and named sockets; `local`: only
those of the network namespace; `none`: only socket pairs."""

_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_ALLOW, _ERROR, _USER_NOTIFICATION = 0x7FFF0000, 0x00050000, 0x7FC00000
_LOAD = 0x20
_EQUAL = 0x15
_AT_LEAST = 0x35
_ANY_BIT = 0x45
_RETURN = 0x06
_CALL_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
"""Offsets in the kernel's record of a call. Only the lower half of each argument is examined, which is enough for these
calls."""
_CLONE_NAMESPACE_FLAGS = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_UNIX = 1
_INET = 2
_INET6 = 10
_NETLINK = 16
_FIRST_X32_CALL = 0x40000000
"""Number of the first x32 call on x86_64. These calls are numbered separately."""

_COMMON_REJECTED_CALLS = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "mount_setattr": 442,
}  # fmt: skip
_CLONE3 = 435
_X86_64_REJECTED_CALLS = {
    "mount": 165, "umount2": 166, "pivot_root": 155, "unshare": 272, "setns": 308, "swapon": 167, "swapoff": 168,
    "reboot": 169, "acct": 163, "settimeofday": 164, "clock_settime": 227, "iopl": 172, "ioperm": 173,
    "init_module": 175, "finit_module": 313, "delete_module": 176, "quotactl": 179, "kexec_load": 246,
    "kexec_file_load": 320, "add_key": 248, "request_key": 249, "keyctl": 250, "perf_event_open": 298,
    "open_by_handle_at": 304, "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
_GENERIC_REJECTED_CALLS = {
    "mount": 40, "umount2": 39, "pivot_root": 41, "unshare": 97, "setns": 268, "swapon": 224, "swapoff": 225,
    "reboot": 142, "acct": 89, "settimeofday": 170, "clock_settime": 112, "init_module": 105, "finit_module": 273,
    "delete_module": 106, "quotactl": 60, "kexec_load": 104, "kexec_file_load": 294, "add_key": 217,
    "request_key": 218, "keyctl": 219, "perf_event_open": 241, "open_by_handle_at": 265, "bpf": 280,
    "userfaultfd": 282,
}  # fmt: skip
_ARCHITECTURES: Mapping[str, tuple[int, Mapping[str, int], tuple[int, int, int, int]]] = {
    "x86_64": (0xC000003E, _X86_64_REJECTED_CALLS, (56, 41, 16, 302)),
    "aarch64": (0xC00000B7, _GENERIC_REJECTED_CALLS, (220, 198, 29, 261)),
    "riscv64": (0xC00000F3, _GENERIC_REJECTED_CALLS, (220, 198, 29, 261)),
    "loongarch64": (0xC0000102, _GENERIC_REJECTED_CALLS, (220, 198, 29, 261)),
}
"""For each machine: the number of the architecture, the rejected calls, and the numbers of clone, socket, ioctl and
prlimit64."""

_RENAME_CALLS: Mapping[str, Mapping[int, tuple[int, ...]]] = {
    "x86_64": {82: (-1, 0, -1, 1), 264: (0, 1, 2, 3), 316: (0, 1, 2, 3)}
}
_GENERIC_RENAME_CALLS = {38: (0, 1, 2, 3), 276: (0, 1, 2, 3)}


def rename_calls(machine: str) -> Mapping[int, tuple[int, ...]]:
    """Return the system calls that rename files, each with the argument positions of the old folder, old name, new
    folder and new name. -1 is the process's working folder."""
    return _RENAME_CALLS.get(machine, _GENERIC_RENAME_CALLS)


def rename_listener_filter(machine: str) -> bytes:
    """Build a filter that makes rename calls wait for an answer and allows all other calls."""
    return b"".join(
        (
            _instruction(_LOAD, _ARCHITECTURE),
            *_when_not_equal(_ARCHITECTURES[machine][0], _allow()),
            _instruction(_LOAD, _CALL_NUMBER),
            *(
                step
                for number in rename_calls(machine)
                for step in _when_equal(number, _instruction(_RETURN, _USER_NOTIFICATION))
            ),
            _allow(),
        )
    )


@cache
def build_seccomp_filter(machine: str, sockets: Sockets = "network") -> bytes:
    """Build the filter. Empty if the machine is unknown."""
    if machine not in _ARCHITECTURES:
        return b""
    architecture, rejected, (clone, socket, ioctl, prlimit) = _ARCHITECTURES[machine]
    return b"".join(
        (
            _instruction(_LOAD, _ARCHITECTURE),
            *_when_not_equal(architecture, _refuse(_EPERM)),
            _instruction(_LOAD, _CALL_NUMBER),
            *((_instruction(_AT_LEAST, _FIRST_X32_CALL, 0, 1), _refuse(_EPERM)) if machine == "x86_64" else ()),
            *_when_equal(_CLONE3, _refuse(_ENOSYS)),  # filters cannot see its flags; programs fall back to clone
            *(
                step
                for number in (*rejected.values(), *_COMMON_REJECTED_CALLS.values())
                for step in _when_equal(number, _refuse(_EPERM))
            ),
            *_when_equal(
                clone,
                _instruction(_LOAD, _FIRST_ARGUMENT),
                _instruction(_ANY_BIT, _CLONE_NAMESPACE_FLAGS, 0, 1),
                _refuse(_EPERM),
                _allow(),
            ),
            *_when_equal(socket, *_socket_family_steps(sockets)),
            *_when_equal(
                ioctl,
                _instruction(_LOAD, _SECOND_ARGUMENT),
                *_when_equal(_TIOCSTI, _refuse(_EPERM)),
                *_when_equal(_TIOCLINUX, _refuse(_EPERM)),
                _allow(),
            ),
            *(() if sockets == "network" else _when_equal(prlimit, *_own_limits_only())),
            _allow(),
        )
    )


def _own_limits_only() -> Iterator[bytes]:
    """Yield steps that let a process change only its own limits. By lowering the limits of the user's other programs,
    it could end them."""
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    yield from _when_equal(0, _allow())
    yield _refuse(_EPERM)


def _socket_family_steps(sockets: Sockets) -> Iterator[bytes]:
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    allowed_families = {"network": (_UNIX, _INET, _INET6, _NETLINK), "local": (_INET, _INET6, _NETLINK), "none": ()}[
        sockets
    ]
    for family in allowed_families:
        yield from _when_equal(family, _allow())
    yield _refuse(_EAFNOSUPPORT if sockets == "network" else _EPERM)


def _when_equal(value: int, *steps: bytes) -> Iterator[bytes]:
    """Yield the steps, after an instruction that skips them unless the loaded value equals `value`. The last step must
    be a decision."""
    yield _instruction(_EQUAL, value, 0, len(steps))
    yield from steps


def _when_not_equal(value: int, *steps: bytes) -> Iterator[bytes]:
    yield _instruction(_EQUAL, value, len(steps), 0)
    yield from steps


def _refuse(error: int) -> bytes:
    return _instruction(_RETURN, _ERROR | error)


def _allow() -> bytes:
    return _instruction(_RETURN, _ALLOW)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
