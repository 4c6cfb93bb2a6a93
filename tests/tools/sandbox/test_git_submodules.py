"""Submodules go with `git rm` in a real sandbox, and no other repository comes in their place."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from tests.kit.polling import soon
from tests.tools.sandbox.test_git_work_trees import is_there
from tests.tools.sandbox.test_sandbox import bash, boxed, fill, home, place, pytestmark

__all__ = ["boxed", "home", "place", "pytestmark"]


@pytest.fixture
def part(boxed: Workspace) -> Path:
    fill(boxed.root)
    return boxed.root / "libs" / "part"


@pytest.mark.parametrize(
    "command",
    [
        "git rm -f libs/part",
        "git rm -q 'libs/part' 2>&1",
        "git rm -q a.txt && git rm -rf libs/part;",
        'git rm -q libs/part && git commit -qm "remove part"',
        "git rm libs/part; git commit -m 'remove part'",
    ],
)
async def test_a_submodule_is_removed(command: str, boxed: Workspace, part: Path) -> None:
    result = await bash(boxed, command)
    assert (result.has_failed, result.sandbox_block) == (False, ""), result.text
    config = boxed.root / ".git" / "modules" / "part" / "config"
    assert [is_there(path) for path in (part, config)] == [False, True]


REFUSED = "the submodule `{}` can be removed only by a command that runs nothing but `git rm`: run that first"
DEINIT = "`git submodule deinit` cannot change `core.worktree`: `git rm` removes a submodule"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("git rm -q libs/part && make", REFUSED.format("libs/part")),
        ("git commit -qm x; git rm -r libs", REFUSED.format("libs")),
        ("git rm libs/part && git commit -am x", REFUSED.format("libs/part")),
        ("git rm libs/part && git commit -m x --trailer a=b", REFUSED.format("libs/part")),
        ("cd libs && git submodule deinit -f part || true", DEINIT),
        ("git submodule deinit --all && git rm libs/part", DEINIT),
    ],
)
async def test_what_would_stop_halfway_is_not_begun(command: str, why: str, boxed: Workspace, part: Path) -> None:
    """Git would take the settings and leave the work tree, or the other way round."""
    settings = (boxed.root / ".git" / "config").read_text()
    result = await bash(boxed, command)
    assert (result.has_failed, result.sandbox_block) == (True, why)
    assert result.text == f"nothing was run: in the sandbox {why}"
    assert ((part / "a.txt").exists(), (boxed.root / ".git" / "config").read_text()) == (True, settings)


async def test_a_commit_that_runs_hooks_is_made_by_a_line_of_its_own(boxed: Workspace, part: Path) -> None:
    """While hooks of the project run, nothing keeps another repository from the place of the submodule."""
    (boxed.root / "my-hooks" / "pre-commit").chmod(0o755)
    result = await bash(boxed, "git rm -q libs/part && git commit -qm x")
    assert result.sandbox_block == REFUSED.format("libs/part")
    await bash(boxed, "git rm -q libs/part")
    assert (await bash(boxed, "git commit -qm x && git status -s -uno")).text == "no output\nexit code 0"


@pytest.mark.parametrize(
    "command", ["git rm --cached -q libs/part; echo x", "git rm -q a.txt; echo x", "echo git submodule deinit x"]
)
async def test_other_lines_run_as_they_are(command: str, boxed: Workspace, part: Path) -> None:
    result = await bash(boxed, command)
    assert (result.has_failed, result.sandbox_block) == (False, "")


async def test_that_the_folder_of_a_submodule_stays_is_reported(boxed: Workspace, part: Path) -> None:
    """`git checkout` of a branch without it warns, and exits with 0."""
    result = await bash(boxed, "rmdir libs/part || true")
    assert (result.has_failed, result.sandbox_block) == (
        False,
        f"it may not remove or rename `{part}`, which contains protected files",
    )


HOSTILE = """#!/bin/sh
rm libs/part/.git; mkdir libs/part/.git; echo x > libs/part/.git/config
(sleep 600; mkdir -p libs/part/.git) > /dev/null 2>&1 < /dev/null &
"""


def working_in(folder: Path) -> list[str]:
    """The processes that run in a folder."""
    found = list[str]()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if os.readlink(f"/proc/{name}/cwd") == str(folder):
                found.append(name)
    return found


async def test_no_other_repository_comes_in_its_place(
    boxed: Workspace, part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = boxed.root / "bin" / "git"
    program.parent.mkdir()
    program.write_text(HOSTILE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    result = await bash(boxed, "git rm -f libs/part")
    assert result.sandbox_block == f"`{part}/.git` may not be created, and was removed"
    await soon(lambda: not working_in(boxed.root))
    assert not is_there(part / ".git")


@pytest.mark.parametrize(
    "command", ["rm -f libs/part/.git; git rm x", "git rm x; rm -rf libs/part", "git rm $(rm -f libs/part/.git)",
                "git rm `rm libs/part/.git`", "git rm x & rm -f libs/part/.git", "git rm x\nrm -f libs/part/.git"],
)  # fmt: skip
async def test_a_line_that_does_more_opens_none(command: str, boxed: Workspace, part: Path) -> None:
    await bash(boxed, command)
    assert (part / ".git").is_file()
