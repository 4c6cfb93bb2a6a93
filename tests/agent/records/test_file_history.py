"""Which files a session changed: kept when they are changed, compared when they are looked at. Real files, real git."""

import hashlib
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ebbtide.agent.records import git as records_git
from ebbtide.agent.records.file_change import FileChange, FileChanges
from ebbtide.agent.records.file_history import MAX_STORED_FILE_BYTES
from ebbtide.agent.records.git import GitChanges, find_git_changes
from ebbtide.agent.session import Session
from ebbtide.tools.process import git as process_git
from tests.kit.files import write_files, write_program
from tests.kit.git import git
from tests.kit.hostile_repository import TRAPS, forget_the_blob, hostile_repository, ran
from tests.kit.project import Project
from tests.kit.session import call, events_of

DONE = {"text": "ok"}
NO_GIT = "changes made by commands are unknown: this folder is not in a git repository"


def write(path: str, content: str) -> dict[str, object]:
    return {"calls": [call("write", path=path, content=content)]}


def shell(command: str) -> dict[str, object]:
    return {"calls": [call("bash", command=command)]}


@asynccontextmanager
async def opened(tmp_path: Path, *replies: object, resume: str | None = None) -> AsyncIterator[Session]:
    async with Project(tmp_path) as opened:
        yield await opened.session(*replies, resume=resume, mode="auto", interactive=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


async def test_a_file_is_compared_with_what_it_held_first(tmp_path: Path, project: Path) -> None:
    turns = [write("a", "1"), write("a", "2"), DONE, write("a", "3"), write("b", "new"), DONE]
    async with opened(tmp_path, *turns) as session:
        await events_of(session)
        assert await session.file_history.changes("turn") == FileChanges(
            "turn", (FileChange("a", None, b"2"),), (NO_GIT,)
        )
        await events_of(session)
        assert await session.file_history.changes_by_tools() == (
            FileChange("a", None, b"3"),
            FileChange("b", None, b"new"),
        )
        turn, whole = await session.file_history.changes("turn"), await session.file_history.changes("session")
    assert turn.files == (FileChange("a", b"2", b"3"), FileChange("b", None, b"new"))
    assert whole.files == (FileChange("a", None, b"3"), FileChange("b", None, b"new"))


async def test_a_session_that_goes_on_knows_what_it_changed(tmp_path: Path, project: Path) -> None:
    (project / "a").write_text("old")
    async with opened(tmp_path, {"calls": [call("read", path="a")]}, write("a", "new"), DONE) as session:
        await events_of(session)
        id = session.id
    (project / "a").write_text("by hand")
    async with opened(tmp_path, DONE, resume=id) as session:
        found = await session.file_history.changes("session")
    note = "changed since, not by this session's tools"
    assert found.files == (FileChange("a", b"old", b"by hand", note=note),)


async def test_files_that_go_move_and_come_back(tmp_path: Path, project: Path) -> None:
    write_files(project, {"a": "one\n", "b": "two\n"})
    patch = "*** Begin Patch\n*** Delete File: a\n*** Update File: b\n*** Move to: c\n*** End Patch"
    async with opened(tmp_path, {"calls": [call("apply_patch", patch=patch)]}, write("a", "one\n"), DONE) as session:
        await events_of(session)
        found = await session.file_history.changes("turn")
    assert set(found.files) == {
        FileChange("a", b"one\n", b"one\n", note="unchanged"),
        FileChange("b", b"two\n", None),
        FileChange("c", None, b"two\n"),
    }


async def test_what_is_not_known_is_said(tmp_path: Path, project: Path) -> None:
    write_files(project, {"big": "x" * (MAX_STORED_FILE_BYTES + 1), "gone": "y"})
    replies = [
        {"calls": [call("read", path="big"), call("read", path="gone")]},
        {"calls": [call("write", path="big", content="z"), call("write", path="gone", content="z")]},
        shell("rm gone && mkdir gone"),
        DONE,
    ]
    async with opened(tmp_path, *replies) as session:
        await events_of(session)
        big, gone = (await session.file_history.changes("turn")).files
    assert big == FileChange("big", current_content=b"z", incomparable_reason="its previous content was not stored")
    assert gone.incomparable_reason.startswith("its current content cannot be read: ")


async def test_bytes_that_were_removed_are_missed_and_said(tmp_path: Path, project: Path) -> None:
    (project / "a").write_text("old")
    async with opened(tmp_path, {"calls": [call("read", path="a")]}, write("a", "new"), DONE) as session:
        await events_of(session)
        digest = hashlib.sha256(b"old").hexdigest()
        blobs = list((tmp_path / "home").rglob(digest))
        assert len(blobs) == 1
        blobs[0].unlink()
        (found,) = (await session.file_history.changes("turn")).files
    assert found == FileChange("a", current_content=b"new", incomparable_reason="its previous content was not stored")


async def test_what_is_kept_stays_while_its_session_does(tmp_path: Path, project: Path) -> None:
    (project / "a").write_text("old")
    async with opened(tmp_path, {"calls": [call("read", path="a")]}, write("a", "new"), DONE) as session:
        await events_of(session)
        id = session.id
    (tmp_path / "home" / "data" / "blobs" / "tidied").unlink(missing_ok=True)
    async with opened(tmp_path, DONE, resume=id) as session:
        assert (await session.file_history.changes("session")).files == (FileChange("a", b"old", b"new"),)


async def test_git_tells_what_commands_changed(tmp_path: Path, project: Path) -> None:
    for name in ("kept", "edited", "removed", "by_tool"):
        (project / name).write_text(f"{name}\n")
    git(project, "init")
    git(project, "add", ".")
    git(project, "commit", "-m", "first")
    index = (project / ".git" / "index").read_bytes()
    command = "echo more >> edited; rm removed; echo new > made; touch kept"
    replies = [{"calls": [call("read", path="by_tool")]}, write("by_tool", "x\n"), shell(command), DONE]
    async with opened(tmp_path, *replies) as session:
        await events_of(session)
        found = await session.file_history.changes("session")
        turn = await session.file_history.changes("turn")
    assert set(found.files) == {
        FileChange("by_tool", b"by_tool\n", b"x\n"),
        FileChange("edited", b"edited\n", b"edited\nmore\n", is_by_tool=False),
        FileChange("removed", b"removed\n", None, is_by_tool=False),
        FileChange("made", None, b"new\n", is_by_tool=False),
    }
    assert set(turn.files) == set(found.files)
    assert found.notes == ("git compares with the last commit, which may be older than this session",)
    assert (project / ".git" / "index").read_bytes() == index


def test_what_programs_make_for_themselves_is_not_told_where_no_rule_ignores_it(project: Path) -> None:
    git(project, "init")
    write_files(
        project,
        ("a.py", "src/__pycache__/a.cpython-311.pyc", "node_modules/x/index.js", "old.pyc", "__pycache__/kept"),
        "x",
    )
    git(project, "add", "__pycache__/kept")
    git(project, "commit", "-m", "first")
    (project / "__pycache__/kept").write_text("tracked")
    assert {change.name for change in find_git_changes(project, (), 0.0).files} == {"a.py", "__pycache__/kept"}


def test_only_what_changed_since_then_is_told_of_a_turn(project: Path) -> None:
    git(project, "init")
    (project / "old").write_text("x")
    then = os.lstat(project / "old").st_ctime
    assert find_git_changes(project, (), then + 1).files == ()
    assert find_git_changes(project, (), then).files == (FileChange("old", None, b"x", is_by_tool=False),)


@pytest.fixture
def evil(project: Path) -> Path:
    return hostile_repository(project)


def test_nothing_that_a_repository_wants_to_run_is_run(tmp_path: Path, evil: Path) -> None:
    found = find_git_changes(evil, (), 0.0)
    assert {file for file in found.files if file.name in "abcd"} == {
        FileChange(name, b"one\n", b"two\n", is_by_tool=False) for name in "abcd"
    }
    forget_the_blob(evil)
    assert find_git_changes(evil, (), 0.0).files != ()
    assert ran(tmp_path) == set()


def test_a_git_that_is_asked_as_usual_runs_all_of_it(evil: Path) -> None:
    def ask(*arguments: str, given: str = "") -> None:
        subprocess.run(["git", *arguments], cwd=evil, capture_output=True, check=False, text=True, input=given)

    ask("status")
    patient = ("-c", "filter.z.process=")  # a broken process ends git
    for arguments in (("st",), ("diff", "a"), ("diff", "b"), ("diff", "--no-ext-diff", "a"), ("add", "d")):
        ask(*patient, *arguments)
    forget_the_blob(evil)
    ask("cat-file", "--batch-check", given="HEAD:d\n")
    assert ran(evil) == set(TRAPS)


@pytest.mark.parametrize(
    ("guards", "trap"),
    [
        (("core.fsmonitor",), "monitor"),
        (("GIT_OPTIONAL_LOCKS", "core.hooksPath"), "hook"),
        (("GIT_NO_LAZY_FETCH", "GIT_ALLOW_PROTOCOL"), "fetch"),
        (("GIT_NO_LAZY_FETCH",), ""),
        (("GIT_ALLOW_PROTOCOL",), ""),
        (("core.hooksPath",), ""),
        (("GIT_OPTIONAL_LOCKS",), ""),
    ],
    ids=" ".join,
)
def test_what_is_guarded_runs_without_its_last_guard(
    evil: Path, monkeypatch: pytest.MonkeyPatch, guards: tuple[str, ...], trap: str
) -> None:
    for guard in guards:
        guarding = process_git.SAFE_VARIABLES if guard in process_git.SAFE_VARIABLES else process_git.SAFE_SETTINGS
        monkeypatch.delitem(guarding, guard)
    find_git_changes(evil, (), 0.0)
    forget_the_blob(evil)
    find_git_changes(evil, (), 0.0)
    assert ran(evil) == ({trap} if trap else set())


def test_filters_run_where_they_are_not_turned_off(evil: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_git, "filter_disabling_settings", lambda git, root: {})
    find_git_changes(evil, (), 0.0)
    assert ran(evil) == {"clean", "strange", "process"}


ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_EXEC_PATH", "GIT_NAMESPACE")
WRITES = ("GIT_TRACE", "GIT_TRACE_SETUP", "GIT_TRACE2", "GIT_TRACE2_EVENT")
RUNS = ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_EDITOR")


def test_no_variable_points_git_elsewhere_or_makes_it_run_or_write_something(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(project, "init")
    (project / "a").write_text("one\n")
    git(project, "add", ".")
    git(project, "commit", "-m", "first")
    (project / "a").write_text("two\n")
    variables = {
        **{name: str(tmp_path / "elsewhere") for name in ELSEWHERE},
        **{name: str(tmp_path / "RAN-trace") for name in WRITES},
        **dict.fromkeys(RUNS, "touch RAN-program"),
        "GIT_CONFIG_PARAMETERS": "'core.fsmonitor'='touch RAN-parameter'",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": "touch RAN-count",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = find_git_changes(project, (), 0.0)
    assert found.files == (FileChange("a", b"one\n", b"two\n", is_by_tool=False),)
    assert ran(tmp_path) == set()


def test_a_program_of_the_project_is_not_taken_for_git(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(project / "git", "touch RAN\n")
    monkeypatch.setenv("PATH", f"{project}:{os.environ['PATH']}")
    assert find_git_changes(project, (), 0.0).files == ()
    assert not (project / "RAN").exists()


def test_names_and_kinds_of_files_that_git_tells_of(project: Path) -> None:
    git(project, "init")
    names = ["a b", "n\nl", "\x1b[2J", "日本", "-x"]
    write_files(project, names, "1")
    (project / "link").symlink_to("a b")
    git(project, "add", ".")
    git(project, "commit", "-m", "first")
    write_files(project, names, "2")
    (project / "link").unlink()
    inner = project / "inner"
    inner.mkdir()
    git(inner, "init")
    (project / "binary").write_bytes(b"\0\1")
    found = {file.name: file for file in find_git_changes(project, (), 0.0).files}
    assert [found[name].current_content for name in ("a b", "日本", "-x")] == [b"2", b"2", b"2"]
    assert len([file for file in found.values() if file.previous_content == b"1"]) == 5
    assert found["binary"].current_content == b"\0\1"
    assert found["link"].incomparable_reason == "a symbolic link in the last commit"


def test_a_folder_without_git_says_so(project: Path) -> None:
    assert find_git_changes(project, (), 0.0) == GitChanges(notes=(NO_GIT,))
