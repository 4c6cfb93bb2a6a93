"""Git in a real sandbox: what commands leave in repositories runs nothing when the user asks git there."""

import os
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from ebbtide.tools.process.child import run_with_input
from ebbtide.tools.process.shell import Launch
from tests.kit.git import git
from tests.kit.hostile_repository import hostile_repository, ran
from tests.kit.polling import soon
from tests.tools.sandbox.test_sandbox import bash, boxed, fill, home, place, pytestmark

__all__ = ["boxed", "home", "place", "pytestmark"]

EVIL = "printf '[core]\\nrepositoryformatversion = 0\\nfsmonitor = touch TRACE\\nworktree = WORKTREE\\n' > "
MONITOR = "git config core.fsmonitor 'touch TRACE'"


async def test_git_in_a_hostile_repository_runs_only_what_its_files_are_made_by(boxed: Workspace) -> None:
    hostile_repository(boxed.root)
    result = await bash(boxed, "git status --short; git diff; git log -1 --format=%s; git fetch")
    assert "first" in result.text
    assert ran(boxed.root) & {"monitor", "external", "fetch", "pager", "alias"} == set()


async def test_settings_of_another_folder_are_taken_away_again(boxed: Workspace) -> None:
    missing = boxed.root / ".git" / "commondir"
    result = await bash(boxed, "mkdir evil; echo ../evil > .git/commondir")
    assert result.sandbox_block == f"`{missing}` may not be created, and was removed"
    await bash(boxed, "true; (sleep 0.1; mkdir .git/commondir) &")
    await soon(missing.exists)
    await bash(boxed, "true")
    assert not missing.exists()


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        (f"cd inner && {MONITOR}", "inner"),
        (f"mv inner/.git inner/old; cd inner && git init -q && {MONITOR}", "inner"),
        (f"mv inner old; git init -q inner && cd inner && {MONITOR}", "inner"),
        (f"cd linked && rm .git; git init -q && {MONITOR}", "linked"),
        (f"cd .git/modules/part && mkdir x && cp -r HEAD refs objects x; {EVIL} x/config; echo x > commondir", "."),
        (f"mkdir objects refs; cp .git/HEAD .; mv .git/HEAD .git/no && {EVIL} config", "."),
    ],
)
async def test_no_repository_that_was_there_is_given_other_settings(
    command: str, folder: str, boxed: Workspace, place: Path
) -> None:
    fill(boxed.root)
    git(boxed.root, "init", "inner")
    git(boxed.root, "worktree", "add", "linked")
    trace = place / "trace"
    worktree = boxed.root / "libs" / "part" if "modules" in command else boxed.root
    await bash(boxed, command.replace("TRACE", str(trace)).replace("WORKTREE", str(worktree)))
    await run_with_input(Launch(("git", "status"), os.environ), b"", boxed.root / folder, 30, 1000)
    assert not trace.exists()


@pytest.mark.parametrize(
    "closed",
    ["mkdir -p .git/commondir/x; chmod 0 .git/commondir", "echo ../evil > .git/commondir; chmod 555 .git; false"],
)
async def test_it_is_taken_away_out_of_folders_that_the_command_has_closed(closed: str, boxed: Workspace) -> None:
    result = await bash(boxed, closed)
    missing = boxed.root / ".git" / "commondir"
    assert result.sandbox_block == f"`{missing}` may not be created, and was removed"
    mode = (boxed.root / ".git").stat().st_mode & 0o777
    assert (missing.exists(), mode) == (False, 0o555 if "555" in closed else mode)
