"""`git diff` shows what it shows in a shell of the user, whatever a repository names as its diff program."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from tests.kit.files import write_files
from tests.kit.git import git
from tests.tools.sandbox.test_sandbox import bash, boxed, home, place, pytestmark

__all__ = ["boxed", "home", "place", "pytestmark"]

FORMS = (
    "git diff", "git diff HEAD", "git diff --cached", "git diff --stat HEAD", "git diff --name-status HEAD",
    "git diff -M HEAD",    "git diff HEAD -- text 'with blank'", "git diff --exit-code; echo rc=$?",
    "git diff > p.patch; cat p.patch; rm p.patch",
    "git diff | git apply --stat", "git stash show -p", "git diff-files -p", "git diff-index -p HEAD",
)  # fmt: skip


@pytest.fixture(params=["sandbox", "none"])
def workspace(boxed: Workspace, request: pytest.FixtureRequest) -> Workspace:
    """A repository with changes of every kind."""
    root = boxed.root
    (root / "text").write_text("a\nb\nc\n")
    (root / "with blank").write_text("a\n")
    (root / "old").write_text("".join(f"{number}\n" for number in range(20)))
    (root / "deleted").write_text("gone\n")
    (root / "binary").write_bytes(b"a\0b")
    (root / "program").write_text("#!/bin/sh\n")
    git(root, "add", ".")
    git(root, "commit", "-m", "first")
    (root / "text").write_text("stashed\n")
    git(root, "stash")
    write_files(root, {"text": "a\nB\nc", "with blank": "b\n"})
    git(root, "mv", "old", "new")
    git(root, "rm", "deleted")
    (root / "binary").write_bytes(b"a\0c")
    (root / "program").chmod(0o755)
    (root / "added").write_text("new\n")
    git(root, "add", "added")
    return boxed if request.param == "sandbox" else replace(boxed, sandbox=None)


def in_a_shell(command: str, folder: Path) -> str:
    ran = subprocess.run(
        ("bash", "-c", command), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    printed = ran.stdout.decode().removesuffix("\n") or "no output"
    return f"{printed}\nexit code {ran.returncode}"


@pytest.mark.parametrize("command", FORMS)
async def test_it_shows_what_it_shows_in_a_shell(command: str, workspace: Workspace) -> None:
    assert (await bash(workspace, command)).text == in_a_shell(command, workspace.root)


async def test_a_diff_program_of_the_user_s_own_is_used(workspace: Workspace) -> None:
    config = Path(os.environ["HOME"]) / ".gitconfig"
    config.write_text(f"{config.read_text()}[diff]\n\texternal = echo mine\n")
    assert (await bash(workspace, "git diff text")).text.startswith("mine text /")


@pytest.mark.parametrize("named_in", ["config", "an included file", "a work tree's settings"])
@pytest.mark.parametrize("command", ["git diff HEAD", "git diff -M HEAD", "git diff --cached | git apply --stat"])
async def test_one_of_the_repository_is_not_run(command: str, named_in: str, workspace: Workspace) -> None:
    root = workspace.root
    printed = in_a_shell(command, root)
    file = {"config": "config", "an included file": "more", "a work tree's settings": "config.worktree"}[named_in]
    if file == "more":
        git(root, "config", "include.path", "more")
    if file == "config.worktree":
        git(root, "config", "extensions.worktreeConfig", "true")
    with (root / ".git" / file).open("a") as settings:
        settings.write("[DIFF]\n\tExternal = touch RAN; echo theirs\n")
    assert (await bash(workspace, command)).text == printed
    assert not (root / "RAN").exists()
