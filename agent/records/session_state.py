"""What holds in a session besides what was said, and what of it still holds when the session goes on later. It knows
the workspace; it knows no store and no model."""

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from pathlib import Path

from ebbtide.agent.context.control_calls import TodoItem, TodoState
from ebbtide.agent.events.session import Resumed
from ebbtide.tools.base import Workspace
from ebbtide.tools.files.paths import display
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import join_limited
from ebbtide.tools.process.jobs import EndedJob

MOST_NAMED = 20
"""Files that a note names before it only counts the rest."""


@dataclass(frozen=True, slots=True)
class SessionState:
    """What a session would have to find out again after a new start of the program."""

    todos: tuple[TodoItem, ...] = ()
    notes: str = ""
    """What the model wrote down for itself."""
    seen: Mapping[Path, str] = field(default_factory=dict)
    """SHA-256 of the files whose content the model knows."""
    jobs: Mapping[str, str] = field(default_factory=dict)
    """The commands that run in the background, by the id of their job."""
    ended_jobs: Mapping[str, EndedJob] = field(default_factory=dict)
    """The jobs that are over, which the model does not know."""


def workspace_state(workspace: Workspace) -> SessionState:
    """What the workspace tells of the situation; list and notes are the conversation's."""
    jobs = {job.id: job.command for job in workspace.jobs.unfinished}
    return SessionState(seen=dict(workspace.seen.digests), jobs=jobs, ended_jobs=workspace.jobs.ended)


def with_jobs_of(situation: SessionState, now: SessionState, told: Collection[str]) -> SessionState:
    """The situation with the jobs as they are now, once the model is told that some are over."""
    return replace(
        situation, jobs=now.jobs, ended_jobs={id: job for id, job in now.ended_jobs.items() if id not in told}
    )


def jobs_ended_by_exit(situation: SessionState) -> dict[str, EndedJob]:
    """The jobs of a session that goes on: none of them runs any more."""
    ended = {id: EndedJob(id, command, "ended with the program") for id, command in situation.jobs.items()}
    return ended | dict(situation.ended_jobs)


def with_todos(situation: SessionState, kept: TodoState) -> SessionState:
    """The situation with the model's list and notes as calls have left them."""
    return replace(
        situation,
        todos=situation.todos if kept.todos is None else kept.todos,
        notes=situation.notes if kept.notes is None else kept.notes,
    )


def note_for_model(event: Resumed) -> str:
    """What the model should know before it goes on, or an empty text when nothing is as it does not expect."""
    lines = [
        *_line("changed on disk since you saw them, read them again before you rely on them", event.changed),
        *_line("no longer there", event.gone),
    ]
    return "\n".join(["[This session was closed and is now open again.", *lines]) + "]" if lines else ""


def news_for_user(event: Resumed) -> tuple[str, ...]:
    """The same for the one who opened the session, a line each."""
    parts = [
        f"{count} {one if count == 1 else many}"
        for count, one, many in (
            (len(event.changed), "file changed on disk", "files changed on disk"),
            (len(event.gone), "file is gone", "files are gone"),
            (len(event.jobs), "background job ended", "background jobs ended"),
        )
        if count
    ]
    was = event.mode_before
    told = f"this session was left in `{was}` mode; here it is in `{event.mode}`, as this terminal is set"
    modes = (f"{told}: `/mode {was}` goes back",) if was else ()
    return (*event.problems, *modes, *([f"since this session was closed: {', '.join(parts)}"] if parts else []))


def display_paths(paths: tuple[Path, ...], root: Path) -> tuple[str, ...]:
    return tuple(display(path, root) for path in paths)


def _line(what: str, names: tuple[str, ...]) -> list[str]:
    return [f"- {what}: {join_limited([f'`{name}`' for name in names], MOST_NAMED)}"] if names else []
