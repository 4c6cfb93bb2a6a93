"""Messages that are damaged in the database of a real home: they are named, and the session goes on with all others."""

import json
import sqlite3

import pytest

from ebbtide.store.migrations import MIGRATIONS
from tests.kit.user import Worker


@pytest.mark.parametrize(
    ("position", "damage"),
    [*((number, "'{'") for number in range(6)), (1, "x'ff00'"), (2, "12"), *((number, "gone") for number in (0, 1, 2))],
)
def test_a_session_goes_on_without_a_message_that_is_damaged(position: int, damage: str, worker: Worker) -> None:
    session = worker.session("echo first", "echo second")
    if damage == "gone":
        worker.query("delete from messages where session = ? and position = ?", session, position)
    else:
        worker.query(f"update messages set body = {damage} where session = ? and position = ?", session, position)
    is_at_an_end = damage == "gone" and position in (0, 5)  # then nothing tells that it was there
    listing = worker.ebb("sessions", "show", session)
    problem = "" if is_at_an_end else f"ebb: message {position} of the session cannot be read; the others are shown\n"
    assert (listing.code, listing.err) == (0, problem)
    assert ("was damaged on disk" in listing.out) is not is_at_an_end
    assert ("second" in listing.out, "first" in listing.out) == (True, True)
    run = worker.ebb("-p", "more", "-c", "-m", worker.working(), "--output-format", "json")
    assert (run.code, run.result["result"]) == (0, "Done."), run.err
    assert (f"message {position} of the session cannot be read" in run.err) is not is_at_an_end
    for arguments in (
        ("sessions", "search", "second"),
        ("context",),
        ("sessions", "list"),
        ("sessions", "fork", session),
    ):
        run = worker.ebb(*arguments)
        assert (run.code, "Traceback" in run.err) == (0, False), (arguments, run.err)


@pytest.mark.parametrize("position", [0, 2, 5])
def test_a_session_goes_on_without_a_message_that_stands_where_none_can(position: int, worker: Worker) -> None:
    session = worker.session("echo first", "echo second")
    worker.query("delete from snapshots")
    worker.query("update messages set position = 1 << 40 where session = ? and position = ?", session, position)
    listing = worker.ebb("sessions", "show", session)
    assert (listing.code, f"{1 << 40} of the session cannot be read" in listing.err) == (0, True)
    run = worker.ebb("-p", "more", "-c", "-m", worker.working())
    assert (run.code, run.out) == (0, "Done.\n"), run.err
    for arguments in (("sessions", "search", "second"), ("context",), ("sessions", "fork", session)):
        run = worker.ebb(*arguments)
        assert (run.code, "Traceback" in run.err) == (0, False), (arguments, run.err)
    assert worker.ebb("doctor").code == 1


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_a_session_goes_on_without_its_beginning(count: int, worker: Worker) -> None:
    session = worker.session("echo first", "echo second", "echo third")
    worker.query("delete from snapshots")
    worker.query("delete from messages where session = ? and position < ?", session, count)
    run = worker.ebb("-p", "more", "-c", "-m", worker.working("echo fourth"), "--permission-mode", "auto")
    assert (run.code, run.out) == (0, "Done.\n"), run.err
    assert "of the session cannot be read" in run.err  # their outputs tell of them
    assert worker.query("select number, position from outputs") == [(1, 2), (2, 4), (3, 6), (4, 10)]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_what_can_be_read_of_outputs_stays_where_the_newest_messages_are_lost(count: int, worker: Worker) -> None:
    session = worker.session("seq 9000", "echo second", "seq 8000")
    worker.query("delete from snapshots")
    worker.query("delete from messages where session = ? and position >= ?", session, 8 - count)
    run = worker.ebb("-p", "more", "-c", "-m", worker.working("echo fourth"), "--permission-mode", "auto")
    assert (run.code, run.out) == (0, "Done.\n"), run.err
    numbers = [number for (number,) in worker.query("select number from outputs order by number")]
    assert numbers == [1, 2, 3, 4]
    assert worker.ebb("sessions", "show", session, "r3").out.startswith("1\n2\n3\n")


@pytest.mark.parametrize(("now", "text"), [("gX", "gX"), ("g\udcff", "g\N{REPLACEMENT CHARACTER}")])
def test_a_message_that_was_changed_is_named_and_shown_as_it_is(now: str, text: str, worker: Worker) -> None:
    session = worker.session("echo first")
    changed = "update messages set body = cast(replace(cast(body as blob), 'go', ?) as text) where session = ?"
    worker.query(f"{changed} and position = 0", now.encode("utf-8", "surrogateescape"), session)
    assert worker.ebb("sessions", "show", session).out.startswith(f"> {text}\n")
    run = worker.ebb("-p", "more", "-c", "-m", worker.working())
    assert run.out == "Done.\n"
    assert "message 0 of the session was changed on disk after it was written" in run.err
    found = worker.ebb("doctor", "-m", worker.working())
    assert found.code == 1
    assert f"{session}: message 0 changed on disk" in found.out


def test_a_database_is_copied_before_a_newer_version_changes_it(worker: Worker) -> None:
    worker.session("echo first")
    path = worker.data / "sessions.db"
    for version in range(len(MIGRATIONS) - 3, len(MIGRATIONS)):
        path.unlink(missing_ok=True)
        db = sqlite3.connect(path)
        for migrate in MIGRATIONS[:version]:
            migrate(db)
        db.execute(f"pragma user_version = {version}")
        db.execute("insert into sessions (id, project, title, model, mode, created, updated) values "
                   "('aaaaaaaaaaaa', ?, 'kept', 'm', 'ask', 1, 1)", (str(worker.project),))  # fmt: skip
        body = json.dumps({"parts": [{"type": "text", "text": "kept"}]})
        columns = "session, position, role, body, created"
        db.execute(f"insert into messages ({columns}) values ('aaaaaaaaaaaa', 0, 'user', ?, 1)", (body,))
        db.commit()
        db.close()
        copy = path.with_name(f"sessions.db.v{version}-backup")
        listed = worker.ebb("sessions", "list")
        assert (listed.code, str(copy) in listed.err) == (0, True), listed.err
        assert copy.stat().st_mode & 0o777 == 0o600
        ((found,),) = sqlite3.connect(copy).execute("pragma user_version").fetchall()
        assert found == version
        assert worker.ebb("sessions", "list").err == ""
    assert len(list(path.parent.glob("*-backup"))) == 2
