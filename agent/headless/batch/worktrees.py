"""A git work tree for each task of a batch: entered before the task, and afterwards its changes as a commit on a branch
of its own and as a diff."""

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
"""Characters of a diff that stands in a result; the branch has all of it."""


@dataclass(frozen=True, slots=True)
class BatchWorktrees:
    """Those of one batch. Its methods take a while and are called in threads; one at a time asks git to change what
    work trees share."""

    places: Path
    """The folder for work trees."""
    data: Path
    """The folder of the program's data, with what was kept of files that are changed."""
    _alone: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, task: BatchTask, session: str, root: Path) -> Worktree:
        """The work tree of a task that is to be done in a folder: the one that its session had, if it had one. Raises
        `UsageError`."""
        with self._alone:
            try:
                return enter_worktree(root.resolve(), _name(task, session), self.places)
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
        kept = diff if len(diff) <= MAX_DIFF_CHARS else None
        return {"branch": worktree.branch or None, "base": base, "commit": commit, "diff": kept}

    def remove(self, worktree: Worktree, result: Mapping[str, Any]) -> None:
        """Takes the folder away, once the result is on the disk; the branch, too, where nothing has changed. Raises
        `GitError`."""
        with self._alone:
            remove_worktree(worktree, branch=result["commit"] is None)
        shutil.rmtree(folder_for(self.data, worktree.place), ignore_errors=True)  # nothing can be taken back there

    def leftover_tasks(self, tasks: Iterable[tuple[BatchTask, str]]) -> Sequence[tuple[BatchTask, str]]:
        """Those of tasks that are done, with their sessions, whose work trees are still there: the program was killed
        before it took them away."""
        there = {path.name for path in self.places.glob("*/*")}
        return [(task, session) for task, session in tasks if _name(task, session) in there]


def _name(task: BatchTask, session: str) -> str:
    return f"{_short(task.id)}-{session[:6]}"


def _short(text: str) -> str:
    """What of the text can stand in the name of a branch."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:50].rstrip("-") or "task"
