"""The session database, on a real file."""

import sqlite3
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.store.errors import StoreError
from ebbtide.store.locks import SessionLock
from ebbtide.store.migrations import MIGRATIONS
from ebbtide.store.session_rows import FactRow, RewriteRow, SnapshotRow, UsageRow, UsageTotal
from ebbtide.store.sessions import SessionStore
from tests.kit.files import write_file
from tests.store.conftest import ROW, message


def test_what_is_written_is_read_back_by_another_connection(path: Path) -> None:
    store = SessionStore(path)
    usage = UsageRow("scripted/a", "step", 10, 20, 30, 40, 0.5, 7.0)
    store.create(ROW)
    store.write(ROW.id, [message(0), message(1, "there")], [usage], SnapshotRow(2, "{}"))
    store.close()

    again = SessionStore(path)
    assert again.session(ROW.id) == replace(ROW, messages=2)
    assert again.messages(ROW.id) == (message(0), message(1, "there"))
    assert again.messages(ROW.id, start=1) == (message(1, "there"),)
    assert again.usage(ROW.id) == (usage,)
    assert again.snapshot(ROW.id) == SnapshotRow(2, "{}")
    again.close()


def test_a_transaction_that_fails_leaves_nothing_behind(store: SessionStore) -> None:
    store.write(ROW.id, [message(0)])
    with pytest.raises(StoreError, match="was changed by another program"):
        store.write(ROW.id, [message(1), message(0)], [UsageRow("m", "step", 1, 1, 1, 1, None)])
    assert store.messages(ROW.id) == (message(0),)
    assert store.usage(ROW.id) == ()


def test_deleting_a_session_takes_everything_of_it_along(store: SessionStore) -> None:
    store.write(ROW.id, [message(0)], [UsageRow("m", "step", 1, 1, 1, 1, None)], SnapshotRow(1, "{}"))
    store.delete(ROW.id)
    assert (store.session(ROW.id), store.messages(ROW.id), store.usage(ROW.id), store.snapshot(ROW.id)) == (
        None,
        (),
        (),
        None,
    )


def test_recent_lists_the_project_newest_first_and_leaves_out_empty_sessions(path: Path) -> None:
    store = SessionStore(path)
    for number, project in enumerate(["/p", "/q", "/p", "/p"]):
        store.create(replace(ROW, id=f"{number:012x}", project=project, updated=float(number)))
        if number != 3:
            store.write(f"{number:012x}", [message(0)])
    assert [row.id for row in store.recent_sessions("/p")] == [f"{2:012x}", f"{0:012x}"]
    assert [row.id for row in store.recent_sessions()] == [f"{2:012x}", f"{1:012x}", f"{0:012x}"]
    store.close()


def test_a_prefix_is_taken_literally(store: SessionStore) -> None:
    assert [row.id for row in store.sessions_with_prefix("aa11")] == [ROW.id]
    assert store.sessions_with_prefix("%") == ()
    assert store.sessions_with_prefix("aa11", project="/other") == ()


def test_only_the_user_can_read_the_database(path: Path) -> None:
    SessionStore(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_database_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    SessionStore(path).close()
    db = sqlite3.connect(path)
    db.execute(f"pragma user_version = {len(MIGRATIONS) + 1}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        SessionStore(path)
    assert caught.value.reason == "newer"
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    write_file(path, b"this is not a database, whatever its name says" * 100)
    with pytest.raises(StoreError) as caught:
        SessionStore(path)
    assert caught.value.reason == "corrupt"
    assert path.read_bytes().startswith(b"this is not")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot open the session database") as caught:
        SessionStore(tmp_path / "file" / "sessions.db")
    assert caught.value.reason == "unreadable"


def test_a_database_that_another_program_holds_is_reported_as_locked(path: Path) -> None:
    SessionStore(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin exclusive")
    store = SessionStore(path, busy_timeout=0.01)
    with pytest.raises(StoreError) as caught:
        store.create(ROW)
    assert caught.value.reason == "locked"
    other.execute("rollback")
    store.create(ROW)
    store.close()
    other.close()


def test_two_writers_do_not_lose_each_other_s_messages(path: Path) -> None:
    SessionStore(path).close()
    errors: list[Exception] = []

    def write(session: str) -> None:
        try:
            store = SessionStore(path)
            store.create(replace(ROW, id=session))
            for position in range(50):
                store.write(session, [message(position)])
            store.close()
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(f"{n:012x}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = SessionStore(path)
    assert errors == []
    assert [len(store.messages(f"{n:012x}")) for n in range(3)] == [50, 50, 50]
    store.close()


def test_many_that_make_a_database_at_once_all_have_it(tmp_path: Path) -> None:
    """SQLite itself waits for nobody when it begins a log."""
    errors: list[Exception] = []

    def open_one(path: Path, start: threading.Barrier) -> None:
        start.wait()
        try:
            SessionStore(path).close()
        except StoreError as error:
            errors.append(error)

    for number in range(10):
        start = threading.Barrier(6)
        path = tmp_path / str(number) / "sessions.db"
        threads = [threading.Thread(target=open_one, args=(path, start)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_a_session_is_open_in_one_place_at_a_time(tmp_path: Path) -> None:
    first, second = SessionLock(tmp_path, "s"), SessionLock(tmp_path, "s")
    first.acquire()
    with pytest.raises(StoreError) as caught:
        second.acquire()
    assert caught.value.reason == "in use"
    first.release()
    second.acquire()
    second.release()
    second.release()
    assert list(tmp_path.iterdir()) == []


def plan_of(path: Path, statement: str, values: tuple[object, ...]) -> str:
    with sqlite3.connect(path) as db:
        rows = db.execute(f"explain query plan {statement}", values).fetchall()
    db.close()
    return "; ".join(row[3] for row in rows)


def test_a_resume_searches_indexes_and_scans_nothing(path: Path) -> None:
    store = SessionStore(path)
    store.create(ROW)
    asked: list[str] = []
    store._db.set_trace_callback(asked.append)
    store.session(ROW.id)
    store.messages(ROW.id, 5)
    store.messages_before(ROW.id, 5, 2)
    store.snapshot(ROW.id)
    store.usage_total(ROW.id)
    store.all_facts(ROW.id)
    store.close()
    plans = [plan_of(path, statement, ()) for statement in asked]
    assert [plan for plan in plans if "SCAN" in plan or "TEMP B-TREE" in plan] == []
    assert any("(session=? AND position>?)" in plan for plan in plans)
    assert any("usage USING COVERING INDEX" in plan for plan in plans)


def test_older_messages_are_read_a_page_at_a_time(store: SessionStore) -> None:
    store.write(ROW.id, [message(position) for position in range(7)])
    assert store.messages_before(ROW.id, 5, 2) == (message(3), message(4))
    assert store.messages_before(ROW.id, 1, 5) == (message(0),)
    assert store.messages_before(ROW.id, 0, 5) == ()


def test_usage_adds_up_and_an_unknown_cost_makes_the_whole_unknown(store: SessionStore) -> None:
    assert store.usage_total(ROW.id) == UsageTotal(0, 0, 0, 0, 0.0)
    store.write(ROW.id, usage=[UsageRow("m", "step", 1, 2, 3, 4, 0.5), UsageRow("m", "summary", 1, 1, 1, 1, 0.25)])
    assert store.usage_total(ROW.id) == UsageTotal(2, 3, 4, 5, 0.75)
    store.write(ROW.id, usage=[UsageRow("m", "step", 1, 0, 0, 0, None)])
    assert store.usage_total(ROW.id) == UsageTotal(3, 3, 4, 5, None)


def test_facts_and_rewrites_are_written_with_the_rest(store: SessionStore) -> None:
    usage = UsageRow("m", "step", 1, 1, 1, 1, None, 5.0)
    rewrite = RewriteRow(3, "asked", "summary", 900, 100, 0.5, 6.0)
    store.write(
        ROW.id,
        usage=[usage, usage, usage._replace(created=7.0)],
        facts=[FactRow("seen", "a", "1"), FactRow("job", "j", "x")],
    )
    store.write(ROW.id, facts=[FactRow("seen", "a", "2")], deleted_facts=[("job", "j")], rewrites=[rewrite])
    assert store.all_facts(ROW.id) == (FactRow("seen", "a", "2"),)
    assert store.rewrites(ROW.id) == (rewrite._replace(requests=2),)
    store.delete(ROW.id)
    assert (store.all_facts(ROW.id), store.rewrites(ROW.id)) == ((), ())


def test_what_is_kept_for_a_model_is_there_for_every_session(path: Path) -> None:
    store = SessionStore(path)
    assert store.calibration("p/m") is None
    store.save_calibration("p/m", "first")
    store.save_calibration("p/m", "second")
    store.save_calibration("p/n", "other")
    store.close()
    again = SessionStore(path)
    assert [again.calibration(model) for model in ("p/m", "p/n", "p/o")] == ["second", "other", None]
    again.close()
