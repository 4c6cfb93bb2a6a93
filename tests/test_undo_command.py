"""`ebb undo`, run as a user runs it."""

import subprocess

from tests.kit.user import User
from tests.running import Run


def worked(user: User) -> None:
    """A run that has made `a` by a tool and changed `b` by a command."""
    (user.project / "b").write_text("b\n")
    write = {"name": "write", "arguments": {"path": "a", "content": "new\n"}}
    command = {"name": "bash", "arguments": {"command": "echo more >> b"}}
    run = user.ask({"calls": [write, command]}, {"text": "Done."}, flags=("--permission-mode", "auto"))
    assert run.code == 0


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
    assert undo(user).out == "took back turn 1: go\n  removed    a\n  restored   b\n`ebb undo 2` brings it back\n"
    assert files(user) == {"b": "b\n"}
    assert undo(user, "--redo", "--json").result["made"] == 3
    assert files(user) == after
    listed = undo(user, "--list", "--json")
    assert [(line["id"], line["kind"], line["undone"], line["files"]) for line in listed.lines] == [
        (3, "redo", False, ["a", "b"]),
        (2, "undo", True, ["a", "b"]),
        (1, "turn", False, ["a", "b"]),
    ]


def test_what_a_run_staged_is_taken_back_from_the_index_of_git(user: User) -> None:
    def git(*arguments: str) -> str:
        git = ("git", "-C", str(user.project), "-c", "user.name=x", "-c", "user.email=x@x")
        return subprocess.run((*git, *arguments), check=True, capture_output=True, text=True).stdout

    (user.project / "b").write_text("b\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")
    command = {"name": "bash", "arguments": {"command": "echo more >> b; echo new > c; git add -A"}}
    assert user.ask({"calls": [command]}, {"text": "Done."}, flags=("--permission-mode", "auto")).code == 0
    assert git("status", "--porcelain") == "M  b\nA  c\n"
    lines = [
        "took back turn 1: go",
        "  removed    c",
        "  restored   b",
        "  restored   b (staged)",
        "  restored   c (staged)",
    ]
    assert sorted(undo(user).out.splitlines()) == sorted([*lines, "`ebb undo 2` brings it back"])
    assert (git("status", "--porcelain"), git("diff", "--cached", "--stat")) == ("", "")
    assert undo(user, "--redo").code == 0
    assert git("status", "--porcelain") == "M  b\nA  c\n"


def test_what_somebody_else_changed_is_overwritten_only_when_told(user: User) -> None:
    worked(user)
    (user.project / "b").write_text("mine")
    refused = undo(user)
    assert (refused.code, files(user)["b"], "a" in files(user)) == (1, "mine", True)
    assert "1 file would lose what is in it now: `b`: it was changed since" in refused.err
    assert (undo(user, "--skip").code, files(user)) == (0, {"b": "mine"})
    assert (undo(user, "--redo").code, undo(user, "--force").code, files(user)) == (0, 0, {"b": "b\n"})
    nothing = undo(user)
    assert (nothing.code, nothing.err) == (
        2,
        "ebb: there is nothing to undo: no turn has changed files here, as far as that is kept\n",
    )
