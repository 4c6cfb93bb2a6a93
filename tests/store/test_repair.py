"""A database that is repaired or brought to a newer version beside other programs: the one that was there is kept."""

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ebbtide.store.connection import back_up
from ebbtide.store.errors import StoreError
from ebbtide.store.migrations import MIGRATIONS
from ebbtide.store.repair import repair_database
from ebbtide.store.salvage import rows_in_pages
from ebbtide.store.session_rows import MessageRow
from ebbtide.store.sessions import SessionStore
from tests.store.conftest import ROW

COUNT = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of which the root of the messages is gone."""
    path = tmp_path / "data" / "sessions.db"
    store = SessionStore(path)
    store.create(ROW)
    store.write(ROW.id, [MessageRow(number, "user", f"words {number} " * 30, 5.0) for number in range(COUNT)])
    ((root,),) = store.query("select rootpage from sqlite_master where name = 'messages'")
    store.close()
    data = bytearray(path.read_bytes())
    data[(root - 1) * 4096 : root * 4096] = random.Random(1).randbytes(4096)
    path.write_bytes(data)
    return path


def files(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.parent.iterdir() if each.is_file()}


@contextmanager
def another(path: Path, work: str) -> Iterator[None]:
    """Another process that does something with the database, and has done it when this begins."""
    code = f"import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); {work}; print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        yield
        process.communicate(b"")


def test_rows_of_a_table_without_its_root_are_saved_page_by_page(path: Path) -> None:
    damaged = path.read_bytes()
    repaired = repair_database(path)
    assert (repaired.saved_rows["messages"], repaired.lost) == (COUNT, ())
    assert repaired.damaged_path.read_bytes() == damaged
    store = SessionStore(path)
    assert [row.position for row in store.messages(ROW.id)] == list(range(COUNT))
    store.close()


def test_a_device_in_the_place_of_the_log_is_not_read_without_end(path: Path) -> None:
    path.with_name("sessions.db-wal").symlink_to("/dev/zero")
    assert repair_database(path).saved_rows["messages"] == COUNT


def test_a_database_that_another_program_has_open_is_left_alone(path: Path) -> None:
    with another(path, "db.execute('select count(*) from sessions').fetchall()"):
        before = files(path)
        with pytest.raises(StoreError, match="another program is using"):
            repair_database(path)
        assert files(path) == before
    assert repair_database(path).saved_rows["messages"] == COUNT


def test_a_row_that_claims_to_be_larger_than_all_pages_is_left_out() -> None:
    page = bytearray(4096)
    page[0], page[3:5], page[8:10] = 0x0D, (1).to_bytes(2, "big"), (100).to_bytes(2, "big")
    page[100:106] = b"\xff\xff\xff\xff\x7f\x01"  # 34 GB, in pages that follow themselves
    page[106 + 489 : 110 + 489] = (3).to_bytes(4, "big")
    assert list(rows_in_pages(bytes(4096) + page + (3).to_bytes(4, "big") * 1024, 4096)) == []


def test_a_database_that_is_written_meanwhile_is_left_alone(path: Path) -> None:
    done = list[bool]()

    def write() -> None:
        if not done:
            done.append(True)
            with another(path, "db.execute('update sessions set title = 1'); db.commit()"):
                pass

    with pytest.raises(StoreError, match="another program is using"):
        repair_database(path, write)
    assert [each.name for each in path.parent.iterdir()] == ["sessions.db"]


def test_two_repairs_at_once_are_one_and_what_a_killed_one_left_goes(path: Path) -> None:
    (path.parent / "repair-killed").mkdir()
    messages = list[str]()

    def again() -> None:
        if not messages:
            with pytest.raises(StoreError, match="being repaired") as failed:
                repair_database(path)
            messages.append(failed.value.reason)

    assert repair_database(path, again).saved_rows["messages"] == COUNT
    assert messages == ["in use"]
    assert list(path.parent.glob("repair-*")) == []


def test_whoever_is_killed_at_the_end_leaves_the_damaged_one_in_its_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged, replace = path.read_bytes(), os.replace

    def killed(old: Path, new: Path) -> None:
        if new == path:
            raise KeyboardInterrupt
        replace(old, new)

    monkeypatch.setattr("ebbtide.store.repair.os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        repair_database(path)
    monkeypatch.undo()
    assert path.read_bytes() == damaged
    assert repair_database(path).saved_rows["messages"] == COUNT


def test_two_programs_that_bring_a_database_to_a_newer_version_keep_one_copy_of_the_older(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    older = len(MIGRATIONS) - 1
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for migrate in MIGRATIONS[:older]:
            migrate(db)
        db.execute(f"pragma user_version = {older}")
        SessionStore(path).close()
        copy = path.with_name(f"sessions.db.v{older}-backup")
        content = copy.read_bytes()
        assert back_up(db, path, older) == ""  # as a program does that found the older version a moment ago
        assert copy.read_bytes() == content
    assert sorted(each.name for each in tmp_path.iterdir()) == ["sessions.db", copy.name]
