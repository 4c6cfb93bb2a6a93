"""A database that a process has open several times, while other processes open and close it."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ebbtide.store.checkpoints import CheckpointStore
from ebbtide.store.checks import check_database
from ebbtide.store.open_databases import is_open_in_process
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from tests.kit.commands import ROOT

LOOKED_AT = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("select count(*) from sqlite_master").fetchone()[0] > 0)
db.close()
"""


def look_at(path: Path) -> None:
    """Another program opens the database and closes it. The last one to do so takes the log away."""
    done = subprocess.run(
        [sys.executable, "-c", LOOKED_AT, str(path)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "True\n"


def open_sessions(path: Path) -> None:
    SessionStore(path).close()


def examine(path: Path) -> None:
    check_database(path, lambda: None)


@pytest.mark.parametrize("touch", [open_sessions, examine], ids=["opened again", "examined"])
def test_what_is_written_after_it_was_opened_again_here_is_kept(touch: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with closing(SessionStore(path)) as store:
        store.create(SessionRow("a", "/p", "", "scripted/a", "ask", 1.0, 1.0))
        touch(path)
        look_at(path)
        assert path.with_name("sessions.db-wal").exists()
        store.create(SessionRow("b", "/p", "", "scripted/a", "ask", 1.0, 1.0))
        look_at(path)
    with closing(SessionStore(path)) as store:
        assert [id for id in ("a", "b", "c") if store.session(id) is not None] == ["a", "b"]


def test_checkpoints_that_two_sessions_have_open_keep_their_log(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.db"
    with closing(CheckpointStore(path)):
        CheckpointStore(path).close()
        look_at(path)
        assert path.with_name("checkpoints.db-wal").exists()


def test_it_is_open_here_until_the_last_connection_is_closed(tmp_path: Path) -> None:
    path, link = tmp_path / "sessions.db", tmp_path / "link.db"
    assert not is_open_in_process(path)
    first, second = SessionStore(path), SessionStore(path)
    link.symlink_to(path)
    first.close()
    assert is_open_in_process(link)
    second.close()
    second.close()
    assert not is_open_in_process(path)
    del first, second
    assert not is_open_in_process(path)
