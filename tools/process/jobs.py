"""Background commands of one session. A job knows its program and its output file, not why it runs."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import field

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.process.program import Program


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that is over."""

    id: str
    command: str
    how: str
    """`exit code 1`, or what else ended it."""
    last_lines: tuple[str, ...] = ()
    """Of what it printed that the model was not given."""


@dataclass(slots=True)
class Job:
    id: str
    command: str
    program: Program
    read_offset: int = 0
    """Bytes of its output that were handed out."""
    read_to: int = 0
    """The place in its log behind what was handed out."""
    end: EndedJob | None = None
    """Once it is over."""
    has_own_network: bool = False
    """It runs in the network of the session's commands."""
    ports: dict[int, int | None] = field(default_factory=dict)
    """Those that it listens on there, with the port of 127.0.0.1 at which the user reaches each, if any."""
    is_end_known: bool = False
    """Whether the model has seen that it is over, or has ended it."""

    @property
    def where(self) -> str:
        """The ports that it listens on, and where the user reaches them; empty where there are none."""
        ports = (
            f"port {port} at 127.0.0.1:{outside}" if outside else f"port {port} in the sandbox"
            for port, outside in sorted(self.ports.items())
        )
        told = ", ".join(ports)
        return f" ({told})" if told else ""


async def nothing_to_forward() -> int:
    return 0


def no_watcher(job: Job) -> None:
    """Where nobody looks after what a job does."""


async def no_end_listener(ended: EndedJob) -> None:
    """Where nobody is told that a job is over."""


@dataclass(slots=True)
class BackgroundJobs:
    """The background jobs of one session, by id, and what commands in the foreground left running."""

    by_id: dict[str, Job] = field(default_factory=dict)
    leftovers: list[Program] = field(default_factory=list)
    on_end: Callable[[EndedJob], Awaitable[None]] = no_end_listener
    """Told when a job is over of which the model does not know it."""
    forward_ports: Callable[[], Awaitable[int]] = nothing_to_forward
    """Makes every port that a job listens on reachable; how many that are."""
    on_start: Callable[[Job], None] = no_watcher
    """Told of each job as it begins."""
    news: list[str] = field(default_factory=list)
    """What else the model is to be told of jobs with the next message."""
    _earlier: dict[str, EndedJob] = field(default_factory=dict)
    """Those of earlier runs of the session of which the model does not know that they are over."""
    _count: int = 0
    _watchers: set[asyncio.Task[None]] = field(default_factory=set)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def add(
        self, command: str, program: Program, end_of: Callable[[Job], EndedJob], *, has_own_network: bool = False
    ) -> Job:
        """`end_of`: what is told of the job once its program has exited."""
        self._count += 1
        job = Job(f"job-{self._count}", command, program, has_own_network=has_own_network)
        self.by_id[job.id] = job
        self.on_start(job)
        watcher = asyncio.create_task(self._watch(job, end_of))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        return job

    def restore(self, ended: Mapping[str, EndedJob]) -> None:
        """Takes over the ended jobs of an earlier run of which the model does not know. No new job is called so."""
        self._earlier.update(ended)
        numbers = [int(number) for id in ended if (number := id.removeprefix("job-")).isdecimal()]
        self._count = max(self._count, *numbers, 0)

    def take_news(self) -> tuple[str, ...]:
        """What the model is told now; nothing is left of it."""
        news = tuple(self.news)
        self.news.clear()
        return news

    def look_after(self, program: Program) -> None:
        """Takes over a program that has exited while a child of it still runs."""
        self.leftovers = [left for left in self.leftovers if not left.is_over] + [program]

    @property
    def running(self) -> tuple[Job, ...]:
        return tuple(job for job in self.by_id.values() if job.program.code is None)

    @property
    def unfinished(self) -> tuple[Job, ...]:
        """Those of which neither the model nor `ended` knows that they are over."""
        return tuple(job for job in self.by_id.values() if job.end is None and not job.is_end_known)

    @property
    def ended(self) -> dict[str, EndedJob]:
        """Those that are over, which the model does not know."""
        here = {job.id: job.end for job in self.by_id.values() if job.end is not None and not job.is_end_known}
        return self._earlier | here

    def mark_reported(self, ids: Collection[str]) -> None:
        """The model knows that these are over."""
        for id in ids:
            self._earlier.pop(id, None)
            if id in self.by_id:
                self.by_id[id].is_end_known = True

    async def wait_for_end(self, known: Collection[str] = ()) -> None:
        """Returns once a job is over of which the model does not know it, and that is not among `known`."""
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
        """Ends every job that still runs, with all its children."""
        watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        programs = [job.program for job in self.by_id.values()] + self.leftovers
        await asyncio.gather(*(program.close() for program in programs))
        self.by_id.clear()
        self.leftovers.clear()
