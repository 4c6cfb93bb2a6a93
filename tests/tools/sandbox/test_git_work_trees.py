"""Linked work trees go with `git worktree remove` in a real sandbox, and nothing else comes in their place."""

import os
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from tests.kit.git import git
from tests.tools.sandbox.test_sandbox import bash, boxed, home, place, pytestmark

__all__ = ["boxed", "home", "place", "pytestmark"]


@pytest.fixture
def linked(boxed: Workspace) -> Path:
    (boxed.root / "a").write_text("1\n")
    git(boxed.root, "add", ".")
    git(boxed.root, "commit", "-m", "first")
    git(boxed.root, "worktree", "add", ".worktrees/f")
    git(boxed.root, "worktree", "add", ".worktrees/other")
    return boxed.root / ".worktrees" / "f"


def is_there(path: Path) -> bool:
    return os.path.lexists(path)


async def test_a_work_tree_is_removed_moved_and_added_again(boxed: Workspace, linked: Path) -> None:
    lines = (
        "git worktree remove .worktrees/f && git worktree add -q .worktrees/f f",
        'for each in f; do git worktree remove --force ".worktrees/$each"; done',
        "git worktree move .worktrees/other moved",
    )
    for line in lines:
        result = await bash(boxed, line)
        assert (result.has_failed, result.sandbox_block) == (False, ""), result.text
    assert not is_there(linked)
    assert os.listdir(boxed.root / ".git" / "worktrees") == ["other"]
    assert (await bash(boxed, "cd moved && git status --short && git log --format=%s")).text == "first\nexit code 0"


@pytest.mark.parametrize(
    "command",
    [
        "rm .worktrees/f/.git; git init -q .worktrees/f",
        "mkdir evil; echo 'gitdir: ../../evil' > .worktrees/f/.git",
        "mkdir evil; echo ../../../evil > .git/worktrees/f/commondir",
        "rm .worktrees/f/.git; ln -s ../../evil .worktrees/f/.git",
    ],
)
async def test_no_other_repository_is_left_in_its_place(command: str, boxed: Workspace, linked: Path) -> None:
    result = await bash(boxed, f"{command}; echo git worktree remove f")
    assert result.sandbox_block == f"`{linked}/.git` may not be created, and was removed"
    assert not is_there(linked / ".git")


async def test_without_these_words_it_stays_read_only(boxed: Workspace, linked: Path) -> None:
    assert (await bash(boxed, f"echo x >> {linked}/.git")).sandbox_block == f"it may not write `{linked}/.git`"
