"""What is looked at in a damaged database, which gives things in no order."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from ebbtide.store.checks import ReferenceChecks, check_database
from ebbtide.store.errors import StoreError
from ebbtide.store.session_rows import MessageRow
from ebbtide.store.sessions import SessionStore
from tests.store.conftest import ROW


def test_an_index_out_of_order_is_gone_through_once(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SessionStore(path)
    store.create(ROW)
    store.write(ROW.id, [MessageRow(number, "user", "{}") for number in range(8)])
    store.end_turn(ROW.id)
    ((root,),) = store.query("select rootpage from sqlite_master where name = 'sqlite_autoindex_messages_1'")
    store.close()
    data = bytearray(path.read_bytes())
    page = slice((root - 1) * 4096, root * 4096)
    assert data[page].count(b"aa11bb22cc33\x03") == 1
    data[page] = data[page].replace(b"aa11bb22cc33\x03", b"aa11bb22cc33\x7f")
    path.write_bytes(data)
    damaged = SessionStore(path)
    assert [row.position for row in damaged.messages(ROW.id)] == [0, 1, 2, 127, 4, 5, 6, 7]
    assert [row.position for row in damaged.messages(ROW.id, 8)] == [127, 4, 5, 6, 7]
    assert ReferenceChecks(damaged).altered_messages(ROW.id) == ()
    damaged.close()


def test_a_fault_that_sqlite_tells_in_damaged_bytes_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with closing(SessionStore(path)):
        pass
    data = path.read_bytes()
    path.write_bytes(data.replace(b"TABLE messages", b"\x9aABLE messages"))
    assert path.read_bytes() != data
    message = f"the session database `{path}` is damaged; `ebb doctor --repair` saves what can be read"
    for ask in (lambda: SessionStore(path), lambda: check_database(path, lambda: None)):
        with pytest.raises(StoreError) as error:
            ask()
        assert (str(error.value), error.value.reason) == (message, "corrupt")


def test_a_pipe_where_the_database_should_be_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    os.mkfifo(path)
    with pytest.raises(StoreError, match="is not a file; move it away"):
        check_database(path, lambda: None)
