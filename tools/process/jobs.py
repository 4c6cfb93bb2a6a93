"""Background commands of one session. A job knows its program and its output file, not why it runs."""

import asyncio
from dataclasses import field

from tools.lazy import dataclass
from tools.process.program import Program


@dataclass(slots=True)
class Job:
    id: str
    command: str
    program: Program
    shown: int = 0
    """Bytes of its output that were handed out."""
    read_to: int = 0
    """The place in its log behind what was handed out."""


@dataclass(slots=True)
class BackgroundJobs:
    """The background jobs of one session, by id, and what commands in the foreground left running."""

    by_id: dict[str, Job] = field(default_factory=dict)
    leftovers: list[Program] = field(default_factory=list)

    def add(self, command: str, program: Program) -> Job:
        job = Job(f"job-{len(self.by_id) + 1}", command, program)
        self.by_id[job.id] = job
        return job

    def look_after(self, program: Program) -> None:
        """Takes over a program that has exited while a child of it still runs."""
        self.leftovers = [left for left in self.leftovers if not left.is_over] + [program]

    @property
    def running(self) -> tuple[Job, ...]:
        return tuple(job for job in self.by_id.values() if job.program.code is None)

    async def close(self) -> None:
        """Ends every job that still runs, with all its children."""
        programs = [job.program for job in self.by_id.values()] + self.leftovers
        await asyncio.gather(*(program.close() for program in programs))
        self.by_id.clear()
        self.leftovers.clear()
