"""Notes to the model about finished background jobs. Pure."""

from collections.abc import Iterable, Sequence
from textwrap import indent

from ebbtide.agent.messages import Note, User
from ebbtide.tools.process.jobs import EndedJob

JOB_ENDED_PROMPT = (
    "[Nobody has said anything: a background job is over. Continue if something is left to do, or say so briefly.]"
)


def job_notes(ended: Iterable[EndedJob]) -> tuple[Note, ...]:
    """Return the note about these jobs; empty without jobs. Their output is indented so that it cannot pass for a
    note."""
    jobs = tuple(ended)
    if not jobs:
        return ()
    text = "\n".join(["[Background jobs that are over:", *map(_job_text, jobs)])
    return (Note(f"{text}]", kind="jobs", name=" ".join(job.id for job in jobs)),)


def news_notes(news: Sequence[str]) -> tuple[Note, ...]:
    """Return a note with other news about jobs."""
    return (Note(f"[Background jobs: {'; '.join(news)}.]"),) if news else ()


def reported_job_ids(message: User) -> tuple[str, ...]:
    """Return the ids of the jobs that a message reports as finished."""
    notes = (part for part in message.parts if isinstance(part, Note) and part.kind == "jobs")
    return tuple(id for note in notes for id in note.name.split())


def _job_text(job: EndedJob) -> str:
    first = f"- {job.id} (`{job.command}`): {job.how}"
    lines = indent("\n".join(job.last_lines), "  ")
    return f"{first}. Its last lines:\n{lines}" if lines else first
