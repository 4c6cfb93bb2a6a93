"""Git worktrees, one for each task of a batch. When a task has ended, its changes are committed to its own branch and
returned as a diff."""

import re
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebbtide.agent.checkpoints.project import checkpoint_folder
from ebbtide.agent.errors import UsageError
from ebbtide.agent.integrations.batch.tasks import BatchTask
from ebbtide.tools.process.git import GitError
from ebbtide.tools.process.git_worktrees import (
    Worktree,
    branch_base,
    commit_all,
    diff_between,
    enter_worktree,
    remove_worktree,
)

MAX_DIFF_CHARS = 1_000_000
"""Maximum length of a diff in a result, in characters; the branch always contains all changes."""


@dataclass(frozen=True, slots=True)
class BatchWorktrees:
    """The worktrees of one batch. The methods block, so they are called in threads; a lock serialises Git commands that
    change shared state."""

    folder: Path
    """The folder that contains the worktrees."""
    data_folder: Path
    """The data folder, which contains the checkpoints."""
    _git_lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, task: BatchTask, session_id: str, root: Path) -> Worktree:
        """Create the worktree of a task, or reuse the existing one of its session. Raises `UsageError`."""
        with self._git_lock:
            try:
                return enter_worktree(root.resolve(), _worktree_name(task, session_id), self.folder)
            except GitError as error:
                raise UsageError(f"cannot create a worktree for the task: {error}") from error

    def commit_changes(self, task: BatchTask, worktree: Worktree) -> Mapping[str, Any]:
        """Commit the changes, and return these fields of the result: `branch` and `commit` (both null if nothing
        changed), `base`, and `diff` (null if it is too large). Raises `GitError`."""
        title = task.prompt.strip().splitlines()[0][:72]
        commit, base = commit_all(worktree, f"{title}\n\nTask {task.id} of a batch."), branch_base(worktree)
        if commit == base:
            return {"branch": None, "base": base, "commit": None, "diff": ""}
        diff = diff_between(worktree, base, commit)
        limited_diff = diff if len(diff) <= MAX_DIFF_CHARS else None
        return {"branch": worktree.branch or None, "base": base, "commit": commit, "diff": limited_diff}

    def remove(self, worktree: Worktree, result: Mapping[str, Any]) -> None:
        """Remove the worktree after its result was written. If nothing changed, remove the branch as well. Raises
        `GitError`."""
        with self._git_lock:
            remove_worktree(worktree, delete_branch=result["commit"] is None)
        shutil.rmtree(checkpoint_folder(self.data_folder, worktree.path), ignore_errors=True)  # its checkpoints

    def leftover_tasks(self, tasks: Iterable[tuple[BatchTask, str]]) -> Sequence[tuple[BatchTask, str]]:
        """Find the finished tasks whose worktrees a killed run left behind. Each comes with its session."""
        existing_names = {path.name for path in self.folder.glob("*/*")}
        return [(task, session) for task, session in tasks if _worktree_name(task, session) in existing_names]


def _worktree_name(task: BatchTask, session_id: str) -> str:
    return f"{_branch_name_part(task.id)}-{session_id[:6]}"


def _branch_name_part(text: str) -> str:
    """Convert text to a valid part of a branch name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:50].rstrip("-") or "task"
