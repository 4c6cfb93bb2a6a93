"""What turns change in files is kept, taken back and brought back, on a real file system."""

import errno
import itertools
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.agent.checkpoints.file_state import CHANGED_SINCE, TurnChanges
from ebbtide.agent.checkpoints.point_log import INTERRUPTED_COMMAND
from ebbtide.agent.checkpoints.project import ProjectCheckpoints, checkpoint_folder
from ebbtide.agent.checkpoints.undo_points import next_redo, next_undo
from ebbtide.agent.checkpoints.unread_files import ScanLimits
from ebbtide.agent.errors import RestoreFailed
from tests.kit.checkpoints import LIMITS, Agent, never, project_in, tree, turn_place
from tests.kit.files import write_file, write_files, write_program
from tests.kit.git import commit_all, git

A_TICK = 0.05
"""Seconds after which a new file has another time than a look that begins."""


def undone(project: ProjectCheckpoints, *, forced: bool = False) -> tuple[str, ...]:
    """Takes the last turn back; what was left."""
    point = next_undo(project.points())
    assert point is not None
    left = project.restore(project.plan_undo((point.id,)), point.turn_key, "undo", is_forced=forced).unrestored
    return tuple(one.path for one in left)


def redone(project: ProjectCheckpoints) -> None:
    point = next_redo(project.points())
    assert point is not None
    project.restore(project.plan_undo((point.id,)), point.turn_key, "redo")


def filled(work: Path) -> None:
    write_file(work / "a.txt", b"one\r\ntwo\r\n")
    write_program(work / "run.sh")
    (work / "bytes").write_bytes(bytes(range(256)))
    (work / "empty").mkdir(mode=0o750)
    write_file(work / "deep" / "er" / "b.txt", "b")
    (work / "link").symlink_to("a.txt")
    (work / "outside").symlink_to("/etc")
    (work / os.fsdecode(b"new\nline\xff")).write_text("odd")


def change_everything(work: Path) -> None:
    (work / "a.txt").write_bytes(b"other\n")
    (work / "run.sh").chmod(0o644)
    (work / "bytes").rename(work / "Bytes")
    (work / "empty").rmdir()
    shutil.rmtree(work / "deep")
    (work / "deep").symlink_to("/usr")
    (work / "link").unlink()
    write_file(work / "link" / "inside", "i")
    (work / "outside").unlink()
    (work / "outside").write_text("no link any more")
    (work / os.fsdecode(b"new\nline\xff")).unlink()
    write_file(work / "made" / "by" / "it" / "new", "new")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with files of all kinds in it."""
    filled(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def project(tmp_path: Path, work: Path) -> Iterator[ProjectCheckpoints]:
    """Its checkpoints."""
    with closing(project_in(tmp_path)) as opened:
        yield opened


@pytest.fixture
def agent(project: ProjectCheckpoints) -> Agent:
    return Agent(project)


def test_a_turn_is_taken_back_and_brought_back_whole(work: Path, agent: Agent, project: ProjectCheckpoints) -> None:
    before = tree(work)
    with agent.turn():
        change_everything(work)
        after = tree(work)
    assert "a.txt" in agent.changed_files()
    assert undone(project) == ()
    assert tree(work) == before
    redone(project)
    assert tree(work) == after
    assert undone(project) == ()
    assert tree(work) == before


def test_what_the_user_changed_since_stays_unless_that_is_forced(
    work: Path, agent: Agent, project: ProjectCheckpoints
) -> None:
    with agent.turn():
        write_files(work, {"a.txt": "agent", "made/x": "x"})
    write_files(work, {"a.txt": "user", "made/mine": "mine", "own": "own"})
    point = next_undo(project.points())
    assert point is not None
    asked = [(one.path, one.reason) for one in project.plan_undo((point.id,)).paths_with_outcome("ask")]
    assert asked == [("a.txt", CHANGED_SINCE)]
    assert undone(project) == ("a.txt", "made")
    assert (work / "a.txt").read_text() == "user"
    assert [path.name for path in (work / "made").iterdir()] == ["mine"]
    assert (work / "own").read_text() == "own"
    redone(project)
    mine = tree(work)
    assert undone(project, forced=True) == ("made",)
    assert (work / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    redone(project)
    assert tree(work) == mine


def test_what_the_user_changes_between_turns_is_not_the_agents(
    work: Path, agent: Agent, project: ProjectCheckpoints
) -> None:
    agent.end(agent.begin())
    (work / "a.txt").write_text("user")
    shutil.rmtree(work / "deep")
    with agent.turn():
        (work / "new").write_text("new")
    assert agent.changed_files() == ("new",)
    assert undone(project) == ()
    assert (work / "a.txt").read_text() == "user"
    assert not (work / "deep").exists()


def test_folders_made_for_what_comes_back_go_with_it(work: Path, agent: Agent, project: ProjectCheckpoints) -> None:
    with agent.turn():
        (work / "deep" / "er" / "b.txt").unlink()
    shutil.rmtree(work / "deep")
    now = tree(work)
    undone(project)
    assert (work / "deep" / "er" / "b.txt").read_text() == "b"
    redone(project)
    assert tree(work) == now


def test_a_file_changed_by_a_tool_is_taken_back_without_a_look_at_the_folder(work: Path, tmp_path: Path) -> None:
    project = project_in(tmp_path, ScanLimits(0, 10_000, 0))
    file = tmp_path / "aside.txt"
    file.write_text("aside")
    before = tree(tmp_path / "work")
    states = project.capture_states([str(work / "far" / "new"), str(work / "a.txt"), str(file)])
    write_files(work, {"far/new": "n", "a.txt": "changed"})
    file.write_text("changed")
    project.record_changes(turn_place(1), states)
    assert project.finish_turn(turn_place(1)).files == ("far/new", "a.txt", str(file))
    assert "more than 0 files" in project.begin_command(turn_place(1), in_job=False, is_cancelled=never)
    assert undone(project) == ()
    assert (tree(work), file.read_text()) == (before, "aside")
    project.close()


def _written_through(work: Path) -> None:
    (work / "one").write_text("more")


def _two_made(work: Path) -> None:
    (work / "new").write_text("new")
    (work / "newer").hardlink_to(work / "new")


def _copied_by_links(work: Path) -> None:
    (work / "copy").mkdir()
    for name in ("one", "two"):
        (work / "copy" / name).hardlink_to(work / name)
    (work / "copy" / "one").chmod(0o600)


@pytest.mark.parametrize("change", [_written_through, _two_made, _copied_by_links])
def test_names_of_one_file_come_back_one_after_the_other(
    work: Path, agent: Agent, project: ProjectCheckpoints, change: Callable[[Path], None]
) -> None:
    (work / "one").write_text("1")
    (work / "two").hardlink_to(work / "one")
    before = tree(work)
    with agent.turn():
        change(work)
    after = tree(work)
    assert (undone(project), tree(work)) == ((), before)
    redone(project)
    assert tree(work) == after


def test_ignored_files_are_neither_read_nor_touched(work: Path, agent: Agent) -> None:
    (work / ".gitignore").write_text("node_modules/\n*.log\n")
    (work / "node_modules").mkdir()
    for number in range(2000):
        (work / "node_modules" / str(number)).touch()
    with agent.turn():
        (work / "x.log").write_text("log")
        (work / "node_modules" / "new").touch()
        write_file(work / "__pycache__" / "a.cpython-311.pyc", b"compiled")
    assert agent.changed_files() == ()
    # Rules that come and go make no file appear or vanish.
    time.sleep(A_TICK)
    place = agent.begin()
    write_files(work, {".gitignore": "*.txt\n", "fresh": "fresh"})
    files = agent.end(place) if _has_few(work) else ()
    assert set(files) <= {".gitignore", "fresh"}


def test_a_folder_that_was_ignored_before_is_not_the_agents(
    work: Path, agent: Agent, project: ProjectCheckpoints
) -> None:
    (work / "build" / "deep").mkdir(parents=True)
    (work / ".gitignore").write_text("build/\n")
    time.sleep(A_TICK)
    before = tree(work)
    with agent.turn():
        (work / ".gitignore").unlink()
    assert agent.changed_files() == (".gitignore",)
    assert (undone(project, forced=True), tree(work)) == ((), before)


def _has_few(work: Path) -> bool:
    """The folder that is not ignored any more would be too much to be looked at."""
    shutil.rmtree(work / "node_modules")
    return True


def test_rules_for_ignored_files_that_change_take_no_file_away(
    work: Path, agent: Agent, project: ProjectCheckpoints
) -> None:
    write_files(work, {".gitignore": "secret\n", "secret": "of the user"})
    time.sleep(A_TICK)
    with agent.turn():
        (work / ".gitignore").write_text("a.txt\n")
    assert undone(project) == ()
    assert (work / "secret").read_text() == "of the user"
    assert (work / "a.txt").exists()


def test_large_special_and_unreadable_files_are_left_alone(
    work: Path, agent: Agent, project: ProjectCheckpoints
) -> None:
    (work / "large").write_bytes(b"x" * 20_000)
    with (work / "sparse").open("wb") as file:
        file.truncate(10_000_000_000)
    os.mkfifo(work / "pipe")
    with agent.turn():
        (work / "large").write_bytes(b"y" * 20_000)
        (work / "sparse").unlink()
        (work / "pipe").unlink()
    assert agent.changed_files() == ("large", "sparse")
    assert undone(project) == ("large", "sparse")
    assert (work / "large").read_bytes() == b"y" * 20_000


def test_a_file_changed_twice_within_a_tick_of_the_clock_is_seen(
    work: Path, agent: Agent, project: ProjectCheckpoints
) -> None:
    for number in range(20):
        before = (work / "bytes").read_bytes()
        with agent.turn():
            (work / "bytes").write_bytes(bytes([number]) * 256)
            os.utime(work / "bytes", ns=(0, 0))
        assert agent.changed_files() == ("bytes",)
        undone(project)
        assert (work / "bytes").read_bytes() == before
        redone(project)


def test_times_that_were_set_back_hide_nothing(work: Path, agent: Agent, project: ProjectCheckpoints) -> None:
    place = agent.begin()
    then = [(path, path.stat()) for path in (work, work / "a.txt")]
    (work / "added").write_text("new")
    (work / "a.txt").write_bytes(b"ONE\r\nTWO\r\n")
    work.chmod(0o711)
    for path, status in then:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert set(agent.end(place)) == {"a.txt", "added"}
    assert undone(project) == ()
    assert ((work / "a.txt").read_bytes(), (work / "added").exists()) == (b"one\r\ntwo\r\n", False)


@pytest.mark.parametrize("call", ["rename", "write", "unlink", "mkdir"])
def test_a_restore_that_fails_changes_nothing(
    work: Path, agent: Agent, project: ProjectCheckpoints, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with agent.turn():
        change_everything(work)
    after = tree(work)
    count = 0
    with monkeypatch.context() as patch:
        while next_redo(project.points()) is None:
            count += 1
            fail_at(patch, call, count)
            with suppress(RestoreFailed):
                undone(project)
                break
            assert tree(work) == after
    assert count > 3


def fail_at(patch: pytest.MonkeyPatch, name: str, count: int) -> None:
    """From that call of it on there is no room left, once."""
    patch.undo()
    calls = itertools.count(1)
    real: Callable[..., object] = getattr(os, name)

    def failing(*args: object, **kwargs: object) -> object:
        if next(calls) == count:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args, **kwargs)

    patch.setattr(os, name, failing)


def test_a_file_that_may_not_be_deleted_is_named_with_that_reason(
    work: Path, agent: Agent, project: ProjectCheckpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent.turn():
        (work / "new").write_text("new")

    def refused(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(RestoreFailed, match="Operation not permitted"):
        undone(project)
    assert (work / "new").read_text() == "new"


def test_a_project_without_git_and_one_with_submodules_are_alike(
    work: Path, agent: Agent, project: ProjectCheckpoints, tmp_path: Path
) -> None:
    inner = tmp_path / "inner"
    write_file(inner / "code.py", "x = 1\n")
    commit_all(inner)
    git(work, "init", "-q")
    git(work, "submodule", "--quiet", "add", str(inner), "sub")
    (work / "staged").write_text("staged")
    git(work, "add", "staged")
    (work / "staged").write_text("and changed behind that")
    index = (work / ".git" / "index").read_bytes()
    before = {name: what for name, what in tree(work).items() if not name.startswith(".git/")}
    place = agent.begin()
    (work / "sub" / "code.py").write_text("x = 2\n")
    (work / "staged").unlink()
    assert set(agent.end(place)) == {"sub/code.py", "staged"}
    undone(project)
    assert {name: what for name, what in tree(work).items() if not name.startswith(".git/")} == before
    assert (work / ".git" / "index").read_bytes() == index


def test_garbage_goes_and_what_points_need_stays(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    project = ProjectCheckpoints(tmp_path / "data", work, LIMITS, 300_000)
    agent = Agent(project)
    for _ in range(60):
        with agent.turn():
            (work / "noise").write_bytes(os.urandom(9000))
    project.close()
    database = checkpoint_folder(tmp_path / "data", work) / "checkpoints.db"
    assert stat.S_IMODE(database.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    assert database.stat().st_size < 400_000
    project = project_in(tmp_path)
    points = project.points()
    assert 10 < len(points) < 60
    for point in reversed(points):
        project.restore(project.plan_undo((point.id,)), point.turn_key, "undo")
    assert (work / "noise").stat().st_size == 9000
    project.close()


def test_what_was_cut_off_is_the_turns_with_a_doubt(work: Path, tmp_path: Path) -> None:
    project = project_in(tmp_path)
    assert project.begin_command(turn_place(1), in_job=False, is_cancelled=never) == ""
    (work / "a.txt").write_text("half")
    project = project_in(tmp_path)  # the one before was killed
    assert project.begin_command(turn_place(2), in_job=False, is_cancelled=never) == ""
    assert project.finish_turn(turn_place(2)) == TurnChanges()
    (point,) = project.points()
    assert (point.position, [one.path for one in project.plan_undo((point.id,)).paths_with_outcome("ask")]) == (
        1,
        ["a.txt"],
    )
    project.close()


def test_a_kill_between_looking_and_writing_down_loses_nothing(work: Path, tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        project = project_in(tmp_path)
        project.begin_command(turn_place(1), in_job=False, is_cancelled=never)
        (work / "a.txt").write_text("changed")
        project._point_log.add_changes = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]  # killed before it is written down
        project.end_command(turn_place(1))
        os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    project = project_in(tmp_path)
    assert project.begin_command(turn_place(2), in_job=False, is_cancelled=never) == ""
    (point,) = project.points()
    assert [(one.path, one.other_cause) for one in project.merged_changes((point.id,))] == [
        ("a.txt", INTERRUPTED_COMMAND)
    ]
    project.close()


def test_two_sessions_work_on_one_project(work: Path, tmp_path: Path) -> None:
    one, other = project_in(tmp_path), project_in(tmp_path)
    here, there = turn_place(1, "one"), turn_place(1, "other")
    for project, place, name in ((one, here, "a.txt"), (other, there, "b.txt")) * 2:
        assert project.begin_command(place, in_job=False, is_cancelled=never) == ""
        (work / name).write_text(f"{place.session} {os.urandom(4).hex()}")
        assert project.end_command(place) == ""
    assert (one.finish_turn(here).files, other.finish_turn(there).files) == (("a.txt",), ("b.txt",))
    (mine,) = one.points("one")
    one.restore(one.plan_undo((mine.id,)), here, "undo")
    assert (work / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert (work / "b.txt").exists()
    one.close()
    other.close()


NAMES = ("a", "b", "c/d", "c/e", "c/f/g", "A", "c")
ACTS = st.tuples(
    st.sampled_from(("write", "remove", "rename", "link", "mkdir", "chmod")),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.binary(max_size=6),
)


def act(work: Path, acts: list[tuple[str, str, str, bytes]]) -> None:
    for verb, name, other, content in acts:
        path = work / name
        try:
            match verb:
                case "write":
                    write_file(path, content)
                case "remove":
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
                case "rename":
                    path.rename(work / other)
                case "link":
                    path.symlink_to(other)
                case "mkdir":
                    path.mkdir(parents=True)
                case "chmod":
                    if not path.is_symlink():
                        path.chmod(0o700 | len(content) * 8 + 7)
        except OSError:
            continue


@given(
    first=st.lists(ACTS, max_size=6),
    turns=st.lists(st.tuples(st.lists(ACTS, max_size=5), st.lists(ACTS, max_size=3)), min_size=1, max_size=2),
)
@settings(max_examples=max(20, settings().max_examples // 3))
def test_undo_then_redo_is_as_before_and_nothing_of_the_users_is_lost(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[tuple[str, str, str, bytes]],
    turns: list[tuple[list[tuple[str, str, str, bytes]], list[tuple[str, str, str, bytes]]]],
) -> None:
    folder = tmp_path_factory.mktemp("any")
    work = folder / "work"
    work.mkdir()
    act(work, first)
    project = project_in(folder)
    agent = Agent(project)
    for by_agent, by_user in turns:
        with agent.turn():
            act(work, by_agent)
        act(work, by_user)
    now = tree(work)
    touched = {change.path for point in project.points() for change in project.merged_changes((point.id,))}
    steps = 0
    with suppress(RestoreFailed):  # a folder is where a file was, and the user has put something into it
        while next_undo(project.points()) is not None:
            undone(project, forced=True)
            steps += 1
    others = {path: what for path, what in now.items() if path not in touched}
    found = tree(work)
    assert {path: what for path, what in others.items() if what[0] != "folder"}.items() <= found.items()
    for _ in range(steps):
        redone(project)
    assert tree(work) == now
    project.close()
    shutil.rmtree(folder)


def test_a_damaged_database_is_set_aside_and_kept(work: Path, tmp_path: Path) -> None:
    project_in(tmp_path).close()
    database = checkpoint_folder(tmp_path / "data", work) / "checkpoints.db"
    database.write_bytes(b"no database" * 1000)
    project = project_in(tmp_path)
    assert project.points() == ()
    (damaged,) = database.parent.glob("checkpoints.db.damaged-*")
    assert damaged.read_bytes() == b"no database" * 1000
    project.close()


def test_only_one_brings_files_back_at_a_time(work: Path, tmp_path: Path) -> None:
    project, other = project_in(tmp_path), project_in(tmp_path)
    agent = Agent(project)
    with agent.turn():
        change_everything(work)
    with other._recovery.lock_restores(), pytest.raises(RestoreFailed, match="another program is restoring"):
        undone(project)
    undone(project)
    project.close()
    other.close()


@pytest.mark.parametrize("call", ["open", "rename", "unlink"])
def test_a_restore_that_is_killed_is_finished_by_the_next_one(work: Path, tmp_path: Path, call: str) -> None:
    before = tree(work)
    project = project_in(tmp_path)
    agent = Agent(project)
    with agent.turn():
        change_everything(work)
    project.close()
    after = tree(work)
    kills = 0
    for count in range(1, 200, 2 if call != "open" else 19):
        child = os.fork()
        if child == 0:
            _undo_until_killed(tmp_path, call, count)
        _, status = os.waitpid(child, 0)
        kills += os.WIFSIGNALED(status)
        project = project_in(tmp_path)
        project.finish_interrupted_restores()
        assert tree(work) in (before, after)
        if tree(work) == before:
            redone(project)
        assert tree(work) == after
        project.close()
        if not os.WIFSIGNALED(status):
            break
    assert kills >= 1


def _undo_until_killed(folder: Path, name: str, count: int) -> NoReturn:
    calls = itertools.count(1)
    real: Callable[..., object] = getattr(os, name)

    def killing(*args: object, **kwargs: object) -> object:
        if next(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    setattr(os, name, killing)
    try:
        undone(project_in(folder))
    finally:
        os._exit(0)
