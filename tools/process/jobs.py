"""Background jobs of a session."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from ebbtide.tools.lazy import dataclass

if TYPE_CHECKING:  # imported only for its type, because some runs start no program
    from ebbtide.tools.process.program import Program


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A background job that has ended."""

    id: str
    command: str
    outcome: str
    """How it ended: `exit code 1`, or the name of the signal."""
    last_lines: tuple[str, ...] = ()
    """The last lines of the output that the model has not seen yet."""


@dataclass(slots=True)
class Job:
    id: str
    command: str
    program: "Program"
    returned_bytes: int = 0
    """Number of output bytes that have already been returned."""
    returned_log_offset: int = 0
    """Offset in the job's log up to which output has been returned."""
    end: EndedJob | None = None
    """How the job ended; None while it is running."""
    is_in_session_network: bool = False
    """Whether it runs in the shared network namespace of the session's commands."""
    ports: dict[int, int | None] = field(default_factory=dict)
    """The ports that the job listens on in the shared network namespace, each with the port of 127.0.0.1 that is
    forwarded to it, if any."""
    is_end_reported: bool = False
    """Whether the model knows that the job has ended: it was notified, or it ended the job itself."""

    @property
    def ports_text(self) -> str:
        """The ports that the job listens on, and where they are forwarded; empty if there are none."""
        ports = (
            f"port {port} at 127.0.0.1:{forwarded_port}" if forwarded_port else f"port {port} in the sandbox"
            for port, forwarded_port in sorted(self.ports.items())
        )
        text = ", ".join(ports)
        return f" ({text})" if text else ""


async def no_ports_to_forward() -> int:
    return 0


def ignore_job_start(job: Job) -> None:
    """Do nothing at the start of a job."""


async def ignore_job_end(ended: EndedJob) -> None:
    """Do nothing at the end of a job."""


@dataclass(slots=True)
class BackgroundJobs:
    """A session's background jobs by id, and the processes that foreground commands left running."""

    by_id: dict[str, Job] = field(default_factory=dict)
    leftovers: "list[Program]" = field(default_factory=list)
    on_end: Callable[[EndedJob], Awaitable[None]] = ignore_job_end
    """Called when a job ends, unless the model already knows."""
    forward_ports: Callable[[], Awaitable[int]] = no_ports_to_forward
    """Forwards every port that jobs listen on; returns the number of ports."""
    on_start: Callable[[Job], None] = ignore_job_start
    """Called with each new job."""
    pending_notes: list[str] = field(default_factory=list)
    """Notes about jobs, for the next message to the model."""
    _jobs_of_earlier_runs: dict[str, EndedJob] = field(default_factory=dict)
    """Jobs that ended in earlier runs of the session and have not been reported to the model."""
    _job_count: int = 0
    _watchers: set[asyncio.Task[None]] = field(default_factory=set)
    _job_ended: asyncio.Event = field(default_factory=asyncio.Event)

    def add(
        self,
        command: str,
        program: "Program",
        summarise_end: Callable[[Job], EndedJob],
        *,
        has_own_network: bool = False,
    ) -> Job:
        """Add a job. `summarise_end` creates its summary when the program has exited."""
        self._job_count += 1
        job = Job(f"job-{self._job_count}", command, program, is_in_session_network=has_own_network)
        self.by_id[job.id] = job
        self.on_start(job)
        watcher = asyncio.create_task(self._watch(job, summarise_end))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        return job

    def restore(self, ended: Mapping[str, EndedJob]) -> None:
        """Restore jobs that ended in an earlier run and have not been reported to the model. Their ids are not
        reused."""
        self._jobs_of_earlier_runs.update(ended)
        numbers = [int(number) for job_id in ended if (number := job_id.removeprefix("job-")).isdecimal()]
        self._job_count = max(self._job_count, *numbers, 0)

    def take_pending_notes(self) -> tuple[str, ...]:
        """Return the pending notes for the model, and clear them."""
        notes = tuple(self.pending_notes)
        self.pending_notes.clear()
        return notes

    def track_leftover(self, program: "Program") -> None:
        """Track a program that has exited but left a child running."""
        self.leftovers = [leftover for leftover in self.leftovers if not leftover.is_fully_ended] + [program]

    @property
    def running_jobs(self) -> tuple[Job, ...]:
        return tuple(job for job in self.by_id.values() if job.program.code is None)

    @property
    def unfinished_jobs(self) -> tuple[Job, ...]:
        """Jobs that are still running, as far as the session and the model know."""
        return tuple(job for job in self.by_id.values() if job.end is None and not job.is_end_reported)

    @property
    def unreported_ends(self) -> dict[str, EndedJob]:
        """Ended jobs that have not been reported to the model."""
        ends_in_this_run = {
            job.id: job.end for job in self.by_id.values() if job.end is not None and not job.is_end_reported
        }
        return self._jobs_of_earlier_runs | ends_in_this_run

    def mark_reported(self, ids: Collection[str]) -> None:
        """Record that the model knows that these jobs have ended."""
        for job_id in ids:
            self._jobs_of_earlier_runs.pop(job_id, None)
            if job_id in self.by_id:
                self.by_id[job_id].is_end_reported = True

    async def wait_for_end(self, excluded_ids: Collection[str] = ()) -> None:
        """Wait until a job that is not in `excluded_ids` has ended and the model does not know about it."""
        while not self.unreported_ends.keys() - set(excluded_ids):
            self._job_ended.clear()
            await self._job_ended.wait()

    async def _watch(self, job: Job, summarise_end: Callable[[Job], EndedJob]) -> None:
        await job.program.wait_for_exit()
        job.end = summarise_end(job)
        if not job.is_end_reported:
            self._job_ended.set()
            await self.on_end(job.end)

    async def close(self) -> None:
        """End every running job together with all its children."""
        watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        programs = [job.program for job in self.by_id.values()] + self.leftovers
        await asyncio.gather(*(program.close() for program in programs))
        self.by_id.clear()
        self.leftovers.clear()
