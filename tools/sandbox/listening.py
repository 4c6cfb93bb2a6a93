"""Finds the TCP ports on which processes listen, using the kernel's tables. Linux only."""

import os
import re
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress

_LISTEN_STATE = "0A"
_SOCKET_LINK = re.compile(r"socket:\[(\d+)\]")


def listening_ports(processes: Iterable[int]) -> dict[int, str]:
    """Return the ports on which these processes listen, each with an address that accepts local connections. The
    processes must all be in the same network namespace."""
    process_ids = tuple(processes)
    sockets = {inode for process_id in process_ids for inode in _socket_inodes(process_id)}
    if not sockets:
        return {}
    addresses = dict[int, str]()
    for table, family in (("tcp6", socket.AF_INET6), ("tcp", socket.AF_INET)):
        for port, address, inode in _listeners(process_ids, table, family):
            if inode in sockets:
                addresses[port] = address  # read last, so IPv4 takes precedence
    return addresses


def _socket_inodes(process: int) -> Iterator[str]:
    with suppress(OSError):  # the process may have ended
        for name in os.listdir(f"/proc/{process}/fd"):
            with suppress(OSError):
                match = _SOCKET_LINK.fullmatch(os.readlink(f"/proc/{process}/fd/{name}"))
                if match:
                    yield match[1]


def _listeners(processes: Iterable[int], table: str, family: socket.AddressFamily) -> Iterator[tuple[int, str, str]]:
    """Yield the port, address and inode of each listening socket in the network namespace of these processes."""
    for process_id in processes:
        try:
            with open(f"/proc/{process_id}/net/{table}", encoding="ascii") as file:
                rows = file.read().splitlines()[1:]
        except OSError:
            continue  # the process may have ended; every other process has the same table
        for row in rows:
            columns = row.split()
            local_address, state, inode = columns[1], columns[3], columns[9]
            if state == _LISTEN_STATE:
                address, _, port = local_address.partition(":")
                yield int(port, 16), _connectable_address(address, family), inode
        return


def _connectable_address(address: str, family: socket.AddressFamily) -> str:
    """Convert an address from the kernel's format, replacing wildcard addresses with loopback ones."""
    packed = struct.pack(
        f"={len(address) // 8}I", *(int(address[offset : offset + 8], 16) for offset in range(0, len(address), 8))
    )
    readable_address = socket.inet_ntop(family, packed)
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(readable_address, readable_address)  # compared only, never bound
