"""The state of a session apart from its messages, and how it changed while the session was closed."""

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from pathlib import Path

from ebbtide.agent.control_calls import TodoItem, TodoState
from ebbtide.agent.events.session import Resumed
from ebbtide.tools.base import Workspace
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import join_limited
from ebbtide.tools.process.jobs import EndedJob

MAX_NAMED_FILES = 20
"""Maximum number of files named in a note. The others are only counted."""


@dataclass(frozen=True, slots=True)
class SessionState:
    """Session data that must be stored because it cannot be derived after a restart."""

    todos: tuple[TodoItem, ...] = ()
    notes: str = ""
    """The model's own notes."""
    seen_digests: Mapping[Path, str] = field(default_factory=dict)
    """SHA-256 of each file whose content the model knows."""
    running_jobs: Mapping[str, str] = field(default_factory=dict)
    """Commands running in the background, by job id."""
    ended_jobs: Mapping[str, EndedJob] = field(default_factory=dict)
    """Ended jobs, by id, that the model does not know about yet."""


def workspace_state(workspace: Workspace) -> SessionState:
    """Return the workspace's part of the session state. The todos and notes come from the conversation instead."""
    jobs = {job.id: job.command for job in workspace.jobs.unfinished_jobs}
    return SessionState(
        seen_digests=dict(workspace.seen_files.digests), running_jobs=jobs, ended_jobs=workspace.jobs.unreported_ends
    )


def with_current_jobs(state: SessionState, current: SessionState, reported_ids: Collection[str]) -> SessionState:
    """Replace the jobs in a state with the current ones. Ended jobs that the model already knows about are removed."""
    return replace(
        state,
        running_jobs=current.running_jobs,
        ended_jobs={job_id: job for job_id, job in current.ended_jobs.items() if job_id not in reported_ids},
    )


def restore_ended_jobs(state: SessionState) -> dict[str, EndedJob]:
    """Return the jobs of a resumed session, by id. All of them have ended."""
    ended_jobs = {
        job_id: EndedJob(job_id, command, "ended with the program") for job_id, command in state.running_jobs.items()
    }
    return ended_jobs | dict(state.ended_jobs)


def with_todos(state: SessionState, todo_state: TodoState) -> SessionState:
    """Return the state with the todo list and notes that result from the model's calls."""
    return replace(
        state,
        todos=state.todos if todo_state.todos is None else todo_state.todos,
        notes=state.notes if todo_state.notes is None else todo_state.notes,
    )


def resume_note(event: Resumed) -> str:
    """Format a note for the model about what changed while the session was closed. Empty if nothing changed."""
    lines = [
        *_named_files_line(
            "changed on disk since you saw them, read them again before you rely on them", event.changed
        ),
        *_named_files_line("no longer there", event.gone),
    ]
    return "\n".join(["[This session was closed and is now open again.", *lines]) + "]" if lines else ""


def resume_notices(event: Resumed) -> tuple[str, ...]:
    """Format lines for the user about what changed while the session was closed. Empty if nothing changed."""
    parts = [
        f"{count} {singular if count == 1 else plural}"
        for count, singular, plural in (
            (len(event.changed), "file changed on disk", "files changed on disk"),
            (len(event.gone), "file is gone", "files are gone"),
            (len(event.jobs), "background job ended", "background jobs ended"),
        )
        if count
    ]
    previous_mode = event.mode_before
    mode_text = f"this session was in `{previous_mode}` mode; your settings use `{event.mode}`"
    mode_notices = (f"{mode_text}: `/mode {previous_mode}` switches back",) if previous_mode else ()
    return (*event.problems, *mode_notices, *([f"{', '.join(parts)} since you left"] if parts else []))


def display_paths(paths: tuple[Path, ...], root: Path) -> tuple[str, ...]:
    return tuple(display_path(path, root) for path in paths)


def _named_files_line(description: str, names: tuple[str, ...]) -> list[str]:
    return [f"- {description}: {join_limited([f'`{name}`' for name in names], MAX_NAMED_FILES)}"] if names else []
