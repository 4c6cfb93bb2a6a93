"""Which of Git's settings a command in a real sandbox can change, and what it cannot, however it tries."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from ebbtide.tools.sandbox.boundary import Boundary
from ebbtide.tools.sandbox.git_settings import dangling_remote_problem, refusal_reason
from tests.kit.files import write_files
from tests.kit.git import git
from tests.tools.sandbox.test_sandbox import PYTHON, bash, boxed, fill, home, place, pytestmark

__all__ = ["boxed", "home", "place", "pytestmark"]

FETCHED = "git update-ref refs/remotes/origin/topic HEAD"
NOT_WRITTEN = "was not written: commands set only"


@pytest.fixture
def repo(boxed: Workspace) -> Path:
    """With a remote, a branch that follows it, and a fetched one."""
    root = boxed.root
    git(root, "commit", "--allow-empty", "-m", "first")
    git(root, "remote", "add", "origin", "https://example.org/a.git")
    git(root, "config", "branch.main.remote", "origin")
    git(root, "config", "branch.main.merge", "refs/heads/main")
    git(root, "config", "branch.main.vscode-merge-base", "origin/main")
    for name in ("main", "topic"):
        git(root, "update-ref", f"refs/remotes/origin/{name}", "HEAD")
    return root


def settings(root: Path) -> dict[str, str]:
    """Those that are not of the repository itself."""
    listed = subprocess.check_output(("git", "config", "--local", "--list", "--null"), cwd=root, text=True)
    pairs = (line.split("\n", 1) for line in listed.split("\0") if line and not line.startswith("core."))
    return {key: value for key, value in pairs}


FETCH = "+refs/heads/*:refs/remotes/{}/*"
ORIGIN = {"remote.origin.url": "https://example.org/a.git", "remote.origin.fetch": FETCH.format("origin")}
MAIN = {
    "branch.main.remote": "origin",
    "branch.main.merge": "refs/heads/main",
    "branch.main.vscode-merge-base": "origin/main",
}
BASE = ORIGIN | MAIN


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("git checkout -b x origin/topic", {"branch.x.remote": "origin", "branch.x.merge": "refs/heads/topic"}),
        ("git switch topic", {"branch.topic.remote": "origin", "branch.topic.merge": "refs/heads/topic"}),
        ("git branch -u origin/topic | cat", {"branch.main.merge": "refs/heads/topic"}),
        ("git branch -c main copy", {key.replace("main.", "copy.", 1): value for key, value in MAIN.items()}),
        ("cd /; git -C $OLDPWD config user.name 'A B'", {"user.name": "A B"}),
        ("git config user.email a@b && git config user.email", {"user.email": "a@b"}),
        ("git config branch.main.rebase true", {"branch.main.rebase": "true"}),
        ("GIT_EDITOR='echo a long tale >' git branch --edit-description", {"branch.main.description": "a long tale\n"}),
        ("git remote set-url origin git@example.org:b.git", {"remote.origin.url": "git@example.org:b.git"}),
        ("git remote add up /srv/up.git", {"remote.up.url": "/srv/up.git", "remote.up.fetch": FETCH.format("up")}),
        ("git config submodule.a.b.active false", {"submodule.a.b.active": "false"}),
        ("git config core.bare false", {}),
    ],
)  # fmt: skip
async def test_harmless_settings_are_written(
    command: str, wanted: dict[str, str], boxed: Workspace, repo: Path
) -> None:
    config = repo / ".git" / "config"
    file = config.stat().st_ino
    result = await bash(boxed, command)
    assert (result.has_failed, result.sandbox_block, settings(repo)) == (False, "", BASE | wanted)
    assert config.stat().st_ino == file, "what is mounted in other sandboxes is another file now"
    assert not (repo / ".git" / "config.lock").exists()


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("git branch -m main new", ORIGIN | {key.replace("main.", "new.", 1): value for key, value in MAIN.items()}),
        ("git checkout -q -b other && git branch -D main", ORIGIN),
        ("git remote rm origin", {"branch.main.vscode-merge-base": "origin/main"}),
        (
            "git remote rename origin up",
            {key.replace("origin", "up"): value.replace("origin", "up") for key, value in ORIGIN.items()}
            | MAIN
            | {"branch.main.remote": "up"},
        ),
    ],
)
async def test_what_is_renamed_or_removed_takes_its_settings_along(
    command: str, wanted: dict[str, str], boxed: Workspace, repo: Path
) -> None:
    result = await bash(boxed, command)
    assert (result.has_failed, result.sandbox_block, settings(repo)) == (False, "", wanted)


ADDS = "git remote add up ../up.git; git remote add in ./in.git; git remote"


async def test_relative_addresses_are_written_as_whole_paths(boxed: Workspace, repo: Path) -> None:
    result = await bash(boxed, ADDS)
    up = {"remote.up.url": str(repo.parent / "up.git"), "remote.up.fetch": FETCH.format("up")}
    assert result.sandbox_block == (
        "Git's setting `remote.in.url` was not written: it leads to a writable folder, whose hooks could run"
    )
    assert settings(repo) == BASE | up


async def test_linked_work_trees_see_no_other_relative_address_than_before(boxed: Workspace, repo: Path) -> None:
    git(repo, "worktree", "add", "linked")
    refused = await bash(boxed, ADDS)
    assert ("use an absolute path for a folder" in refused.sandbox_block, settings(repo)) == (True, BASE)
    git(repo, "remote", "add", "mine", "../mine.git")
    result = await bash(boxed, "git remote add same ../mine.git && git config remote.same.url")
    assert (result.text, result.sandbox_block) == ("../mine.git\nexit code 0", "")


async def test_submodules_are_added_and_brought_up_to_date(boxed: Workspace, repo: Path) -> None:
    library = repo.parent / "library"
    library.mkdir()
    git(library, "init")
    git(library, "commit", "--allow-empty", "-m", "first")
    file = "GIT_ALLOW_PROTOCOL=file"
    result = await bash(
        boxed, f"{file} git submodule add {library} libs/part && {file} git submodule update --init && echo ok"
    )
    assert (result.text.split("\n")[-3], result.sandbox_block) == ("ok", "")
    assert settings(repo) == BASE | {"submodule.libs/part.url": str(library), "submodule.libs/part.active": "true"}


@pytest.mark.parametrize("after", ["", " 2> /dev/null | cat", " || true"])
@pytest.mark.parametrize(
    "key", ["core.fsmonitor", "CORE.hooksPath", "include.path", "includeIf.gitdir:x.path", "alias.st",
            "remote.origin.vcs", "remote.origin.uploadpack", "submodule.x.update",
     "diff.external", "filter.x.clean", "url.ext::x.insteadOf",
            "core.sshCommand", "credential.helper"]
)  # fmt: skip
async def test_others_are_refused_and_that_is_said_whatever_the_exit_code(
    key: str, after: str, boxed: Workspace, repo: Path
) -> None:
    result = await bash(boxed, f"git config {key} ./x{after}")
    assert (NOT_WRITTEN in result.sandbox_block, NOT_WRITTEN in result.text, settings(repo)) == (True, True, BASE)
    assert result.has_failed == (not after)


HOSTILE = """
import os, subprocess
def attempt(content, name=".git/config.lock"):
    try:
        with open(name, "wb") as file: file.write(content)
        os.rename(name, ".git/config")
        print("done")
    except OSError as error:
        print(error.strerror)
old = open(".git/config", "rb").read()
attempt(old + b"[core]\\n\\tfsmonitor = touch RAN\\n")
attempt(old + b'[user] name = a\\\\\\n\\n[core] fsmonitor = touch RAN\\n')
attempt(old + b'[branch "x"] merge = a\\n[include]\\r\\npath = evil\\r\\n')
attempt(old + b'\\0[core]\\n\\tfsmonitor = x\\n')
attempt(old + b'[remote "o"]\\n\\turl = "-u./x"\\n')
attempt(old + b'[remote "o"]\\n\\turl = Ext::x\\n')
attempt(old + b'[branch "main"]\\n\\tremote = evil\\n')
attempt(old + b'[core')
attempt(b"")
attempt(old.replace(b"[branch", b"[user]\\n\\temail = a@b\\n# [core]\\n#\\x01fsmonitor\\n[branch", 1))
attempt(open(".git/config", "rb").read() + b"[user]\\n\\tname = a\\n", ".git/other")
os.symlink("../secret", ".git/config.lock")
try: os.rename(".git/config.lock", ".git/config")
except OSError as error: print(error.strerror)
os.unlink(".git/config.lock")
os.mkfifo(".git/config.lock")
try: os.rename(".git/config.lock", ".git/config")
except OSError as error: print(error.strerror)
"""


async def test_no_way_of_writing_them_gets_a_program_run(boxed: Workspace, repo: Path) -> None:
    write_files(repo, {"secret": "[user]\n\tname = linked\n", "hostile.py": HOSTILE})
    result = await bash(boxed, f"{PYTHON} hostile.py # git")
    refused = "Operation not permitted"
    assert result.text.split("\n")[:13] == [*[refused] * 9, "done", "Device or resource busy", refused, refused]
    assert settings(repo) == BASE | {"user.email": "a@b"}
    assert b"fsmonitor" not in (repo / ".git" / "config").read_bytes()


async def test_commands_at_the_same_time_lose_no_setting_of_each_other(boxed: Workspace, repo: Path) -> None:
    line = "for i in 1 2 3 4 5; do until git config branch.NAME$i.merge refs/heads/x 2> /dev/null; do :; done; done"
    await asyncio.gather(*(bash(boxed, line.replace("NAME", name)) for name in "abc"))
    assert settings(repo) == BASE | {f"branch.{name}{i}.merge": "refs/heads/x" for name in "abc" for i in range(1, 6)}


async def test_those_of_a_submodule_are_held_in_the_same_way(boxed: Workspace) -> None:
    fill(boxed.root)
    part = boxed.root / "libs" / "part"
    before = settings(part)
    result = await bash(
        boxed, "cd libs/part && git config core.pager x; git config user.name a && git config user.name"
    )
    assert ("`core.pager`" in result.sandbox_block, settings(part)) == (True, before | {"user.name": "a"})


BOUNDARY = Boundary({"/project": "write", "/project/.git/config": "read"}, "/scratch", "none")


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("remote.o.url", "https://example.org/a b", ""),
        ("remote.o.url", "ssh://git@example.org:22/~a/b", ""),
        ("remote.o.url", "file:///srv/a.git", ""),
        ("remote.o.url", "/srv/a.git", ""),
        ("remote.o.url", "-oProxyCommand=x", "its value begins like an option"),
        ("remote.o.url", "ssh://-oProxyCommand=x/y", "its value contains an option for another program"),
        ("remote.o.url", "host:-x", "its value contains an option for another program"),
        ("remote.o.url", "fd::3", "its value names a program"),
        ("remote.o.url", "evil://x", "its value names a program"),
        ("remote.o.url", "/project/bare.git", "it leads to a writable folder, whose hooks could run"),
        ("remote.o.url", "file:///project/%62are", "it leads to a writable folder, whose hooks could run"),
        ("remote.o.url", "/srv/../project/bare", "it leads to a writable folder, whose hooks could run"),
        ("remote.o.url", "../bare", "use an absolute path for a folder, or the configured name of a remote"),
        ("remote.o.url", "../known", ""),
        ("remote.o.url", "https://example.org/\nx", "its value contains control characters"),
        ("branch.b.remote", ".", ""),
        ("branch.b.remote", "known", ""),
        ("branch.b.remote", "bare", "use an absolute path for a folder, or the configured name of a remote"),
        ("branch.b.remote", "/project/bare", "it leads to a writable folder, whose hooks could run"),
        ("branch.b.rebase", "merges", ""),
        ("branch.b.rebase", "$(x)", "its value is not allowed"),
        ("submodule.s.active", "TRUE", ""),
        ("submodule.s.url", "ext::sh -c x", "its value names a program"),
        ("remote.o.fetch", "+refs/heads/*:refs/remotes/o/*", ""),
        ("remote.o.fetch", "--upload-pack=x", "its value begins like an option"),
    ],
)  # fmt: skip
def test_which_values_are_harmless(key: str, value: str, why: str) -> None:
    known = {"remote.known.url": ["https://example.org"], "remote.near.url": ["../known"]}
    message = f"Git's setting `{key}` was not written: {why}" if why else ""
    assert refusal_reason(key, known, known | {key: [value]}, BOUNDARY) == message


def test_a_remote_that_branches_follow_is_not_taken_away_under_them() -> None:
    before = {"remote.evil.url": ["https://example.org"], "branch.main.remote": ["evil"]}
    message = "the remote `evil` was not removed: Git's setting `branch.main.remote` names it"
    assert dangling_remote_problem(before, {"branch.main.remote": ["evil"]}) == message
    assert dangling_remote_problem(before, {}) == ""


async def test_a_file_that_may_not_be_written_is_told_of_where_the_line_ended_well(
    boxed: Workspace, repo: Path
) -> None:
    hook = repo / ".git" / "hooks" / "pre-commit"
    result = await bash(boxed, f"echo x > {hook} || true")
    assert (result.has_failed, result.sandbox_block) == (False, f"it may not write `{hook}`")
    assert (await bash(boxed, "echo 'a: Read-only file system'")).sandbox_block == ""
