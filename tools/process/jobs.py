"""Background jobs of a session."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import field

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.process.program import Program


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that has ended."""

    id: str
    command: str
    how: str
    """`exit code 1`, or the signal that ended it."""
    last_lines: tuple[str, ...] = ()
    """The end of its output that the model has not seen."""


@dataclass(slots=True)
class Job:
    id: str
    command: str
    program: Program
    read_offset: int = 0
    """Number of output bytes that were returned."""
    read_to: int = 0
    """Offset in its log after the returned output."""
    end: EndedJob | None = None
    """Set once it has ended."""
    has_own_network: bool = False
    """Whether it runs in the shared network namespace of the session's commands."""
    ports: dict[int, int | None] = field(default_factory=dict)
    """The ports that it listens on there, with the port of 127.0.0.1 that forwards to each, if any."""
    is_end_known: bool = False
    """Whether the model has seen that it ended, or has ended it."""

    @property
    def where(self) -> str:
        """The ports that it listens on and their forwarded ports, or an empty string."""
        ports = (
            f"port {port} at 127.0.0.1:{outside}" if outside else f"port {port} in the sandbox"
            for port, outside in sorted(self.ports.items())
        )
        told = ", ".join(ports)
        return f" ({told})" if told else ""


async def nothing_to_forward() -> int:
    return 0


def no_watcher(job: Job) -> None:
    """Ignore the start of a job."""


async def no_end_listener(ended: EndedJob) -> None:
    """Ignore the end of a job."""


@dataclass(slots=True)
class BackgroundJobs:
    """The background jobs of a session by id, and processes that foreground commands left running."""

    by_id: dict[str, Job] = field(default_factory=dict)
    leftovers: list[Program] = field(default_factory=list)
    on_end: Callable[[EndedJob], Awaitable[None]] = no_end_listener
    """Called when a job has ended and the model does not know yet."""
    forward_ports: Callable[[], Awaitable[int]] = nothing_to_forward
    """Forwards every port that jobs listen on, and returns their number."""
    on_start: Callable[[Job], None] = no_watcher
    """Called with each new job."""
    news: list[str] = field(default_factory=list)
    """Further news about jobs for the next message to the model."""
    _earlier: dict[str, EndedJob] = field(default_factory=dict)
    """Jobs of earlier runs of the session that have ended without the model knowing."""
    _count: int = 0
    _watchers: set[asyncio.Task[None]] = field(default_factory=set)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def add(
        self, command: str, program: Program, end_of: Callable[[Job], EndedJob], *, has_own_network: bool = False
    ) -> Job:
        """Add a job. `end_of` creates its summary once the program has exited."""
        self._count += 1
        job = Job(f"job-{self._count}", command, program, has_own_network=has_own_network)
        self.by_id[job.id] = job
        self.on_start(job)
        watcher = asyncio.create_task(self._watch(job, end_of))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        return job

    def restore(self, ended: Mapping[str, EndedJob]) -> None:
        """Restore the ended jobs of an earlier run that the model does not know of. Their ids are not reused."""
        self._earlier.update(ended)
        numbers = [int(number) for id in ended if (number := id.removeprefix("job-")).isdecimal()]
        self._count = max(self._count, *numbers, 0)

    def take_news(self) -> tuple[str, ...]:
        """Return and clear the news for the model."""
        news = tuple(self.news)
        self.news.clear()
        return news

    def look_after(self, program: Program) -> None:
        """Track a program that has exited while a child of it still runs."""
        self.leftovers = [left for left in self.leftovers if not left.is_over] + [program]

    @property
    def running(self) -> tuple[Job, ...]:
        return tuple(job for job in self.by_id.values() if job.program.code is None)

    @property
    def unfinished(self) -> tuple[Job, ...]:
        """Jobs that are not known to have ended, neither to the model nor in `ended`."""
        return tuple(job for job in self.by_id.values() if job.end is None and not job.is_end_known)

    @property
    def ended(self) -> dict[str, EndedJob]:
        """Jobs that have ended without the model knowing."""
        here = {job.id: job.end for job in self.by_id.values() if job.end is not None and not job.is_end_known}
        return self._earlier | here

    def mark_reported(self, ids: Collection[str]) -> None:
        """Record that the model knows that these have ended."""
        for id in ids:
            self._earlier.pop(id, None)
            if id in self.by_id:
                self.by_id[id].is_end_known = True

    async def wait_for_end(self, known: Collection[str] = ()) -> None:
        """Wait until a job that is not among `known` has ended without the model knowing."""
        while not self.ended.keys() - set(known):
            self._news.clear()
            await self._news.wait()

    async def _watch(self, job: Job, end_of: Callable[[Job], EndedJob]) -> None:
        await job.program.wait_for_exit()
        job.end = end_of(job)
        if not job.is_end_known:
            self._news.set()
            await self.on_end(job.end)

    async def close(self) -> None:
        """End every running job with all its children."""
        watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        programs = [job.program for job in self.by_id.values()] + self.leftovers
        await asyncio.gather(*(program.close() for program in programs))
        self.by_id.clear()
        self.leftovers.clear()
