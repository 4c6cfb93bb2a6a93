"""Detects the ports that jobs in the sandbox listen on, and forwards them if the user wants that."""

import asyncio
from collections.abc import Callable
from typing import Literal, TypeAlias

from ebbtide.tools.process.jobs import BackgroundJobs, Job
from ebbtide.tools.sandbox.forwarding import NamespaceConnector, PortForward
from ebbtide.tools.sandbox.listening import listening_ports
from ebbtide.tools.sandbox.network_namespace import NetworkNamespace

PortRule: TypeAlias = Literal["off", "ask", "forward"]

_MAX_PORTS = 8
"""Maximum number of ports per job."""
_SOONEST, _LATEST = 0.25, 2.0
"""Seconds between checks, at first and later."""


class JobPorts:
    """The ports of a session's jobs."""

    def __init__(
        self,
        jobs: BackgroundJobs,
        rule: PortRule,
        namespace: Callable[[], NetworkNamespace | None],
        tell: Callable[[str], None],
    ) -> None:
        """`namespace` returns the network namespace of the session's commands, if any. `tell` notifies the user."""
        self._jobs, self._rule, self._namespace, self._tell = jobs, rule, namespace, tell
        self._connector: NamespaceConnector | None = None
        self._watchers: set[asyncio.Task[None]] = set()
        self._listening: dict[str, dict[int, str]] = {}
        """The ports of each running job, with their addresses."""
        self._forwards: dict[tuple[str, int], PortForward] = {}

    def watch(self, job: Job) -> None:
        """Watch the ports of a job until it ends."""
        if self._namespace() is not None:
            watcher = asyncio.create_task(self._watch(job))
            self._watchers.add(watcher)
            watcher.add_done_callback(self._watchers.discard)

    async def forward_all(self) -> int:
        """Forward every port that is not forwarded yet, and return their number."""
        waiting = [
            (job, port)
            for job in self._jobs.running
            for port in self._listening.get(job.id, ())
            if (job.id, port) not in self._forwards
        ]
        for job, port in waiting:
            await self._forward(job, port)
        return len(waiting)

    async def close(self) -> None:
        watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        if self._connector is not None:
            await asyncio.to_thread(self._connector.close)

    async def _watch(self, job: Job) -> None:
        pause = _SOONEST
        try:
            while job.program.code is None:
                found = await asyncio.to_thread(listening_ports, await asyncio.to_thread(job.program.processes))
                await self._take(job, dict([*sorted(found.items())][:_MAX_PORTS]))
                await job.program.wait(pause)
                pause = min(pause * 1.2, _LATEST)
        finally:
            await self._take(job, {})

    async def _take(self, job: Job, found: dict[int, str]) -> None:
        before = self._listening.get(job.id, {})
        self._listening[job.id] = found
        for port in before.keys() - found.keys():
            job.ports.pop(port, None)
            if (forward := self._forwards.pop((job.id, port), None)) is not None:
                await forward.close()
        for port in found.keys() - before.keys():
            job.ports[port] = None
            match self._rule:
                case "forward":
                    await self._forward(job, port)
                case "ask":
                    place = f"port {port} inside the sandbox, which you cannot reach"
                    self._tell(f"{job.id} listens on {place}. `/tasks forward` makes it reachable at 127.0.0.1.")
                    self._jobs.news.append(
                        f"{job.id} listens on port {port}, inside the sandbox: the user cannot reach it "
                        "before they type `/tasks forward`"
                    )
                case "off":
                    why = "the user cannot reach it, since `sandbox.ports` is not `forward`"
                    self._jobs.news.append(f"{job.id} listens on port {port}, inside the sandbox: {why}")

    async def _forward(self, job: Job, port: int) -> None:
        namespace = self._namespace()
        assert namespace is not None
        self._connector = self._connector or NamespaceConnector(namespace)
        forward = PortForward(self._connector, self._listening[job.id][port], port)
        try:
            outside = await forward.open()
        except OSError as error:
            self._tell(f"port {port} of {job.id} cannot be made reachable: {error}")
            return
        self._forwards[job.id, port] = forward
        job.ports[port] = outside
        at = f"http://127.0.0.1:{outside}"
        self._tell(f"{job.id} listens on port {port}: you reach it at {at}")
        self._jobs.news.append(f"{job.id} listens on port {port}: the user reaches it at {at}")
