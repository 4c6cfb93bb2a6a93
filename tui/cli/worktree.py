"""`ebb -w NAME`: work in a git worktree of the repository."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from ebbtide.agent.config.load import find_folders
from ebbtide.agent.errors import UsageError
from ebbtide.tools.process.git import GitError
from ebbtide.tools.process.git_worktrees import Worktree, enter_worktree, how_to_bring_back, state_of
from ebbtide.tui.text.sanitise import sanitised_line


def run_in_worktree(options: argparse.Namespace, front: Callable[[argparse.Namespace], int]) -> int:
    """Run a front end in the named worktree and print how to merge the work; return the exit code. Raises
    `UsageError`."""
    out = sys.stdout if options.prompt is None else sys.stderr
    worktree = _enter(options, find_folders(os.environ).worktrees)
    begins = f"a new work tree, from {worktree.repository.head[:9]}" if worktree.is_new else "a work tree"
    branch = f"on branch {worktree.branch}" if worktree.branch else "on no branch"
    print(f"ebb: {begins}, {branch}: {sanitised_line(str(worktree.folder))}", file=sys.stderr)
    options.cd = str(worktree.folder)
    try:
        return front(options)
    finally:
        try:
            lines = how_to_bring_back(worktree, state_of(worktree))
        except GitError as error:
            lines = (f"what is in `{worktree.place}` is not known: {error}",)
        for line in lines:
            print(f"ebb: {sanitised_line(line)}", file=out)


def _enter(options: argparse.Namespace, places: Path) -> Worktree:
    root = Path(options.cd).expanduser()
    if not root.is_dir():
        raise UsageError(f"there is no folder `{options.cd}`; give one that exists with -C")
    try:
        return enter_worktree(root.resolve(), options.worktree, places)
    except GitError as error:
        raise UsageError(f"there is no work tree `{options.worktree}` to work in: {error}") from error
