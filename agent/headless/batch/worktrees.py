"""A git work tree for each task of a batch: entered before the task, and afterwards its changes as a commit on a branch
of its own and as a diff."""

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.errors import UsageError
from agent.headless.batch.tasks import BatchTask
from tools.process.git import GitError
from tools.process.git_worktrees import (
    Worktree,
    base_of,
    commit_all,
    diff_between,
    enter_worktree,
    remove_worktree,
)

LARGEST_DIFF = 1_000_000
"""Characters of a diff that stands in a result; the branch has all of it."""


@dataclass(frozen=True, slots=True)
class BatchWorktrees:
    """Those of one batch. Its methods take a while and are called in threads; one at a time asks git to change what
    work trees share."""

    places: Path
    """The folder for work trees."""
    _alone: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, task: BatchTask, session: str, root: Path) -> Worktree:
        """The work tree of a task that is to be done in a folder: the one that its session had, if it had one. Raises
        `UsageError`."""
        with self._alone:
            try:
                return enter_worktree(root.resolve(), f"{_short(task.id)}-{session[:6]}", self.places)
            except GitError as error:
                raise UsageError(f"the task has no work tree: {error}") from error

    def result(self, task: BatchTask, worktree: Worktree) -> Mapping[str, Any]:
        """What has changed: `branch` and `commit` (null where nothing has), `base`, `diff` (null where it is too
        large). Raises `GitError`."""
        title = task.prompt.strip().splitlines()[0][:72]
        commit, base = commit_all(worktree, f"{title}\n\nTask {task.id} of a batch."), base_of(worktree)
        if commit == base:
            return {"branch": None, "base": base, "commit": None, "diff": ""}
        diff = diff_between(worktree, base, commit)
        kept = diff if len(diff) <= LARGEST_DIFF else None
        return {"branch": worktree.branch or None, "base": base, "commit": commit, "diff": kept}

    def leave(self, worktree: Worktree, result: Mapping[str, Any]) -> None:
        """Takes the folder away, once the result is on the disk; the branch, too, where nothing has changed. Raises
        `GitError`."""
        with self._alone:
            remove_worktree(worktree, branch=result["commit"] is None)


def _short(text: str) -> str:
    """What of the text can stand in the name of a branch."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:50].rstrip("-") or "task"
