"""What is in the way of a restore, or changed while nobody looked: nothing of it is lost, and the rest comes back."""

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent.checkpoints.project import ProjectCheckpoints
from agent.checkpoints.undo_points import to_undo
from agent.errors import RestoreFailed
from tests.agent.checkpoints.test_project import filled, redone, undone
from tests.agent.checkpoints.trees import Agent, never, project_in, tree, turn


def work_in(folder: Path) -> Path:
    """A folder with files of all kinds in it."""
    filled(folder / "work")
    return folder / "work"


def test_what_the_user_changes_while_the_plan_is_looked_at_is_not_lost(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    with closing(project_in(tmp_path)) as project:
        agent = Agent(project)
        place = agent.begin()
        (work / "bytes").write_text("agent")
        (work / "a.txt").unlink()
        (work / "new").write_text("agent")
        agent.end(place)
        point = to_undo(project.points())
        assert point is not None
        for name in ("bytes", "a.txt", "new"):
            plan, before = project.plan((point.id,)), tree(work)
            (work / name).write_text("user")
            now = tree(work)
            with pytest.raises(RestoreFailed, match=f"nothing was changed: {name} was changed meanwhile"):
                project.restore(plan, point.place, "undo")
            assert tree(work) == now
            (work / name).unlink()
            if name in before:
                (work / name).write_text("agent")
        assert undone(project) == ()
        assert tree(work)["a.txt"] == ("file", 0o644, b"one\r\ntwo\r\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _ignored_files(work: Path) -> None:
    _write(work / ".gitignore", "*.txt\nbytes\n")
    _write(work / "a.txt", "bad")
    (work / "bytes").unlink()


def _ignored_folder(work: Path) -> None:
    _write(work / ".gitignore", "deep/\n")
    _write(work / "deep" / "er" / "b.txt", "bad")


def _ignored_folder_that_went(work: Path) -> None:
    _write(work / ".gitignore", "deep/\n")
    shutil.rmtree(work / "deep" / "er")


def _all_ignored_by_a_repository(work: Path) -> None:
    _write(work / ".git" / "info" / "exclude", "*\n")
    _write(work / "a.txt", "bad")
    shutil.rmtree(work / "deep")
    (work / "deep").symlink_to("/usr")


@pytest.mark.parametrize(
    "change", [_ignored_files, _ignored_folder, _ignored_folder_that_went, _all_ignored_by_a_repository]
)
def test_what_a_command_changes_and_has_ignored_comes_back(tmp_path: Path, change: Callable[[Path], None]) -> None:
    work = work_in(tmp_path)
    before = tree(work)
    with closing(project_in(tmp_path)) as project:
        agent = Agent(project)
        place = agent.begin()
        change(work)
        agent.end(place)
        after = tree(work)
        assert undone(project, forced=True) == ()  # whether `.gitignore` was there before is in doubt
        shutil.rmtree(work / ".git", ignore_errors=True)  # git's own data stays
        assert tree(work) == before
        redone(project)
        assert after.items() >= tree(work).items()


def test_what_cannot_make_place_keeps_only_what_is_below_it(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    with closing(project_in(tmp_path)) as project:
        agent = Agent(project)
        place = agent.begin()
        shutil.rmtree(work / "deep")
        os.mkfifo(work / "deep")
        (work / "a.txt").write_text("agent")
        agent.end(place)
        assert undone(project) == ("deep", "deep/er", "deep/er/b.txt")
        assert (tree(work)["deep"], tree(work)["a.txt"]) == (("special",), ("file", 0o644, b"one\r\ntwo\r\n"))


def test_what_the_user_put_where_a_folder_was_is_asked_about(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    with closing(project_in(tmp_path)) as project:
        agent = Agent(project)
        place = agent.begin()
        shutil.rmtree(work / "deep")
        (work / "a.txt").write_text("agent")
        agent.end(place)
        (work / "deep").write_text("user")
        assert undone(project) == ("deep", "deep/er", "deep/er/b.txt")
        assert tree(work)["deep"] == ("file", 0o644, b"user")
        redone(project)
        assert undone(project, forced=True) == ()
        assert tree(work)["deep/er/b.txt"] == ("file", 0o644, b"b")


def test_a_link_that_the_user_put_where_a_folder_was_leads_nowhere(tmp_path: Path) -> None:
    work, elsewhere = work_in(tmp_path), tmp_path / "elsewhere"
    with closing(project_in(tmp_path)) as project:
        agent = Agent(project)
        place = agent.begin()
        (work / "deep" / "er" / "b.txt").unlink()
        agent.end(place)
        (work / "deep").rename(elsewhere)
        (work / "deep").symlink_to(elsewhere)
        assert undone(project) == ("deep/er/b.txt",)
        assert (tree(elsewhere), os.readlink(work / "deep")) == ({"er": ("folder", 0o755)}, str(elsewhere))


def killed(folder: Path, work: Path) -> ProjectCheckpoints:
    """What is left of a program that was killed while a command ran."""
    project = project_in(folder)
    assert project.begin(turn(1), in_job=False, stopped=never) == ""
    (work / "a.txt").write_text("half")
    return project_in(folder)


def test_what_a_killed_program_did_can_be_taken_back_at_once(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    with closing(killed(tmp_path, work)) as project:
        project.finish_cut_off("")
        assert undone(project) == ("a.txt",)
        redone(project)
        assert undone(project, forced=True) == ()
        assert tree(work)["a.txt"] == ("file", 0o644, b"one\r\ntwo\r\n")


def test_tools_of_a_killed_program_are_taken_back_where_the_folder_is_not_looked_at(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    one, other = (project_in(tmp_path) for _ in range(2))
    one._too_much = other._too_much = "it is your home folder"
    before = one.states([str(work / "a.txt")])
    (work / "a.txt").write_text("agent")
    one.changed(turn(1), before)
    with closing(other):
        other.finish_cut_off("")
        assert undone(other) == ()
        assert tree(work)["a.txt"] == ("file", 0o644, b"one\r\ntwo\r\n")
