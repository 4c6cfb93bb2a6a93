"""TCP ports that processes listen on, by the kernel's tables. Linux."""

import os
import re
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress

_LISTENS = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def listening_ports(processes: Iterable[int]) -> dict[int, str]:
    """The ports on which these processes listen, each with an address at which it takes connections from its own
    machine. All of them share a network."""
    ids = tuple(processes)
    sockets = {inode for id in ids for inode in _sockets_of(id)}
    if not sockets:
        return {}
    found = dict[int, str]()
    for table, family in (("tcp6", socket.AF_INET6), ("tcp", socket.AF_INET)):
        for port, address, inode in _listeners(ids, table, family):
            if inode in sockets:
                found[port] = address  # one of version 4 last: it counts
    return found


def _sockets_of(process: int) -> Iterator[str]:
    with suppress(OSError):  # it may have ended
        for name in os.listdir(f"/proc/{process}/fd"):
            with suppress(OSError):
                found = _SOCKET.fullmatch(os.readlink(f"/proc/{process}/fd/{name}"))
                if found:
                    yield found[1]


def _listeners(processes: Iterable[int], table: str, family: socket.AddressFamily) -> Iterator[tuple[int, str, str]]:
    """Port, address and inode of each socket that listens in the network of the processes."""
    for id in processes:
        try:
            with open(f"/proc/{id}/net/{table}", encoding="ascii") as file:
                rows = file.read().splitlines()[1:]
        except OSError:
            continue  # it may have ended: another one tells the same
        for row in rows:
            (
                _,
                local,
                _,
                state,
                *_,
            ) = row.split()
            if state == _LISTENS:
                address, _, port = local.partition(":")
                yield int(port, 16), _reachable(address, family), row.split()[9]
        return


def _reachable(address: str, family: socket.AddressFamily) -> str:
    """An address as the kernel writes it; that of the machine itself in place of any."""
    words = struct.pack(f"={len(address) // 8}I", *(int(address[at : at + 8], 16) for at in range(0, len(address), 8)))
    found = socket.inet_ntop(family, words)
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(found, found)  # nothing is bound
