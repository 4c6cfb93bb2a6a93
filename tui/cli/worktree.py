"""`ebb -w NAME`: works in a git worktree of the repository."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from ebbtide.agent.config.load import find_folders
from ebbtide.agent.errors import UsageError
from ebbtide.tools.process.git import GitError
from ebbtide.tools.process.git_worktrees import Worktree, enter_worktree, merge_instructions, worktree_state
from ebbtide.tui.text.sanitise import sanitise_line


def run_in_worktree(options: argparse.Namespace, run_interface: Callable[[argparse.Namespace], int]) -> int:
    """Run a front end in the named worktree, then print how to merge the work; return the exit code. Raises
    `UsageError`."""
    stream = sys.stdout if options.prompt is None else sys.stderr
    worktree = _enter(options, find_folders(os.environ).worktrees)
    worktree_text = f"new worktree, from {worktree.repository.head[:9]}" if worktree.is_new else "worktree"
    branch = f"on branch {worktree.branch}" if worktree.branch else "no branch checked out"
    print(f"ebb: {worktree_text}, {branch}: {sanitise_line(str(worktree.folder))}", file=sys.stderr)
    options.cd = str(worktree.folder)
    try:
        return run_interface(options)
    finally:
        try:
            lines = merge_instructions(worktree, worktree_state(worktree))
        except GitError as error:
            lines = (f"cannot inspect `{worktree.path}`: {error}",)
        for line in lines:
            print(f"ebb: {sanitise_line(line)}", file=stream)


def _enter(options: argparse.Namespace, worktrees_folder: Path) -> Worktree:
    root = Path(options.cd).expanduser()
    if not root.is_dir():
        raise UsageError(f"no such folder: `{options.cd}`; use an existing one with -C")
    try:
        return enter_worktree(root.resolve(), options.worktree, worktrees_folder)
    except GitError as error:
        raise UsageError(f"cannot use the worktree `{options.worktree}`: {error}") from error
