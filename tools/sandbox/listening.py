"""Finds the TCP ports that processes listen on, from the kernel's tables. Linux only."""

import os
import re
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress

_LISTENS = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def listening_ports(processes: Iterable[int]) -> dict[int, str]:
    """Return the ports that these processes listen on, each with an address that accepts local connections. All
    processes must share a network namespace."""
    ids = tuple(processes)
    sockets = {inode for id in ids for inode in _sockets_of(id)}
    if not sockets:
        return {}
    found = dict[int, str]()
    for table, family in (("tcp6", socket.AF_INET6), ("tcp", socket.AF_INET)):
        for port, address, inode in _listeners(ids, table, family):
            if inode in sockets:
                found[port] = address  # IPv4 addresses come last and take precedence
    return found


def _sockets_of(process: int) -> Iterator[str]:
    with suppress(OSError):  # it may have ended
        for name in os.listdir(f"/proc/{process}/fd"):
            with suppress(OSError):
                found = _SOCKET.fullmatch(os.readlink(f"/proc/{process}/fd/{name}"))
                if found:
                    yield found[1]


def _listeners(processes: Iterable[int], table: str, family: socket.AddressFamily) -> Iterator[tuple[int, str, str]]:
    """Yield port, address and inode of each listening socket in the network namespace of the processes."""
    for id in processes:
        try:
            with open(f"/proc/{id}/net/{table}", encoding="ascii") as file:
                rows = file.read().splitlines()[1:]
        except OSError:
            continue  # it may have ended, and another process has the same table
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
    """Convert an address from the kernel's format, replacing wildcard addresses with loopback ones."""
    words = struct.pack(f"={len(address) // 8}I", *(int(address[at : at + 8], 16) for at in range(0, len(address), 8)))
    found = socket.inet_ntop(family, words)
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(found, found)  # nothing is bound to these
