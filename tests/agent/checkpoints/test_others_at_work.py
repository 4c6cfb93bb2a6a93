"""What is in the way of a restore, or changed while nobody looked: nothing of it is lost, and the rest comes back."""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ebbtide.agent.checkpoints.database import DATABASE_NAME
from ebbtide.agent.checkpoints.file_state import CHANGED_BY_OTHER_SESSION, CONTENT_LOST
from ebbtide.agent.checkpoints.project import ProjectCheckpoints, checkpoint_folder
from ebbtide.agent.checkpoints.undo_points import next_undo
from ebbtide.agent.errors import RestoreFailed, StoreFailed
from ebbtide.store.locks import SessionLock
from tests.agent.checkpoints.test_project import fail_at, filled, redone, undone
from tests.kit.checkpoints import Agent, never, project_in, tree, turn_place
from tests.kit.files import write_file


def work_in(folder: Path) -> Path:
    """A folder with files of all kinds in it."""
    filled(folder / "work")
    return folder / "work"


def test_what_the_user_changes_while_the_plan_is_looked_at_is_not_lost(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    with closing(project_in(tmp_path)) as project:
        agent = Agent(project)
        with agent.turn():
            (work / "bytes").write_text("agent")
            (work / "a.txt").unlink()
            (work / "new").write_text("agent")
        point = next_undo(project.points())
        assert point is not None
        for name in ("bytes", "a.txt", "new"):
            plan, before = project.plan_undo((point.id,)), tree(work)
            (work / name).write_text("user")
            now = tree(work)
            with pytest.raises(RestoreFailed, match=f"nothing was changed: {name} was changed in the meantime"):
                project.restore(plan, point.turn_key, "undo")
            assert tree(work) == now
            (work / name).unlink()
            if name in before:
                (work / name).write_text("agent")
        assert undone(project) == ()
        assert tree(work)["a.txt"] == ("file", 0o644, b"one\r\ntwo\r\n")


def _write(path: Path, text: str) -> None:
    write_file(path, text)


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
        with agent.turn():
            change(work)
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
        with agent.turn():
            shutil.rmtree(work / "deep")
            os.mkfifo(work / "deep")
            (work / "a.txt").write_text("agent")
        assert undone(project) == ("deep", "deep/er", "deep/er/b.txt")
        assert (tree(work)["deep"], tree(work)["a.txt"]) == (("special",), ("file", 0o644, b"one\r\ntwo\r\n"))


def test_what_the_user_put_where_a_folder_was_is_asked_about(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    with closing(project_in(tmp_path)) as project:
        agent = Agent(project)
        with agent.turn():
            shutil.rmtree(work / "deep")
            (work / "a.txt").write_text("agent")
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
        with agent.turn():
            (work / "deep" / "er" / "b.txt").unlink()
        (work / "deep").rename(elsewhere)
        (work / "deep").symlink_to(elsewhere)
        assert undone(project) == ("deep/er/b.txt",)
        assert (tree(elsewhere), os.readlink(work / "deep")) == ({"er": ("folder", 0o755)}, str(elsewhere))


def killed(folder: Path, work: Path) -> ProjectCheckpoints:
    """What is left of a program that was killed while a command ran."""
    project = project_in(folder)
    assert project.begin_command(turn_place(1), in_job=False, is_cancelled=never) == ""
    (work / "a.txt").write_text("half")
    return project_in(folder)


def test_what_a_killed_program_did_can_be_taken_back_at_once(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    with closing(killed(tmp_path, work)) as project:
        project.finish_interrupted_turns("")
        assert undone(project) == ("a.txt",)
        redone(project)
        assert undone(project, forced=True) == ()
        assert tree(work)["a.txt"] == ("file", 0o644, b"one\r\ntwo\r\n")


def test_tools_of_a_killed_program_are_taken_back_where_the_folder_is_not_looked_at(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    one, other = (project_in(tmp_path) for _ in range(2))
    one._unscannable_reason = other._unscannable_reason = "it is your home folder"
    before = one.capture_states([str(work / "a.txt")])
    (work / "a.txt").write_text("agent")
    one.record_changes(turn_place(1), before)
    with closing(other):
        other.finish_interrupted_turns("")
        assert undone(other) == ()
        assert tree(work)["a.txt"] == ("file", 0o644, b"one\r\ntwo\r\n")


def changed_twice(folder: Path, work: Path) -> Path:
    """Two turns, and the database in which they are."""
    with closing(project_in(folder)) as project:
        agent = Agent(project)
        for text in ("one", "two"):
            with agent.turn():
                for number in range(200):
                    (work / str(number)).write_text(f"{text} {number} {os.urandom(300).hex()}")
    return checkpoint_folder(folder / "data", work) / DATABASE_NAME


def damaged(database: Path, table: str) -> None:
    """Every page of a table is overwritten, as a disk would that fails."""
    with closing(sqlite3.connect(database)) as db:
        (size,) = db.execute("pragma page_size").fetchone()
        (first,) = db.execute("select rootpage from sqlite_master where name = ?", (table,)).fetchone()
    data = bytearray(database.read_bytes())
    data[(first - 1) * size : first * size] = b"\xa5" * size
    database.write_bytes(data)


def test_damage_that_is_met_later_is_told_and_set_aside_at_the_next_opening(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    database = changed_twice(tmp_path, work)
    damaged(database, "paths")
    after = tree(work)
    with closing(project_in(tmp_path)) as project:
        with pytest.raises(StoreFailed, match="is damaged; it will be replaced by a new one when it is next opened"):
            undone(project)
        with pytest.raises(StoreFailed, match="will be moved aside once no other program uses it"):
            project_in(tmp_path)
    assert tree(work) == after
    with closing(project_in(tmp_path)) as project:
        assert Agent(project).begin()
        assert project.points() == ()
    assert len(list(database.parent.glob("checkpoints.db.damaged-*"))) == 1


def test_one_damaged_content_keeps_no_other_from_coming_back(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    database = changed_twice(tmp_path, work)
    one = (work / "7").read_bytes()
    with closing(project_in(tmp_path)) as project:
        undone(project)
        before, lost = tree(work), hashlib.sha256((work / "7").read_bytes()).digest()
        redone(project)
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("update contents set start = start + 1 where digest = ?", (lost,))
    with closing(project_in(tmp_path)) as project:
        point = next_undo(project.points())
        assert point is not None
        plan = project.plan_undo((point.id,))
        assert [(each.path, each.reason) for each in plan.paths_with_outcome("impossible")] == [("7", CONTENT_LOST)]
        assert undone(project) == ("7",)
    assert tree(work) == {**before, "7": ("file", 0o644, one)}


@pytest.mark.parametrize(("column", "value"), [("before", "file 644 zz"), ("after", "nothing"), ("before", "")])
def test_a_row_that_makes_no_sense_is_damage(tmp_path: Path, column: str, value: object) -> None:
    work = work_in(tmp_path)
    database = changed_twice(tmp_path, work)
    with closing(sqlite3.connect(database)) as db, db:
        db.execute(f"update paths set {column} = ? where path = ?", (value, b"7"))
    after = tree(work)
    with closing(project_in(tmp_path)) as project, pytest.raises(StoreFailed, match="the changes of undo point 2"):
        undone(project)
    assert tree(work) == after


def _closed_behind(work: Path) -> None:
    (work / "deep" / "er" / "b.txt").write_text("agent")
    (work / "deep" / "er").chmod(0o555)


def _made_closed(work: Path) -> None:
    _write(work / "new" / "er" / "x", "agent")
    (work / "new" / "er").chmod(0o500)
    (work / "new").chmod(0o555)


def _only_closed(work: Path) -> None:
    (work / "deep").chmod(0)


@pytest.mark.parametrize("change", [_closed_behind, _made_closed, _only_closed])
def test_folders_that_a_turn_has_closed_are_opened_again(tmp_path: Path, change: Callable[[Path], None]) -> None:
    work = work_in(tmp_path)
    before = tree(work)
    with closing(project_in(tmp_path)) as project:
        agent = Agent(project)
        with agent.turn():
            change(work)
        after = tree(work)
        assert undone(project) == ()
        assert tree(work) == before
        redone(project)
        assert tree(work) == after


def test_a_restore_that_fails_closes_folders_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = work_in(tmp_path)
    with closing(project_in(tmp_path)) as project:
        agent = Agent(project)
        with agent.turn():
            _made_closed(work)
            _closed_behind(work)
        after = tree(work)

        for call in ("write", "rename", "rmdir"):
            with monkeypatch.context() as patch:
                fail_at(patch, call, 1)
                with pytest.raises(RestoreFailed, match="nothing was changed"):
                    undone(project)
            assert tree(work) == after


def test_what_sessions_change_at_the_same_time_is_asked_about(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    here, there = turn_place(1, "here"), turn_place(1, "there")
    locks = [SessionLock(tmp_path / "data" / "locks", place.session) for place in (here, there)]
    for lock in locks:
        lock.acquire()
    with closing(project_in(tmp_path)) as one, closing(project_in(tmp_path)) as other:
        assert one.begin_command(here, in_job=False, is_cancelled=never) == ""
        (work / "a.txt").write_text("here")
        assert other.begin_command(there, in_job=False, is_cancelled=never) == ""
        (work / "b.txt").write_text("there")
        assert (one.end_command(here), other.end_command(there)) == ("", "")
        assert (one.finish_turn(here).files, other.finish_turn(there).files) == (("a.txt", "b.txt"), ("b.txt",))
        (mine,) = one.points("here")
        asked = [(each.path, each.reason) for each in one.plan_undo((mine.id,)).paths_with_outcome("ask")]
        assert asked == [("a.txt", CHANGED_BY_OTHER_SESSION), ("b.txt", CHANGED_BY_OTHER_SESSION)]
        later = turn_place(2, "here")  # whose turn is over has no hand in it any more
        assert one.begin_command(later, in_job=False, is_cancelled=never) == ""
        (work / "a.txt").write_text("again")
        assert one.end_command(later) == ""
        assert one.finish_turn(later).files == ("a.txt",)
        assert [change.other_cause for change in one._point_log.changes(one.points()[-1].id)] == [""]
    for lock in locks:
        lock.release()
