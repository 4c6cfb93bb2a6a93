"""Detects the ports that jobs in the sandbox listen on, and forwards them if the settings or the user ask for it."""

import asyncio
import os
import re
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Literal, TypeAlias

from ebbtide.tools.process.jobs import BackgroundJobs, Job
from ebbtide.tools.sandbox.forwarding import NamespaceConnector, PortForward
from ebbtide.tools.sandbox.network_namespace import NetworkNamespace

PortRule: TypeAlias = Literal["off", "ask", "forward"]

_MAX_PORTS_PER_JOB = 8
"""Maximum number of ports per job."""
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.25, 2.0
"""Seconds between two checks. The pause grows from the minimum to the maximum."""
_LISTEN_STATE = "0A"
_SOCKET_LINK = re.compile(r"socket:\[(\d+)\]")


class JobPorts:
    """The ports of a session's jobs."""

    def __init__(
        self,
        jobs: BackgroundJobs,
        port_rule: PortRule,
        get_namespace: Callable[[], NetworkNamespace | None],
        notify: Callable[[str], None],
    ) -> None:
        """`get_namespace` returns the network namespace of the session's commands, if any. `notify` shows a notice."""
        self._jobs = jobs
        self._port_rule = port_rule
        self._get_namespace = get_namespace
        self._notify = notify
        self._connector: NamespaceConnector | None = None
        self._watchers: set[asyncio.Task[None]] = set()
        self._ports_by_job: dict[str, dict[int, str]] = {}
        """The ports of each running job, with their addresses."""
        self._forwards: dict[tuple[str, int], PortForward] = {}

    def watch(self, job: Job) -> None:
        """Watch the ports of a job until it ends."""
        if self._get_namespace() is not None:
            watcher = asyncio.create_task(self._watch(job))
            self._watchers.add(watcher)
            watcher.add_done_callback(self._watchers.discard)

    async def forward_all(self) -> int:
        """Forward every port that is not forwarded yet. Return how many there were."""
        unforwarded = [
            (job, port)
            for job in self._jobs.running_jobs
            for port in self._ports_by_job.get(job.id, ())
            if (job.id, port) not in self._forwards
        ]
        for job, port in unforwarded:
            await self._forward(job, port)
        return len(unforwarded)

    async def close(self) -> None:
        watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        if self._connector is not None:
            await asyncio.to_thread(self._connector.close)

    async def _watch(self, job: Job) -> None:
        pause = _MIN_PAUSE_S
        try:
            while job.program.code is None:
                ports = await asyncio.to_thread(_listening_ports, await asyncio.to_thread(job.program.process_ids))
                await self._update_ports(job, dict([*sorted(ports.items())][:_MAX_PORTS_PER_JOB]))
                await job.program.wait(pause)
                pause = min(pause * 1.2, _MAX_PAUSE_S)
        finally:
            await self._update_ports(job, {})

    async def _update_ports(self, job: Job, listening: dict[int, str]) -> None:
        previous_ports = self._ports_by_job.get(job.id, {})
        self._ports_by_job[job.id] = listening
        for port in previous_ports.keys() - listening.keys():
            job.ports.pop(port, None)
            if (forward := self._forwards.pop((job.id, port), None)) is not None:
                await forward.close()
        for port in listening.keys() - previous_ports.keys():
            job.ports[port] = None
            match self._port_rule:
                case "forward":
                    await self._forward(job, port)
                case "ask":
                    self._notify(
                        f"{job.id} listens on port {port} inside the sandbox, which you cannot reach. "
                        "`/tasks forward` makes it reachable at 127.0.0.1."
                    )
                    self._jobs.pending_notes.append(
                        f"{job.id} listens on port {port}, inside the sandbox: the user cannot reach it "
                        "until they type `/tasks forward`"
                    )
                case "off":
                    reason = "the user cannot reach it, because `sandbox.ports` is `off`"
                    self._jobs.pending_notes.append(f"{job.id} listens on port {port}, inside the sandbox: {reason}")

    async def _forward(self, job: Job, port: int) -> None:
        namespace = self._get_namespace()
        assert namespace is not None
        self._connector = self._connector or NamespaceConnector(namespace)
        forward = PortForward(self._connector, self._ports_by_job[job.id][port], port)
        try:
            outside_port = await forward.open()
        except OSError as error:
            self._notify(f"port {port} of {job.id} cannot be made reachable: {error}")
            return
        self._forwards[job.id, port] = forward
        job.ports[port] = outside_port
        url = f"http://127.0.0.1:{outside_port}"
        self._notify(f"{job.id} listens on port {port}: you reach it at {url}")
        self._jobs.pending_notes.append(f"{job.id} listens on port {port}: the user reaches it at {url}")


def _listening_ports(processes: Iterable[int]) -> dict[int, str]:
    """Find the TCP ports on which these processes listen, each with an address that accepts local connections. Reads
    the tables of the Linux kernel. The processes must all be in the same network namespace."""
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


def _socket_inodes(process_id: int) -> Iterator[str]:
    with suppress(OSError):  # the process may have ended
        for name in os.listdir(f"/proc/{process_id}/fd"):
            with suppress(OSError):
                match = _SOCKET_LINK.fullmatch(os.readlink(f"/proc/{process_id}/fd/{name}"))
                if match:
                    yield match[1]


def _listeners(process_ids: Iterable[int], table: str, family: socket.AddressFamily) -> Iterator[tuple[int, str, str]]:
    """Yield the port, address and inode of each listening socket in the network namespace of these processes."""
    for process_id in process_ids:
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
