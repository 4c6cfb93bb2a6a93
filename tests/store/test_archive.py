"""Outputs in the database and their bytes beside it, on a real database and real files."""

import json
import os
import sqlite3
import time
from pathlib import Path

import pytest

from ebbtide.store.archive import ArchiveStore, FreedSpace
from ebbtide.store.blobs import BlobStore
from ebbtide.store.errors import StoreError
from ebbtide.store.migrations import MIGRATIONS
from ebbtide.store.session_rows import MessageRow, OutputRow, SessionRow, SummaryRow
from ebbtide.store.sessions import SessionStore


class Opened:
    """A store in a folder, with sessions `a` and `b`."""

    def __init__(self, folder: Path) -> None:
        self.blobs = BlobStore(folder / "blobs")
        self.store = SessionStore(folder / "s.db", blobs=self.blobs)
        self.archive = ArchiveStore(self.store)
        for session in ("a", "b"):
            self.store.create(SessionRow(session, "/p", "", "m", "ask", 1.0, 1.0))

    def keep(self, session: str, number: int, data: bytes, created: float = 1.0) -> OutputRow:
        blob = self.blobs.put([data], session)
        row = OutputRow(
            number, 0, number, f"c{number}", "bash", blob.size, blob.lines, "text/plain", blob.digest, created
        )
        self.store.write(session, outputs=[row])
        return row


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(tmp_path)


def test_outputs_are_found_by_session_and_number(opened: Opened) -> None:
    row = opened.keep("a", 1, b"one")
    inline = OutputRow(2, 0, 5, "c2", "read", 4, 1, "text/plain", created=2.0)
    picture = OutputRow(2, 1, 5, "c2", "read", 100, 0, "image/png", created=2.0)
    opened.store.write("a", outputs=[inline, picture])
    assert opened.archive.output_parts("a", 1) == (row,)
    assert opened.archive.output_parts("a", 2) == (inline, picture)
    assert opened.archive.output_parts("b", 1) == opened.archive.output_parts("a", 3) == ()
    assert [opened.archive.count_outputs_before("a", position) for position in (0, 2, 5, 6)] == [0, 1, 1, 2]


def test_an_access_is_counted(opened: Opened) -> None:
    opened.keep("a", 1, b"one")
    before = time.time()
    opened.archive.record_access("a", 1)
    opened.archive.record_access("a", 1)
    (row,) = opened.archive.output_parts("a", 1)
    assert row.accesses == 2
    assert row.accessed is not None
    assert row.accessed >= before


def test_summaries_are_kept_in_order(opened: Opened) -> None:
    rows = [SummaryRow(1, 10, "first", 1.0), SummaryRow(2, 30, "second", 2.0)]
    opened.store.write("a", summaries=rows)
    assert opened.archive.summaries("a") == tuple(rows)


def test_bytes_that_two_sessions_need_stay_while_one_of_them_does(opened: Opened) -> None:
    shared = opened.keep("a", 1, b"the same output")
    opened.keep("b", 1, b"the same output")
    own = opened.keep("a", 2, b"an output of its own")
    opened.store.delete("a")
    assert opened.archive.collect_garbage().blob_count == 1
    assert set(opened.blobs.sizes()) == {shared.digest}
    assert own.digest not in opened.blobs.sizes()
    opened.store.delete("b")
    freed = opened.archive.collect_garbage()
    assert (freed.blob_count, opened.blobs.sizes()) == (1, {})
    assert opened.archive.collect_garbage() == FreedSpace()


def test_a_crash_before_the_rows_are_written_leaves_no_row_and_bytes_that_are_collected(opened: Opened) -> None:
    blob = opened.blobs.put([b"never written down"], "a")
    unsettled = opened.blobs.folder / "incoming" / f"{blob.digest}.a"
    assert opened.archive.collect_garbage() == FreedSpace()
    assert unsettled.exists()
    os.utime(unsettled, (1.0, 1.0))
    opened.archive.collect_garbage()
    assert not unsettled.exists()
    # The process died after the file got its name and before the transaction was written.
    blob = opened.blobs.put([b"settled only"], "a")
    opened.blobs.commit(blob.digest, "a")
    assert opened.archive.collect_garbage().blob_count == 1
    assert opened.archive.all_output_parts("a") == ()


def test_a_transaction_that_fails_leaves_no_row_that_points_nowhere(opened: Opened) -> None:
    blob = opened.blobs.put([b"kept?"], "a")
    row = OutputRow(1, 0, 0, "c1", "bash", 5, 1, "text/plain", blob.digest)
    message = MessageRow(0, "user", "{}")
    opened.store.write("a", [message])
    with pytest.raises(StoreError, match="changed by another"):
        opened.store.write("a", [message], outputs=[row])
    assert opened.archive.all_output_parts("a") == ()


def test_bytes_are_removed_by_age_and_their_rows_say_so(opened: Opened) -> None:
    now = time.time()
    opened.keep("a", 1, b"old and never looked at", created=now - 1000)
    opened.keep("a", 2, b"old but looked at", created=now - 1000)
    opened.keep("a", 3, b"new", created=now)
    opened.archive.record_access("a", 2)
    assert opened.archive.expire(older_than=now - 500).freed.blob_count == 1
    states = {
        row.number: (row.digest is not None, row.removed is not None) for row in opened.archive.all_output_parts("a")
    }
    assert states == {1: (False, True), 2: (True, False), 3: (True, False)}


def test_bytes_are_removed_by_size_the_oldest_first(opened: Opened) -> None:
    for number in range(1, 6):
        opened.keep("a", number, os.urandom(10_000), created=float(number))
    opened.archive.expire(max_bytes=25_000)
    assert [row.number for row in opened.archive.all_output_parts("a") if row.digest is not None] == [4, 5]
    assert len(opened.blobs.sizes()) == 2


def test_the_outputs_of_sessions_before_there_was_an_archive_have_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    db = sqlite3.connect(path)
    for migrate in MIGRATIONS[:3]:
        migrate(db)
    db.execute("pragma user_version = 3")
    db.execute("insert into sessions values ('a', '/p', '', 'm', 'ask', 1, 1)")
    calls = [{"type": "call", "id": "c1", "name": "bash"}, {"type": "call", "id": "c2", "name": "read"}]
    picture = {"media_type": "image/png", "data": "aGVsbG8="}
    outputs = [
        {"type": "output", "call_id": "c1", "text": "é\nx", "whole": "/kept"},
        {"type": "output", "call_id": "c2", "images": [picture]},
        {"type": "note", "text": "n"},
    ]
    bodies = [{"parts": calls}, {"parts": outputs}, "not a message", {"parts": [{"type": "output", "call_id": "?"}]}]
    for position, body in enumerate(bodies):
        db.execute("insert into messages values (null, 'a', ?, '', ?, 7.0)", (position, json.dumps(body)))
    db.execute("insert into messages values (null, 'a', 9, '', 'broken', 7.0)")
    db.execute("insert into snapshots values ('a', 4, ?, 8.0)", (json.dumps({"summary": "what was"}),))
    db.commit()
    db.close()
    archive = ArchiveStore(SessionStore(path))
    assert archive.all_output_parts("a") == (
        OutputRow(1, 0, 1, "c1", "bash", 4, 2, "text/plain", created=7.0),
        OutputRow(2, 0, 1, "c2", "read", 0, 0, "text/plain", created=7.0),
        OutputRow(2, 1, 1, "c2", "read", 5, 0, "image/png", created=7.0),
        OutputRow(3, 0, 3, "?", "", 0, 0, "text/plain", created=7.0),
    )
    assert archive.summaries("a") == (SummaryRow(1, 4, '"what was"', 8.0),)
