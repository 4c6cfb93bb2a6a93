"""`ebb undo`, run as a user runs it."""

import stat
from contextlib import closing

from ebbtide.agent.checkpoints.project import ProjectCheckpoints
from ebbtide.store.locks import SessionLock
from tests.kit.checkpoints import LIMITS, never, turn_place
from tests.kit.commands import Run
from tests.kit.files import write_file
from tests.kit.git import commit_all, git
from tests.kit.session import bash, calls
from tests.kit.user import User


def worked(user: User) -> None:
    """A run that has made `a` by a tool and changed `b` by a command."""
    (user.project / "b").write_text("b\n")
    write = {"name": "write", "arguments": {"path": "a", "content": "new\n"}}
    command = {"name": "bash", "arguments": {"command": "echo more >> b"}}
    run = user.ask({"calls": [write, command]}, {"text": "Done."}, flags=("--permission-mode", "auto"))
    assert run.code == 0


AUTO = ("--permission-mode", "auto")


def changing(user: User, line: str) -> str:
    """A model that has a command run."""
    return user.script(calls(bash(line)), {"text": "Done."})


def files(user: User) -> dict[str, str]:
    return {path.name: path.read_text() for path in user.project.iterdir()}


def undo(user: User, *flags: str) -> Run:
    return user.ebb("undo", *flags)


def test_a_run_is_taken_back_and_brought_back(user: User) -> None:
    worked(user)
    after = files(user)
    dry = undo(user, "--dry-run", "--json")
    assert (dry.code, files(user)) == (0, after)
    assert dry.result == {
        "point": 1,
        "kind": "turn",
        "made": None,
        "paths": [
            {"path": "a", "outcome": "removed", "why": ""},
            {"path": "b", "outcome": "restored", "why": ""},
        ],
    }
    assert undo(user).out == "reverted turn 1: go\n  removed    a\n  restored   b\nto restore it, run `ebb undo 2`\n"
    assert files(user) == {"b": "b\n"}
    assert undo(user, "--redo", "--json").result["made"] == 3
    assert files(user) == after
    listed = undo(user, "--list", "--json")
    assert [(line["id"], line["kind"], line["undone"], line["files"]) for line in listed.lines] == [
        (3, "redo", False, ["a", "b"]),
        (2, "undo", True, ["a", "b"]),
        (1, "turn", False, ["a", "b"]),
    ]


def test_what_is_to_be_redone_has_no_id(user: User) -> None:
    worked(user)
    after = files(user)
    refused = undo(user, "--redo", "1")
    assert (refused.code, files(user)) == (2, after)
    assert refused.err == "ebb: `--redo` takes no id: `ebb undo ID` also reverts an undo\n"


def test_its_folders_are_for_the_user_alone(user: User) -> None:
    assert undo(user).code == 2
    made = [path for path in (user.data, *user.data.rglob("*")) if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}


def test_what_a_run_staged_is_taken_back_from_the_index_of_git(user: User) -> None:
    (user.project / "b").write_text("b\n")
    commit_all(user.project)
    command = {"name": "bash", "arguments": {"command": "echo more >> b; echo new > c; git add -A"}}
    assert user.ask({"calls": [command]}, {"text": "Done."}, flags=("--permission-mode", "auto")).code == 0
    assert git(user.project, "status", "--porcelain") == "M  b\nA  c"
    lines = [
        "reverted turn 1: go",
        "  removed    c",
        "  restored   b",
        "  restored   b (staged)",
        "  restored   c (staged)",
    ]
    assert sorted(undo(user).out.splitlines()) == sorted([*lines, "to restore it, run `ebb undo 2`"])
    assert (git(user.project, "status", "--porcelain"), git(user.project, "diff", "--cached", "--stat")) == ("", "")
    assert undo(user, "--redo").code == 0
    assert git(user.project, "status", "--porcelain") == "M  b\nA  c"


def test_what_somebody_else_changed_is_overwritten_only_when_told(user: User) -> None:
    worked(user)
    (user.project / "b").write_text("mine")
    refused = undo(user)
    assert (refused.code, files(user)["b"], "a" in files(user)) == (1, "mine", True)
    assert "1 file would lose newer changes: `b`: something else has changed it since" in refused.err
    assert (undo(user, "--skip").code, files(user)) == (0, {"b": "mine"})
    assert (undo(user, "--redo").code, undo(user, "--force").code, files(user)) == (0, 0, {"b": "b\n"})
    nothing = undo(user)
    assert (nothing.code, nothing.err) == (
        2,
        "ebb: nothing to undo: no recorded turn changed files here\n",
    )


def test_a_folder_that_is_reached_through_a_link_is_the_folder_itself(user: User) -> None:
    (user.project / "a.txt").write_text("old\n")
    link, other = user.home / "link", user.home / "other"
    write_file(other / "a.txt", "mine\n")
    link.symlink_to(user.project)
    user.ebb("-C", str(link), "-p", "go", "-m", changing(user, "echo new > a.txt; echo b > b.txt"), *AUTO)
    link.unlink()
    link.symlink_to(other)
    elsewhere = user.ebb("-C", str(link), "undo")
    assert (elsewhere.code, (other / "a.txt").read_text()) == (2, "mine\n")
    assert user.ebb("undo").code == 0
    assert [(path.name, path.read_text()) for path in user.project.iterdir()] == [("a.txt", "old\n")]


def test_ten_gigabytes_that_git_ignores_are_not_read(user: User) -> None:
    git(user.project, "init", "-q")
    (user.project / ".gitignore").write_text("data/\n")
    (user.project / "data").mkdir()
    for number in range(10):
        with (user.project / "data" / f"{number}.bin").open("wb") as file:
            file.truncate(10**9)
    (user.project / "a.txt").write_text("old\n")
    user.ebb("-p", "go", "-m", changing(user, "echo new > a.txt; rm data/3.bin"), *AUTO)
    assert user.ebb("undo").code == 0
    assert (user.project / "a.txt").read_text() == "old\n"
    assert len(list((user.project / "data").iterdir())) == 9
    assert sum(path.stat().st_size for path in user.data.rglob("*") if path.is_file()) < 2_000_000


def test_a_damaged_database_is_told(user: User) -> None:
    worked(user)
    (database,) = user.home.rglob("checkpoints.db")
    database.write_bytes(b"no database" * 1000)
    run = undo(user)
    (damaged_file,) = database.parent.glob("*.damaged-*")
    assert (run.code, run.err) == (
        2,
        f"ebb: the undo history of this folder was damaged; it was moved to `{damaged_file}`\n"
        "ebb: nothing to undo: no recorded turn changed files here\n",
    )


def test_nothing_is_taken_back_while_a_session_works(user: User) -> None:
    worked(user)
    after, lock = files(user), SessionLock(user.data / "locks", "other")
    lock.acquire()
    with closing(ProjectCheckpoints(user.data, user.project, LIMITS, 1_000_000)) as project:
        assert project.begin_command(turn_place(1, "other"), in_job=False, is_cancelled=never) == ""
        run = undo(user)
        message = "ebb: nothing changed: session `other` is working in this folder; try again when it is done\n"
        assert (run.code, run.err, files(user)) == (1, message, after)
        project.finish_turn(turn_place(1, "other"))
    lock.release()
    assert (undo(user).code, files(user)) == (0, {"b": "b\n"})
