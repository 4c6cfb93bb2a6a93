"""A Git worktree for each task of a batch. Afterwards the task's changes are a commit on its own branch, and a diff."""

import re
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebbtide.agent.checkpoints.project import folder_for
from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.batch.tasks import BatchTask
from ebbtide.tools.process.git import GitError
from ebbtide.tools.process.git_worktrees import (
    Worktree,
    base_of,
    commit_all,
    diff_between,
    enter_worktree,
    remove_worktree,
)

MAX_DIFF_CHARS = 1_000_000
"""Maximum length of a diff in a result, in characters; the branch always has all changes."""


@dataclass(frozen=True, slots=True)
class BatchWorktrees:
    """The worktrees of one batch. The methods block and run in threads; a lock serialises Git commands that change
    shared state."""

    places: Path
    """The folder that contains the worktrees."""
    data: Path
    """The data folder, which contains the checkpoints."""
    _alone: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, task: BatchTask, session: str, root: Path) -> Worktree:
        """Create the worktree of a task, or reuse the one that its session had. Raises `UsageError`."""
        with self._alone:
            try:
                return enter_worktree(root.resolve(), _name(task, session), self.places)
            except GitError as error:
                raise UsageError(f"cannot create a worktree for the task: {error}") from error

    def result(self, task: BatchTask, worktree: Worktree) -> Mapping[str, Any]:
        """Commit the changes and return `branch` and `commit` (null if nothing changed), `base`, and `diff` (null if
        too large). Raises `GitError`."""
        title = task.prompt.strip().splitlines()[0][:72]
        commit, base = commit_all(worktree, f"{title}\n\nTask {task.id} of a batch."), base_of(worktree)
        if commit == base:
            return {"branch": None, "base": base, "commit": None, "diff": ""}
        diff = diff_between(worktree, base, commit)
        kept = diff if len(diff) <= MAX_DIFF_CHARS else None
        return {"branch": worktree.branch or None, "base": base, "commit": commit, "diff": kept}

    def remove(self, worktree: Worktree, result: Mapping[str, Any]) -> None:
        """Remove the worktree after the result was written, and the branch if nothing changed. Raises `GitError`."""
        with self._alone:
            remove_worktree(worktree, branch=result["commit"] is None)
        shutil.rmtree(folder_for(self.data, worktree.place), ignore_errors=True)  # nothing can be undone there

    def leftover_tasks(self, tasks: Iterable[tuple[BatchTask, str]]) -> Sequence[tuple[BatchTask, str]]:
        """Return the finished tasks, with their sessions, whose worktrees still exist because the program was killed
        before removing them."""
        there = {path.name for path in self.places.glob("*/*")}
        return [(task, session) for task, session in tasks if _name(task, session) in there]


def _name(task: BatchTask, session: str) -> str:
    return f"{_short(task.id)}-{session[:6]}"


def _short(text: str) -> str:
    """The part of a text that is valid in a branch name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:50].rstrip("-") or "task"
