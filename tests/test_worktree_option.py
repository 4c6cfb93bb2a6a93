"""`ebb -w NAME` and `ebb batch --worktree`: work in git work trees beside the data."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import Run
from tests.kit.files import write_file, write_program
from tests.kit.session import bash, calls
from tests.kit.user import User

Git = Callable[..., str]


@pytest.fixture
def git(user: User) -> Git:
    """Git in the user's project, which is a repository with a commit."""

    def run(*arguments: str, folder: Path = user.project) -> str:
        who = ("-c", "user.name=n", "-c", "user.email=n@x.example", "-c", "init.defaultBranch=main")
        env = {"HOME": str(user.home), "PATH": "/usr/bin:/bin:/usr/local/bin", "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *who, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout

    run("init", "-q")
    write_file(user.project / "sub" / "a.txt", "one\n")
    run("add", "-A")
    run("commit", "-qm", "first")
    return run


def write(path: str) -> dict[str, Any]:
    return calls({"name": "write", "arguments": {"path": path, "content": "new\n"}})


def place(user: User, name: str) -> Path:
    (found,) = (user.home / "data-worktrees").glob(f"*/{name}")
    return found


def in_worktree(user: User, name: str, *replies: object, flags: tuple[str, ...] = ()) -> Run:
    script = user.script(*replies, {"text": "Done."})
    return user.ebb("-w", name, "-p", "go", "-m", script, "--permission-mode", "auto", *flags)


def test_work_is_done_beside_the_repository_and_it_is_said_how_to_bring_it_back(user: User, git: Git) -> None:
    run = in_worktree(user, "x", write("new.txt"), flags=("-C", str(user.project / "sub")))
    assert (run.code, run.out) == (0, "Done.\n")
    there = place(user, "x")
    assert (there / "sub" / "new.txt").read_text() == "new\n"
    assert git("status", "--porcelain") == ""
    assert run.err.splitlines() == [
        f"ebb: new worktree, from {git('rev-parse', 'HEAD')[:9]}, on branch ebb/x: {there}/sub",
        f"ebb: the work is in `{there}`, branch `ebb/x`: 0 commits, 1 file not committed",
        f"ebb: commit it: `git -C {there} add -A && git -C {there} commit`",
        f"ebb: merge it: `git -C {user.project} merge ebb/x`",
    ]
    git("add", "-A", folder=there)
    git("commit", "-qm", "second", folder=there)
    again = in_worktree(user, "x")
    assert again.err.splitlines()[:2] == [
        f"ebb: worktree, on branch ebb/x: {there}",
        f"ebb: the work is in `{there}`, branch `ebb/x`: 1 commit, 0 files not committed",
    ]
    git("merge", "-q", "ebb/x")
    assert (user.project / "sub" / "new.txt").exists()
    assert "there are no changes in" in in_worktree(user, "x").err


def test_a_branch_whose_folder_is_gone_is_gone_on_with(user: User, git: Git) -> None:
    assert (
        in_worktree(user, "x", calls(bash("git -c user.name=n -c user.email=n@x commit -q --allow-empty -m two"))).code
        == 0
    )
    for way in (("worktree", "remove", str(place(user, "x"))), None):
        if way is None:
            subprocess.run(["rm", "-r", str(place(user, "x"))], check=True)
        else:
            git(*way)
        run = in_worktree(user, "x")
        assert (run.code, "1 commit, 0 files not committed" in run.err) == (0, True)


def test_one_that_was_left_half_made_is_made_anew(user: User, git: Git) -> None:
    assert in_worktree(user, "x").code == 0
    (place(user, "x") / "sub" / "a.txt").unlink()
    (user.project / ".git" / "worktrees" / "x" / "locked").write_text("initializing")
    assert in_worktree(user, "x").code == 0
    assert (place(user, "x") / "sub" / "a.txt").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("../x", "`../x` is not a valid name for a work tree"),
        ("a..b", "is not a valid name for a work tree"),
        ("taken", "exists and is not a work tree of this repository; move it away"),
        ("elsewhere", "git says"),
    ],
)
def test_a_name_that_cannot_be_is_said_and_nothing_is_changed(user: User, git: Git, name: str, says: str) -> None:
    assert in_worktree(user, "first").code == 0
    existing = place(user, "first").with_name("taken")
    write_file(existing / "file", "theirs")
    git("worktree", "add", "-q", "-b", "ebb/elsewhere", str(user.home / "elsewhere"))
    run = in_worktree(user, name)
    assert (run.code, run.out, says in run.err, "Traceback" in run.err) == (2, "", True, False)
    assert (existing / "file").read_text() == "theirs"


def test_where_there_is_no_repository_or_no_commit_it_is_said(user: User) -> None:
    assert "this folder is not in a git repository" in in_worktree(user, "x").err
    subprocess.run(["git", "init", "-q", str(user.project)], check=True)
    run = in_worktree(user, "x")
    assert (run.code, "this repository has no commits yet" in run.err) == (2, True)


def test_nothing_that_the_repository_configures_is_run(user: User, git: Git) -> None:
    mark = user.home / "mark"
    write_program(user.project / ".git" / "hooks" / "post-checkout", f"touch {mark}\n")
    (user.project / ".gitattributes").write_text("*.txt filter=evil\n")
    git("add", "-A")
    git("commit", "-qm", "attributes")
    for part in ("smudge", "clean"):
        git("config", f"filter.evil.{part}", f"touch {mark}; cat")
    assert in_worktree(user, "x", write("b.txt")).code == 0
    assert not mark.exists()


def test_what_is_trusted_in_the_repository_is_trusted_in_its_work_tree_as_it_is(user: User, git: Git) -> None:
    skill = write_file(
        user.project / ".ebb" / "skills" / "deploy" / "SKILL.md",
        "---\nname: deploy\ndescription: deploys it\n---\nRun make.\n",
    )
    git("add", "-A")
    git("commit", "-qm", "skill")
    assert user.ebb("trust", "approve", "--yes").code == 0
    assert "left out" not in in_worktree(user, "x").err
    there = place(user, "x")
    assert "approved      skill:deploy" in user.ebb("trust", "-C", str(there)).out
    (there / ".ebb" / "skills" / "deploy" / "SKILL.md").write_text(skill.read_text() + "And more.\n")
    assert "has changed since it was approved" in in_worktree(user, "x").err
    assert user.ebb("trust", "refuse", "-C", str(there)).code == 0
    assert "approved      skill:deploy" in user.ebb("trust").out
    copied = user.home / "copied"  # it says of itself that it is a work tree of the repository
    copied.mkdir()
    subprocess.run(["cp", "-r", str(user.project / ".ebb"), str(there / ".git"), str(copied)], check=True)
    assert "not approved" in user.ebb("trust", "-C", str(copied)).out


def tasks(user: User, *lines: object) -> str:
    path = user.home / "tasks.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


def results(user: User) -> dict[str, dict[str, Any]]:
    lines = (user.home / "tasks.results.jsonl").read_text().splitlines()
    return {result["id"]: result for result in map(json.loads, lines)}


def test_each_task_of_a_batch_has_a_branch_and_a_diff(user: User, git: Git) -> None:
    user.script()
    changes = user.script({"when": "change", **write("sub/b.txt")}, {"text": "Done."})
    file = tasks(
        user, {"id": "a/b", "prompt": "change\nit"}, {"id": "same", "prompt": "look"}, {"id": "c", "prompt": "change"}
    )
    run = user.ebb("batch", file, "--worktree", "-m", changes, "--permission-mode", "auto")
    assert run.code == 0, run.err
    found = results(user)
    head = git("rev-parse", "HEAD").strip()
    same = {key: found["same"][key] for key in ("branch", "base", "commit", "diff")}
    assert same == {"branch": None, "base": head, "commit": None, "diff": ""}
    assert git("branch", "--format=%(refname:short)").split() == sorted(
        [found["a/b"]["branch"], found["c"]["branch"], "main"]
    )
    assert found["a/b"]["branch"] == f"ebb/a-b-{found['a/b']['session'][:6]}"
    assert git("log", "-1", "--format=%s", found["a/b"]["branch"]) == "change\n"
    assert "+new" in found["a/b"]["diff"]
    assert git("worktree", "list").count("\n") == 1
    git("merge", "-q", found["c"]["branch"])
    assert (user.project / "sub" / "b.txt").read_text() == "new\n"


def test_a_task_that_was_stopped_goes_on_in_its_work_tree(user: User, git: Git) -> None:
    broken = user.script({"when": "change", **write("b.txt")}, {"error": "bad_request"})
    file = tasks(user, {"id": "a", "prompt": "change"})
    flags = ("batch", file, "--worktree", "--permission-mode", "auto", "-m")
    assert user.ebb(*flags, broken).code == 1
    first = results(user)["a"]
    assert first["branch"]
    assert user.ebb(*flags, user.script(write("c.txt"), {"text": "Done."}), "--retry-failed").code == 0
    second = results(user)["a"]
    assert second["branch"] == first["branch"]
    assert git("diff", "--name-only", second["base"], second["commit"]).split() == ["b.txt", "c.txt"]


def test_what_a_killed_batch_has_left_of_tasks_that_are_done_goes_with_the_next_run(user: User, git: Git) -> None:
    model = user.script({"when": "change", **write("b.txt")}, {"text": "Done."})
    file = tasks(user, {"id": "a", "prompt": "change"}, {"id": "b", "prompt": "look"})
    flags = ("batch", file, "--worktree", "--permission-mode", "auto", "-m", model)
    assert user.ebb(*flags).code == 0
    assert not [*(user.home / "data" / "checkpoints").glob("*")]
    before, found = git("branch"), results(user)
    (places,) = (user.home / "data-worktrees").iterdir()
    first, second = (places / f"{id}-{found[id]['session'][:6]}" for id in ("a", "b"))
    git("worktree", "add", "-q", str(first), found["a"]["branch"])  # as it is between a result and its end
    git("worktree", "add", "-q", "-b", f"ebb/{second.name}", str(second))
    again = user.ebb(*flags)
    assert (again.code, results(user)) == (0, found)
    assert (git("worktree", "list").count("\n"), git("branch")) == (1, before)


def test_without_a_repository_each_task_says_so(user: User) -> None:
    run = user.ebb("batch", tasks(user, {"id": "a", "prompt": "x"}), "--worktree", "-m", user.script({"text": "Done."}))
    assert run.code == 1
    assert (
        results(user)["a"]["error"]["message"]
        == "cannot create a worktree for the task: this folder is not in a git repository"
    )
