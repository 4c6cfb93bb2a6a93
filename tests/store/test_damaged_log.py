"""The log beside a session database, damaged: SQLite drops what stands behind the damage, so nothing may be written."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ebbtide.store.errors import StoreError
from ebbtide.store.repair import is_damaged, repair_database
from ebbtide.store.session_rows import MessageRow
from ebbtide.store.sessions import SessionStore
from tests.store.conftest import ROW

COUNT = 12
HEADER, FRAME = 32, 24 + 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database as a killed program leaves it: half of what was written is in its log."""
    path = tmp_path / "data" / "sessions.db"
    store = SessionStore(path)
    store.create(ROW)
    store.write(ROW.id, [message(number) for number in range(COUNT // 2)])
    store.end_turn(ROW.id)
    for number in range(COUNT // 2, COUNT):
        store.write(ROW.id, [message(number)])
    whole = path.read_bytes(), log_of(path).read_bytes()
    store.close()
    path.write_bytes(whole[0])
    log_of(path).write_bytes(whole[1])
    return path


def message(number: int) -> MessageRow:
    return MessageRow(number, "user", f"words {number}", 5.0)


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def messages(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute("select position from messages order by position")]


def flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda log: log[:at] + bytes([log[at] ^ 1]) + log[at + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a page": flipped(HEADER + 2 * FRAME + 500),
    "the first page": flipped(HEADER + 500),
    "the sums of a page": flipped(HEADER + 2 * FRAME + 17),
    "what all pages have in common": flipped(HEADER + 2 * FRAME + 9),
    "the header": flipped(20),
    "its page size": flipped(10),
    "no header": lambda log: bytes(HEADER) + log[HEADER:],
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_transactions_behind_a_damage_are_kept_until_they_are_saved(kind: str, path: Path) -> None:
    log = DAMAGES[kind](log_of(path).read_bytes())
    log_of(path).write_bytes(log)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="doctor --repair"):
        SessionStore(path)
    assert (path.read_bytes(), log_of(path).read_bytes()) == (before, log)
    assert is_damaged(path, ())
    repair_database(path)
    assert messages(path) == list(range(COUNT))


@pytest.mark.parametrize("is_there", [True, False])
def test_a_log_without_its_database_is_kept_until_it_is_saved(is_there: bool, path: Path) -> None:
    path.unlink()
    if is_there:
        path.touch()
    log = log_of(path).read_bytes()
    with pytest.raises(StoreError, match="doctor --repair"):
        SessionStore(path)
    assert log_of(path).read_bytes() == log
    assert is_damaged(path, ())
    repair_database(path)
    assert messages(path) == list(range(COUNT))


ENDS: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "whole": (lambda log: log, COUNT),
    "cut in the last page": (lambda log: log[:-100], COUNT - 1),
    "half written": (flipped(-100), COUNT - 1),
    "no log": (lambda log: b"", COUNT // 2),
}


@pytest.mark.parametrize("kind", ENDS)
def test_what_a_killed_program_had_only_begun_keeps_nobody_out(kind: str, path: Path) -> None:
    change, count = ENDS[kind]
    log_of(path).write_bytes(change(log_of(path).read_bytes()))
    store = SessionStore(path)
    assert len(store.messages(ROW.id)) == count
    store.close()


@pytest.mark.parametrize("kind", ["whole", "no log"])
def test_a_hole_behind_a_log_is_not_read(kind: str, path: Path) -> None:
    """More than any memory holds."""
    change, count = ENDS[kind]
    log_of(path).write_bytes(change(log_of(path).read_bytes()))
    os.truncate(log_of(path), 1 << 38)
    assert not is_damaged(path, ())
    store = SessionStore(path)
    assert len(store.messages(ROW.id)) == count
    store.close()


def test_transactions_are_saved_from_a_damaged_log_with_a_hole_behind_it(path: Path) -> None:
    """A hole for which no disk has room: it is not copied, and not read."""
    log_of(path).write_bytes(DAMAGES["the header"](log_of(path).read_bytes()))
    os.truncate(log_of(path), 1 << 40)
    with pytest.raises(StoreError, match="doctor --repair"):
        SessionStore(path)
    assert is_damaged(path, ())
    repair_database(path)
    assert messages(path) == list(range(COUNT))


def test_a_log_that_another_program_is_writing_is_left_to_it(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("update sessions set title = 'other'")
        other.commit()
        store = SessionStore(path)
        assert len(store.messages(ROW.id)) == COUNT
        store.close()
