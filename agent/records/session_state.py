"""The state of a session beyond its messages, and what of it is still valid on resume."""

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
    """What a session could not know after a restart of the program."""

    todos: tuple[TodoItem, ...] = ()
    notes: str = ""
    """The model's own notes."""
    seen: Mapping[Path, str] = field(default_factory=dict)
    """SHA-256 of the files whose content the model knows."""
    jobs: Mapping[str, str] = field(default_factory=dict)
    """Commands running in the background, by job id."""
    ended_jobs: Mapping[str, EndedJob] = field(default_factory=dict)
    """Ended jobs that the model does not know of yet."""


def workspace_state(workspace: Workspace) -> SessionState:
    """The workspace's part of the state; todos and notes come from the conversation."""
    jobs = {job.id: job.command for job in workspace.jobs.unfinished}
    return SessionState(seen=dict(workspace.seen.digests), jobs=jobs, ended_jobs=workspace.jobs.ended)


def with_jobs_of(situation: SessionState, now: SessionState, told: Collection[str]) -> SessionState:
    """The state with the current jobs, without the ended ones that the model was told about."""
    return replace(
        situation, jobs=now.jobs, ended_jobs={id: job for id, job in now.ended_jobs.items() if id not in told}
    )


def jobs_ended_by_exit(situation: SessionState) -> dict[str, EndedJob]:
    """The jobs of a resumed session: all of them have ended."""
    ended = {id: EndedJob(id, command, "ended with the program") for id, command in situation.jobs.items()}
    return ended | dict(situation.ended_jobs)


def with_todos(situation: SessionState, kept: TodoState) -> SessionState:
    """The state with the model's todo list and notes as its calls left them."""
    return replace(
        situation,
        todos=situation.todos if kept.todos is None else kept.todos,
        notes=situation.notes if kept.notes is None else kept.notes,
    )


def note_for_model(event: Resumed) -> str:
    """A note for the model about what changed while the session was closed; empty if nothing did."""
    lines = [
        *_line("changed on disk since you saw them, read them again before you rely on them", event.changed),
        *_line("no longer there", event.gone),
    ]
    return "\n".join(["[This session was closed and is now open again.", *lines]) + "]" if lines else ""


def news_for_user(event: Resumed) -> tuple[str, ...]:
    """The same for the user, one line each."""
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
    told = f"this session was in `{was}` mode; your settings use `{event.mode}`"
    modes = (f"{told}: `/mode {was}` switches back",) if was else ()
    return (*event.problems, *modes, *([f"{', '.join(parts)} since you left"] if parts else []))


def display_paths(paths: tuple[Path, ...], root: Path) -> tuple[str, ...]:
    return tuple(display(path, root) for path in paths)


def _line(what: str, names: tuple[str, ...]) -> list[str]:
    return [f"- {what}: {join_limited([f'`{name}`' for name in names], MOST_NAMED)}"] if names else []
