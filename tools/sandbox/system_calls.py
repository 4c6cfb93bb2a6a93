"""Builds the system call filter of sandboxed programs, as bytes for the kernel. Pure.

It rejects leaving or creating namespaces, administrative calls, socket families outside the network namespace, and
input injection into terminals.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

Sockets: TypeAlias = Literal["network", "local", "none"]
"""Which sockets are possible: those of the network namespace and named ones; the same without named ones; or only
socket pairs."""

_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_ALLOW, _ERROR, _ASK = 0x7FFF0000, 0x00050000, 0x7FC00000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in the kernel's record of a call. Only the lower halves of arguments are examined, which suffices for these
calls."""
_NEW_NAMESPACES = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_X32 = 0x40000000
"""The x32 calls of x86_64, which have separate numbers."""

_ANYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "mount_setattr": 442,
}  # fmt: skip
_CLONE3 = 435
_X86_64 = {
    "mount": 165, "umount2": 166, "pivot_root": 155, "unshare": 272, "setns": 308, "swapon": 167, "swapoff": 168,
    "reboot": 169, "acct": 163, "settimeofday": 164, "clock_settime": 227, "iopl": 172, "ioperm": 173,
    "init_module": 175, "finit_module": 313, "delete_module": 176, "quotactl": 179, "kexec_load": 246,
    "kexec_file_load": 320, "add_key": 248, "request_key": 249, "keyctl": 250, "perf_event_open": 298,
    "open_by_handle_at": 304, "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
_GENERIC = {
    "mount": 40, "umount2": 39, "pivot_root": 41, "unshare": 97, "setns": 268, "swapon": 224, "swapoff": 225,
    "reboot": 142, "acct": 89, "settimeofday": 170, "clock_settime": 112, "init_module": 105, "finit_module": 273,
    "delete_module": 106, "quotactl": 60, "kexec_load": 104, "kexec_file_load": 294, "add_key": 217,
    "request_key": 218, "keyctl": 219, "perf_event_open": 241, "open_by_handle_at": 265, "bpf": 280,
    "userfaultfd": 282,
}  # fmt: skip
_MACHINES: Mapping[str, tuple[int, Mapping[str, int], tuple[int, int, int, int]]] = {
    "x86_64": (0xC000003E, _X86_64, (56, 41, 16, 302)),
    "aarch64": (0xC00000B7, _GENERIC, (220, 198, 29, 261)),
    "riscv64": (0xC00000F3, _GENERIC, (220, 198, 29, 261)),
    "loongarch64": (0xC0000102, _GENERIC, (220, 198, 29, 261)),
}
"""By machine: the architecture's number, the rejected calls, and the numbers of clone, socket, ioctl and prlimit64."""

_RENAMES: Mapping[str, Mapping[int, tuple[int, ...]]] = {
    "x86_64": {82: (-1, 0, -1, 1), 264: (0, 1, 2, 3), 316: (0, 1, 2, 3)}
}
_GENERIC_RENAMES = {38: (0, 1, 2, 3), 276: (0, 1, 2, 3)}


def renames_of(machine: str) -> Mapping[int, tuple[int, ...]]:
    """Return the calls that rename files, with the positions of the old folder and name, and of the new ones. -1 is the
    working folder of the process."""
    return _RENAMES.get(machine, _GENERIC_RENAMES)


def asks_about_renames(machine: str) -> bytes:
    """Return a filter that makes these calls wait for a decision and allows all others."""
    return b"".join(
        (
            _step(_LOAD, _ARCHITECTURE),
            *_unless(_MACHINES[machine][0], _allow()),
            _step(_LOAD, _NUMBER),
            *(part for number in renames_of(machine) for part in _if(number, _step(_RETURN, _ASK))),
            _allow(),
        )
    )


def system_call_filter(machine: str, sockets: Sockets = "network") -> bytes:
    """Return the filter, or an empty one if the machine is unknown."""
    if machine not in _MACHINES:
        return b""
    architecture, refused, (clone, socket, ioctl, limit) = _MACHINES[machine]
    return b"".join(
        (
            _step(_LOAD, _ARCHITECTURE),
            *_unless(architecture, _refuse(_EPERM)),
            _step(_LOAD, _NUMBER),
            *((_step(_AT_LEAST, _X32, 0, 1), _refuse(_EPERM)) if machine == "x86_64" else ()),
            *_if(_CLONE3, _refuse(_ENOSYS)),  # filters cannot read its flags in memory; programs fall back to clone
            *(part for number in (*refused.values(), *_ANYWHERE.values()) for part in _if(number, _refuse(_EPERM))),
            *_if(clone, _step(_LOAD, _FIRST), _step(_ANY_BIT, _NEW_NAMESPACES, 0, 1), _refuse(_EPERM), _allow()),
            *_if(socket, *_families(sockets)),
            *_if(
                ioctl,
                _step(_LOAD, _SECOND),
                *_if(_TIOCSTI, _refuse(_EPERM)),
                *_if(_TIOCLINUX, _refuse(_EPERM)),
                _allow(),
            ),
            *(() if sockets == "network" else _if(limit, *_only_its_own())),
            _allow(),
        )
    )


def _only_its_own() -> Iterator[bytes]:
    """Where other programs of the user are reachable, changing their limits could end them."""
    yield _step(_LOAD, _FIRST)
    yield from _if(0, _allow())
    yield _refuse(_EPERM)


def _families(sockets: Sockets) -> Iterator[bytes]:
    yield _step(_LOAD, _FIRST)
    known = {"network": (_UNIX, _INET, _INET6, _NETLINK), "local": (_INET, _INET6, _NETLINK), "none": ()}[sockets]
    for family in known:
        yield from _if(family, _allow())
    yield _refuse(_EAFNOSUPPORT if sockets == "network" else _EPERM)


def _if(value: int, *steps: bytes) -> Iterator[bytes]:
    """Yield the steps, which must end in a decision, to run if the loaded value is this."""
    yield _step(_EQUAL, value, 0, len(steps))
    yield from steps


def _unless(value: int, *steps: bytes) -> Iterator[bytes]:
    yield _step(_EQUAL, value, len(steps), 0)
    yield from steps


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _ERROR | error)


def _allow() -> bytes:
    return _step(_RETURN, _ALLOW)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
