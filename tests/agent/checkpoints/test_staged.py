"""What is staged is taken back with the files, by a real git and beside it."""

import os
import signal
import struct
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.checkpoints.file_state import CHANGED_SINCE, HEAD_MOVED, UNSUPPORTED_INDEX, path_label
from ebbtide.agent.checkpoints.git_index import entry_without_stat, parse_index, replace_staged, staged_bytes_by_path
from ebbtide.agent.checkpoints.project import ProjectCheckpoints
from ebbtide.agent.checkpoints.staged_files import INDEX_BUSY
from ebbtide.agent.checkpoints.undo_points import RestoreResult, next_redo, next_undo
from tests.kit.checkpoints import Agent, project_in, tree
from tests.kit.files import write_file, write_files
from tests.kit.git import git


def status(work: Path) -> list[str]:
    return git(work, "status", "--porcelain").splitlines()


def repository(work: Path, *options: str) -> Path:
    work.mkdir(parents=True)
    git(work, "init", "-q", *options)
    for name in ("a", "b", "sub dir/c"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(f"{name}\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "x")
    return work


def back(project: ProjectCheckpoints, *, redo: bool = False, forced: bool = False) -> RestoreResult:
    points = project.points()
    point = next_redo(points) if redo else next_undo(points)
    assert point is not None
    return project.restore(project.plan_undo((point.id,)), point.turn_key, "redo" if redo else "undo", is_forced=forced)


@pytest.mark.parametrize("version", ["2", "4", "sha256"])
def test_what_the_agent_staged_is_taken_back_and_brought_back(tmp_path: Path, version: str) -> None:
    work = repository(tmp_path / "work", *(("--object-format=sha256",) if version == "sha256" else ()))
    if version == "4":
        git(work, "update-index", "--index-version=4")
    (work / "b").write_text("staged by the user\n")
    git(work, "add", "b")
    before = status(work)
    project = project_in(tmp_path)
    agent = Agent(project)
    with agent.turn():
        write_files(work, {"a": "agent\n", "new": "new\n"})
        git(work, "add", "a", "new")
        git(work, "rm", "-q", "--cached", "sub dir/c")
        git(work, "add", "-N", "sub dir/c")
        after = status(work)
    assert agent.changed_files() == ("a", "new")
    done = back(project)
    assert (status(work), done.files, done.staged_count, done.unrestored) == (before, ("a", "new"), 3, ())
    assert git(work, "fsck", "--no-dangling") == ""
    assert back(project, redo=True).unrestored == ()
    assert status(work) == after
    project.close()


def test_what_others_staged_and_commits_stay(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    project = project_in(tmp_path)
    agent = Agent(project)
    with agent.turn():
        write_files(work, ("a", "b"), "agent\n")
        git(work, "add", "a", "b")
    (work / "b").write_text("user\n")
    git(work, "add", "b")
    done = back(project, forced=True)
    assert [(path_label(one.path), one.reason) for one in done.unrestored] == [("b (staged)", CHANGED_SINCE)]
    assert status(work) == ["MM b"]
    git(work, "commit", "-qm", "of the user")

    with agent.turn():
        (work / "a").write_text("agent\n")
        git(work, "commit", "-qam", "of the agent")
        git(work, "rm", "-q", "--cached", "b")
    assert agent.changed_files() == ("a",)
    git(work, "commit", "-qm", "of the user")
    done = back(project)
    assert [(path_label(one.path), one.reason) for one in done.unrestored] == [(". (commits and branches)", HEAD_MOVED)]
    assert status(work) == [" M a", "?? b"]
    with agent.turn():
        git(work, "commit", "-qam", "nothing but a commit")
    assert agent.changed_files() == ()
    project.close()


def test_submodules_work_trees_and_folders_in_a_repository_have_their_own_index(tmp_path: Path) -> None:
    inner, main = repository(tmp_path / "inner"), repository(tmp_path / "main")
    git(main, "submodule", "--quiet", "add", str(inner), "module")
    git(main, "commit", "-qm", "module")
    git(main, "worktree", "add", "-q", str(tmp_path / "work"))
    work = tmp_path / "work"
    git(work, "submodule", "--quiet", "update", "--init")
    nested = repository(work / "sub dir" / "nested")
    project = project_in(tmp_path)
    agent = Agent(project)
    with agent.turn():
        for folder in (work, work / "module", nested):
            (folder / "a").write_text("agent\n")
            git(folder, "add", "a")
    assert status(nested) == ["M  a"]
    done = back(project)
    assert (done.staged_count, done.unrestored) == (3, ())
    assert [status(folder) for folder in (work, work / "module", nested)] == [['?? "sub dir/nested/"'], [], []]
    below = ProjectCheckpoints(tmp_path / "data", main / "sub dir", project._limits, 100_000_000)
    agent = Agent(below)
    with agent.turn():
        (main / "b").write_text("outside of the folder\n")
        git(main, "add", "b")
    assert (back(below).staged_count, status(main)) == (1, [" M b"])
    below.close()
    project.close()


def test_metadata_that_only_the_work_tree_claims_is_not_touched(tmp_path: Path) -> None:
    other, work = repository(tmp_path / "other"), tmp_path / "work"
    write_file(work / ".git", f"gitdir: {other}/.git\n")
    project = project_in(tmp_path)
    agent = Agent(project)
    with agent.turn():
        (other / "a").write_text("user\n")
        git(other, "add", "a")
    assert next_undo(project.points()) is None
    project.close()


def test_what_is_staged_comes_back_though_git_has_packed_its_branches(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    project = project_in(tmp_path)
    agent = Agent(project)
    with agent.turn():
        git(work, "pack-refs", "--all")
        (work / "new").write_text("new\n")
        git(work, "add", "new")
    done = back(project)
    assert (status(work), done.staged_count, done.unrestored) == ([], 1, ())


def test_a_lock_of_git_is_respected_and_files_come_back_without_the_index(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    project = project_in(tmp_path)
    agent = Agent(project)
    with agent.turn():
        (work / "a").write_text("agent\n")
        git(work, "add", "a")
    (work / ".git/index.lock").touch()
    done = back(project)
    assert ((work / "a").read_text(), [one.reason for one in done.unrestored]) == ("a\n", [INDEX_BUSY])
    assert (work / ".git/index.lock").exists()
    assert not list((work / ".git").glob(".ebb*"))
    (work / ".git/index.lock").unlink()
    assert status(work) == ["MM a"]
    project.close()


@pytest.mark.parametrize("call", ["link", "rename", "fsync", "unlink"])
def test_a_kill_while_it_is_staged_again_leaves_no_lock_behind(tmp_path: Path, call: str) -> None:
    work = repository(tmp_path / "work")
    project = project_in(tmp_path)
    agent = Agent(project)
    with agent.turn():
        git(work, "rm", "-q", "--cached", "a")
    project.close()
    child = os.fork()
    if child == 0:
        real: Any = getattr(os, call)

        def killing(*args: Any, **kwargs: Any) -> None:
            real(*args, **kwargs) if call in ("link", "fsync") else None
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(os, call, killing)
        back(project_in(tmp_path))
        os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    project = project_in(tmp_path)
    project.finish_interrupted_restores()
    assert status(work) == []
    assert sorted(each.name for each in (work / ".git").iterdir() if "lock" in each.name or "ebb" in each.name) == []
    project.close()


@pytest.mark.parametrize("kind", ["split", "sparse"])
def test_where_what_is_staged_cannot_be_read_files_come_back_and_that_is_said(tmp_path: Path, kind: str) -> None:
    work = repository(tmp_path / "work")
    if kind == "split":
        git(work, "update-index", "--split-index")
    else:
        git(work, "sparse-checkout", "set", "--cone", "--sparse-index", "no such folder")
    project = project_in(tmp_path)
    agent = Agent(project)
    with agent.turn():
        (work / "a").write_text("changed\n")
        git(work, "add", "a")
    done = back(project)
    why = [(path_label(one.path), one.reason) for one in done.unrestored]
    assert ((work / "a").read_text(), why) == ("a\n", [(". (staged changes)", UNSUPPORTED_INDEX)])


def test_an_index_is_written_as_it_was_read(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    data = (work / ".git/index").read_bytes()
    entries = parse_index(data)
    assert [entry.path for entry in entries] == [b"a", b"b", b"sub dir/c"]
    assert parse_index(replace_staged(data, {}, 1 << 31)) == entries
    (one,) = (entry for entry in entries if entry.path == b"b")
    assert staged_bytes_by_path([entry_without_stat(b"b", one.staged_bytes)]) == {b"b": one.staged_bytes}
    endless = b"".join(bytes(60) + (b"\0\0" + b"x" * 9000 + b"\0") for _ in range(3))
    for cut in (
        struct.pack(">4sII", b"DIRC", 4, 3) + endless + bytes(20),
        b"DIRC",
        data[:-1],
        b"X" + data[1:],
        data[:40] + b"\xff" + data[41:],
    ):
        with pytest.raises(ValueError, match="index"):
            parse_index(cut)


def test_what_git_tracks_though_its_rules_ignore_it_comes_back(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    write_files(work, {".env.example": "KEY=\n", "dist/out.js": "out\n", "dist/own": "own\n"})
    (work / ".gitignore").write_text(".env*\ndist/\n")
    git(work, "add", "-f", ".env.example", "dist/out.js")
    git(work, "commit", "-qm", "y")
    before = tree(work)
    project = project_in(tmp_path)
    agent = Agent(project)
    with agent.turn():
        (work / ".env.example").write_text("KEY=agent\n")
        (work / "dist" / "out.js").unlink()
        (work / "dist" / "own").write_text("of nobody\n")
    assert agent.changed_files() == (".env.example", "dist/out.js")
    assert (back(project).files, back(project, redo=True).unrestored, back(project).unrestored) == (
        (".env.example", "dist/out.js"), (), (),
    )  # fmt: skip
    assert tree(work) == {**before, "dist/own": ("file", 0o644, b"of nobody\n")}
    with agent.turn():
        write_files(work, {"dist/out.js": "changed, and its rule with it", ".gitignore": ".env*\n"})
    assert back(project, forced=True).unrestored == ()
    assert (work / "dist" / "out.js").read_text() == "out\n"
    project.close()


def test_an_index_names_no_file_elsewhere(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    (tmp_path / "elsewhere").write_text("of the user")
    entry = b"\x00\x00\x81\xa4" + bytes(4) + bytes(20)
    index = work / ".git" / "index"
    wanted = {b"../elsewhere": entry, b".git/config": entry, b"./a": entry}
    index.write_bytes(replace_staged(index.read_bytes(), wanted, 0))
    project = project_in(tmp_path)
    agent = Agent(project)
    with agent.turn():
        (tmp_path / "elsewhere").write_text("changed")
        write_files(work, {".git/config": "", "a": "agent"})
    assert agent.changed_files() == ("a",)
    project.close()


def test_tracked_files_of_the_repository_around_and_of_one_inside(tmp_path: Path) -> None:
    outer = repository(tmp_path / "outer")
    inner = repository(outer / "work" / "inner")
    for work, name in ((outer, "work/x.log"), (outer, "x.log"), (inner, "sub dir/y.log")):
        (work / name).write_text("log\n")
        (work / ".gitignore").write_text("*.log\n")
        git(work, "add", "-f", name)
    project = project_in(outer)
    agent = Agent(project)
    with agent.turn():
        write_files(outer, ("x.log", "work/x.log", "work/inner/sub dir/y.log"), "agent\n")
    assert agent.changed_files() == ("x.log", "inner/sub dir/y.log")
    assert back(project).files == ("x.log", "inner/sub dir/y.log")
    assert (outer / "x.log").read_text() == "agent\n"
    project.close()
