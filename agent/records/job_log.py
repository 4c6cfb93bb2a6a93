"""Forwards the ports of background jobs, and reports and records jobs that have ended."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.options import PortRule
from ebbtide.agent.context.secret_tokens import SecretTokens
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.events.session import JobEnded
from ebbtide.agent.records.recorder import Recorder
from ebbtide.tools.base import Workspace
from ebbtide.tools.process.jobs import EndedJob, Job

if TYPE_CHECKING:  # types only: few sessions have jobs
    from ebbtide.tools.sandbox.job_ports import JobPorts


def job_listener(channel: Channel, recorder: Recorder, secrets: SecretTokens) -> Callable[[EndedJob], Awaitable[None]]:
    """Return a listener for jobs that ended without the model knowing it yet."""

    async def tell(ended: EndedJob) -> None:
        lines = tuple(map(secrets.hide, ended.last_lines))
        channel.emit_now(JobEnded(ended.id, secrets.hide(ended.command), ended.how, lines))
        with suppress(StoreFailed):  # it is stored with the next message
            await recorder.record_jobs()

    return tell


class JobPortsOnDemand:
    """Forwards the ports of a session's jobs; created with the first job that may have any."""

    def __init__(self, workspace: Workspace, rule: PortRule, tell: Callable[[str], None]) -> None:
        self._workspace, self._rule, self._tell = workspace, rule, tell
        self._ports: JobPorts | None = None
        workspace.jobs.on_start = self._watch

    def _watch(self, job: Job) -> None:
        sandbox = self._workspace.sandbox
        if not job.has_own_network or sandbox is None or (network := sandbox.network) is None:
            return
        from ebbtide.tools.sandbox.job_ports import JobPorts  # noqa: PLC0415  # deferred: few sessions have jobs

        if self._ports is None:
            self._ports = JobPorts(self._workspace.jobs, self._rule, lambda: network.namespace, self._tell)
            self._workspace.jobs.forward_ports = self._ports.forward_all
        self._ports.watch(job)

    async def close(self) -> None:
        if self._ports is not None:
            await self._ports.close()
