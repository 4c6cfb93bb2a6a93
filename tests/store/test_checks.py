"""What is looked at in a damaged database, which gives things in no order."""

from pathlib import Path

from store.checks import ReferenceChecks
from store.session_rows import MessageRow
from store.sessions import SessionStore
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
    assert ReferenceChecks(damaged).changed(ROW.id) == ()
    damaged.close()
