"""Reports and records background jobs that have ended, and forwards the ports of running jobs."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.options import PortRule
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.events.session import JobEnded
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.records.recorder import Recorder
from ebbtide.tools import sandbox as tools_sandbox
from ebbtide.tools.base import Workspace
from ebbtide.tools.process.jobs import EndedJob, Job

if TYPE_CHECKING:  # imported for types only, because few sessions have jobs
    from ebbtide.tools.sandbox.job_ports import JobPorts


def create_job_end_reporter(
    channel: Channel, recorder: Recorder, secrets: SecretTokens
) -> Callable[[EndedJob], Awaitable[None]]:
    """Create a listener for jobs that end without the model's knowledge."""

    async def report(ended_job: EndedJob) -> None:
        lines = tuple(map(secrets.hide, ended_job.last_lines))
        channel.emit_anytime(JobEnded(ended_job.id, secrets.hide(ended_job.command), ended_job.outcome, lines))
        with suppress(StoreFailed):  # the next message stores it
            await recorder.record_jobs()

    return report


class JobPortForwarder:
    """Forwards the ports of a session's jobs. The forwarding is set up when the first job needs it."""

    def __init__(self, workspace: Workspace, rule: PortRule, notify: Callable[[str], None]) -> None:
        self._workspace, self._rule, self._notify = workspace, rule, notify
        self._ports: JobPorts | None = None
        workspace.jobs.on_start = self._start_forwarding

    def _start_forwarding(self, job: Job) -> None:
        sandbox = self._workspace.sandbox
        if not job.is_in_session_network or sandbox is None or (network := sandbox.network) is None:
            return
        if self._ports is None:
            self._ports = tools_sandbox.job_ports.JobPorts(
                self._workspace.jobs, self._rule, lambda: network.namespace, self._notify
            )
            self._workspace.jobs.forward_ports = self._ports.forward_all
        self._ports.watch(job)

    async def close(self) -> None:
        if self._ports is not None:
            await self._ports.close()
