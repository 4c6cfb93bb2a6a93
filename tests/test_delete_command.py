"""`ebb sessions delete` as a user runs it: by ids, and by filters that are shown first."""

import fcntl
import json
from collections.abc import Sequence

import pexpect
import pytest

from tests.kit.commands import command, environment
from tests.kit.session import bash, calls
from tests.kit.user import DAY, User


def session_of(user: User, days: float = 0, *tags: str) -> str:
    session = str(user.ask({"text": "done"}).result["session"])
    user.query("update sessions set updated = updated - ? where id = ?", days * DAY, session)
    if tags:
        user.ebb("sessions", "tag", session, *tags)
    return session


def left(user: User) -> set[str]:
    return {str(id) for (id,) in user.query("select id from sessions")}


def test_filters_hold_together_and_what_they_mean_is_deleted_with_yes(user: User) -> None:
    young, old = session_of(user), session_of(user, 40)
    tagged, untagged = session_of(user, 40, "done"), session_of(user, 40, "keep")
    (other := user.home / "other").mkdir()
    elsewhere = str(user.ebb("-C", str(other), "-p", "go", "-m", user.script({"text": "x"}), "--output-format", "json")
                    .result["session"])  # fmt: skip
    everything = {young, old, tagged, untagged, elsewhere}
    user.query("update sessions set updated = 1000.0 where id = ?", elsewhere)
    assert user.ebb("sessions", "delete", "--older-than", "30d", "--tag", "done", "--yes").out == "deleted 1 session\n"
    assert left(user) == everything - {tagged}
    assert user.ebb("sessions", "delete", "--older-than", "30d", "--untagged", "-y").out == "deleted 1 session\n"
    assert left(user) == {young, untagged, elsewhere}
    run = user.ebb("sessions", "delete", "--project", str(other), "--older-than", "2020-01-31", "-y", "--json")
    assert run.result == {"deleted": [elsewhere], "kept": []}
    assert left(user) == {young, untagged}
    assert user.ebb("sessions", "delete", "--all", "--older-than", "2w", "--yes").out == "deleted 1 session\n"
    assert left(user) == {young}


def test_without_yes_and_without_a_terminal_nothing_is_deleted(user: User) -> None:
    old, young = session_of(user, 40), session_of(user)
    run = user.ebb("sessions", "delete", "--older-than", "30d", stdin="y\n")
    assert run.code == 2
    assert run.err == "ebb: nothing deleted: no terminal to confirm in; use `--yes`\n"
    preview, summary = run.out.splitlines()
    assert preview.startswith(f"{old}  ")
    assert summary == f"to be deleted: 1 session, 2 messages, of {user.project}"
    refused = user.ebb("sessions", "delete", "--older-than", "30d", "--json")
    assert (refused.code, refused.result) == (2, {"deleted": [], "would_delete": [old], "kept": []})
    dry = user.ebb("sessions", "delete", "--older-than", "30d", "--dry-run")
    assert (dry.code, dry.out, dry.err) == (0, run.out, "")
    assert left(user) == {old, young}
    nothing = user.ebb("sessions", "delete", "--older-than", "90d")
    assert (nothing.code, nothing.out, nothing.err) == (0, "no matching sessions\n", "")


@pytest.mark.parametrize(("answer", "deletes"), [("y", True), ("n", False), ("", False)])
def test_on_a_terminal_one_is_asked(user: User, answer: str, deletes: bool) -> None:
    old = session_of(user, 40)
    words = command("-C", str(user.project), "sessions", "delete", "--older-than", "30d")
    child = pexpect.spawn(words[0], words[1:], env=environment(user.home), encoding="utf-8", timeout=60)
    child.expect(f"{old}.*to be deleted: 1 session.*delete 1 session permanently\\? \\[y/N\\] ")
    child.sendline(answer)
    child.expect("deleted 1 session" if deletes else "nothing deleted")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert left(user) == (set() if deletes else {old})


def test_a_session_that_is_open_stays(user: User) -> None:
    first, second = session_of(user, 40), session_of(user, 40)
    with (user.data / "locks" / f"{first}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = user.ebb("sessions", "delete", "--all", "--yes", "--json")
        assert (run.code, run.result) == (0, {"deleted": [second], "kept": [{"id": first, "why": "it is open"}]})
        by_id = user.ebb("sessions", "delete", first)
        assert (by_id.code, by_id.err) == (1, f"ebb: session `{first}` was not deleted: it is open\n")
        assert left(user) == {first}
    assert user.ebb("sessions", "delete", first).out == f"deleted {first}  go\n"
    assert left(user) == set()


def test_a_session_in_which_no_model_answered_is_empty(user: User) -> None:
    answered = session_of(user)
    failed = str(user.ask({"error": "auth"}).result["session"])
    assert left(user) == {answered, failed}
    assert user.ebb("sessions", "delete", "--empty", "--yes").out == "deleted 1 session\n"
    assert left(user) == {answered}


def test_what_it_kept_goes_with_a_session(user: User) -> None:
    flags = ("--permission-mode", "auto")
    session = str(user.ask(calls(bash("seq 50000")), {"text": "done"}, flags=flags).result["session"])
    assert list((user.data / "blobs").glob("??/*"))
    user.ebb("sessions", "delete", "--all", "--yes")
    assert (left(user), [*(user.data / "blobs").glob("??/*")]) == (set(), [])
    assert not (user.data / "outputs" / session).exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no sessions named; give ids, or a filter"),
        (("abc", "--all"), "use either ids or filters"),
        (("--older-than", "soon"), "`soon` is not a time; write an age such as `30d`"),
        (("--older-than", "2026-02-31"), "is not a time"),
        (("--older-than", "-3d"), ""),
        (("--all", "--project", "."), ", not both"),
        (("--untagged", "--tag", "a"), ", not both"),
        (("--tag", "a b"), "is not a valid tag"),
        (("zzzz",), "there is no session `zzzz`"),
    ],
)
def test_what_cannot_be_meant_is_said_and_deletes_nothing(user: User, arguments: Sequence[str], message: str) -> None:
    session = session_of(user, 400)
    run = user.ebb("sessions", "delete", *arguments, "--yes")
    assert run.code == 2
    assert message in run.err
    assert "Traceback" not in run.err
    assert left(user) == {session}


def test_a_list_is_printed_in_lines_and_as_json(user: User) -> None:
    session = session_of(user, 0, "parser")
    (line,) = user.ebb("sessions", "list", "--json").lines
    assert {key: line[key] for key in line if key not in ("updated_at", "model")} == {
        "id": session, "title": "go", "messages": 2, "project": str(user.project), "tags": ["parser"],
    }  # fmt: skip
    forked = json.loads(user.ebb("sessions", "fork", session, "--json").out)
    assert forked["title"] == "go (fork)"
    renamed = user.ebb("sessions", "rename", forked["session"], "another", "--json")
    assert renamed.result == {"session": forked["session"], "title": "another"}
