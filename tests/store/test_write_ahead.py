"""The log of a database: what is on the disk when, and what others can do meanwhile."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ebbtide.store import sessions
from ebbtide.store.checkpoints import CheckpointStore
from ebbtide.store.connection import open_connection
from ebbtide.store.open_databases import OpenDatabase
from ebbtide.store.sessions import SessionStore
from tests.store.conftest import ROW, message


def watched(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each file that the disk is waited for, from now on, was the log of the database. Others can write it
    meanwhile, or the wait fails."""
    synced, wait, log = list[bool](), os.fsync, path.with_name(f"{path.name}-wal")

    def fsync(handle: int) -> None:
        other = sqlite3.connect(path, isolation_level=None, timeout=0)
        other.execute("begin immediate")
        other.close()
        synced.append(os.path.samestat(os.fstat(handle), log.stat()))
        wait(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return synced


def test_the_end_of_a_turn_brings_everything_into_the_database_itself(store: SessionStore, path: Path) -> None:
    store.write(ROW.id, [message(0)])
    log = path.with_name(f"{path.name}-wal")
    assert log.stat().st_size > 0
    store.end_turn(ROW.id)
    assert log.stat().st_size == 0
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from messages").fetchall()
    store.write(ROW.id, [message(1)])
    store.end_turn(ROW.id)  # who reads meanwhile is neither waited for nor disturbed
    assert reader.execute("select count(*) from messages").fetchall() == [(1,)]
    reader.close()


def test_others_may_write_while_the_disk_is_waited_for(
    store: SessionStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = watched(path, monkeypatch)
    store.end_turn(ROW.id)
    assert synced == [True]
    assert (store.session(ROW.id) or ROW).updated > ROW.updated


def test_so_they_may_while_files_are_about_to_be_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(CheckpointStore(path)) as store:
        synced = watched(path, monkeypatch)
        with store.transaction():
            store.add_point(ROW.id, 0, "turn", "done", "fix it")
        assert synced == []
        with store.transaction(is_durable=True):
            store.add_point(ROW.id, 1, "undo", "restoring", "fix it")
        assert synced == [True]
        assert [point.state for point in store.points()] == ["done", "restoring"]


def without_shared_memory(path: Path | str, timeout: float, *, uri: bool = False) -> OpenDatabase:
    """A connection as on a file system of the network: SQLite locks by files there, and can have no log."""
    assert not uri
    return open_connection(f"file:{path}?vfs=unix-dotfile", timeout, uri=True)


def test_where_no_log_can_be_each_commit_is_on_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "open_connection", without_shared_memory)
    with closing(SessionStore(path)) as store:
        pragmas = [store.query(f"pragma {name}")[0][0] for name in ("journal_mode", "synchronous")]
        assert pragmas == ["delete", 3], "with less than `extra`, a loss of power could take a commit back"
        store.create(ROW)
        store.write(ROW.id, [message(0), message(1)])
        store.end_turn(ROW.id)
        with closing(SessionStore(path)) as other:
            other.write(ROW.id, [message(2)])
            other.end_turn(ROW.id)
            assert store.messages(ROW.id) == other.messages(ROW.id) == (message(0), message(1), message(2))
    assert sorted(each.name for each in path.parent.iterdir()) == ["sessions.db"]


def test_commits_return_to_the_quick_kind(store: SessionStore, path: Path) -> None:
    store.end_turn(ROW.id)
    assert [store.query(f"pragma {name}")[0][0] for name in ("journal_mode", "synchronous")] == ["wal", 1]
