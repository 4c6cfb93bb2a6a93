"""Forks, the list of sessions and views from before rewrites, on real databases."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.store.archive import ArchiveStore
from ebbtide.store.blobs import BlobStore
from ebbtide.store.catalogue import ListedSession, SessionCatalogue
from ebbtide.store.forks import ForkStore
from ebbtide.store.session_rows import (
    MAX_STORED_VIEWS,
    FactRow,
    MessageRow,
    OutputRow,
    SnapshotRow,
    SummaryRow,
    UsageRow,
    ViewRow,
)
from ebbtide.store.sessions import SessionStore
from tests.store.conftest import ROW

FORK = replace(ROW, id="dd44ee55ff66", created=20.0, updated=20.0, parent=ROW.id, forked=2, family=ROW.id)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    opened = SessionStore(tmp_path / "sessions.db", blobs=BlobStore(tmp_path / "blobs"))
    opened.create(ROW)
    yield opened
    opened.close()


def message(position: int, text: str = "hi") -> MessageRow:
    return MessageRow(position, "user", text, 5.0, f"ref{position}")


def output(number: int, position: int, digest: str | None = None) -> OutputRow:
    return OutputRow(number, 0, position, f"c{number}", "bash", 9, 1, "text/plain", digest, 5.0)


def test_a_fork_has_what_its_parent_had_by_then_and_the_parent_stays(store: SessionStore) -> None:
    assert store.blobs is not None
    digest = store.blobs.put([b"kept apart"], ROW.id).digest
    store.write(
        ROW.id,
        [message(0), message(1), message(2), message(3)],
        [UsageRow("m", "step", 1, 1, 1, 1, 0.5)],
        SnapshotRow(4, "{}"),
        [FactRow("seen", "a", "1")],
        outputs=[output(1, 1, digest), output(2, 3)],
        summaries=[SummaryRow(1, 2, "one", 5.0), SummaryRow(2, 4, "two", 5.0)],
        previous_view=ViewRow(2, "before", 5.0),
    )
    store.write(ROW.id, previous_view=ViewRow(4, "later", 6.0))

    ForkStore(store).fork(FORK, SnapshotRow(2, "of the fork"), [FactRow("todos", "", "[]")])

    archive = ArchiveStore(store)
    assert store.session(FORK.id) == replace(FORK, messages=2)
    assert [row.position for row in store.messages(FORK.id)] == [0, 1]
    assert archive.messages_with_ref_prefix(FORK.id, "ref") == ((0, "ref0"), (1, "ref1"))
    assert archive.all_output_parts(FORK.id) == (output(1, 1, digest),)
    assert archive.summaries(FORK.id) == (SummaryRow(1, 2, "one", 5.0),)
    assert store.views(FORK.id) == (ViewRow(2, "before", 5.0, 1),)
    assert (store.snapshot(FORK.id), store.all_facts(FORK.id)) == (
        SnapshotRow(2, "of the fork"), (FactRow("todos", "", "[]"),),
    )  # fmt: skip
    assert (store.usage(FORK.id), len(store.messages(ROW.id)), store.snapshot(ROW.id)) == ((), 4, SnapshotRow(4, "{}"))

    store.delete(ROW.id)
    assert archive.collect_garbage().blob_count == 0
    assert kept_in(store.blobs, digest) == b"kept apart"
    assert (store.session(FORK.id) or ROW).parent is None
    store.delete(FORK.id)
    assert archive.collect_garbage().blob_count == 1


def test_a_fork_of_a_fork_stays_in_the_tree_when_the_one_between_goes(store: SessionStore) -> None:
    store.write(ROW.id, [message(0), message(1), message(2)])
    branches = ForkStore(store)
    branches.fork(FORK, None, ())
    store.write(FORK.id, [message(2), message(3)])
    second = replace(FORK, id="00aa00bb00cc", parent=FORK.id, forked=4, created=30.0)
    branches.fork(second, None, ())
    assert branches.family(second.id) == branches.family(ROW.id) == (ROW.id, FORK.id, second.id)

    store.delete(FORK.id)

    assert store.session(second.id) == replace(second, parent=ROW.id, forked=2, messages=4)
    assert branches.family(ROW.id) == (ROW.id, second.id)


def test_drafts_are_listed_when_something_was_said_in_them(store: SessionStore) -> None:
    store.write(ROW.id, [message(0), message(1)])
    ForkStore(store).fork(replace(FORK, draft=True), None, ())
    found = store.session(FORK.id)
    assert found is not None
    assert found.is_unused
    assert ForkStore(store).unused_drafts() == (FORK.id,)
    assert ForkStore(store).ancestry(FORK.id) == {FORK.id: 1 << 62, ROW.id: 2}
    assert [row.id for row in store.recent_sessions("/p")] == [ROW.id]
    store.write(FORK.id, [message(2)])
    assert ForkStore(store).unused_drafts() == ()
    assert [row.id for row in store.recent_sessions("/p")] == [FORK.id, ROW.id]


def test_messages_that_hold_a_text_are_found_by_role(store: SessionStore) -> None:
    store.write(ROW.id, [message(0, "one"), message(1, "two"), message(2, "one")._replace(role="assistant")])
    store.write(ROW.id, [message(3, "one more")])
    branches = ForkStore(store)
    assert branches.messages_containing(ROW.id, "user", "one") == ((0, "one", 5.0), (3, "one more", 5.0))
    assert branches.messages_containing(ROW.id, "user", "one", 1) == ((3, "one more", 5.0),)


def test_views_from_before_rewrites_are_kept_newest_first_and_the_oldest_go(store: SessionStore) -> None:
    for number in range(MAX_STORED_VIEWS + 3):
        store.write(ROW.id, previous_view=ViewRow(0, f"view {number}", 5.0))
    assert [row.number for row in store.views(ROW.id)] == list(range(MAX_STORED_VIEWS + 3, 3, -1))
    store.write(ROW.id, snapshot=SnapshotRow(0, "{}"), restored_view=MAX_STORED_VIEWS + 2)
    assert store.views(ROW.id)[0].body == f"view {MAX_STORED_VIEWS}"
    store.write(ROW.id, previous_view=ViewRow(0, "another", 5.0))
    assert store.views(ROW.id)[0] == ViewRow(0, "another", 5.0, MAX_STORED_VIEWS + 2)


def kept_in(blobs: BlobStore, digest: str) -> bytes:
    reader = blobs.open(digest)
    try:
        return b"".join(reader.chunks())
    finally:
        reader.close()


def listed(store: SessionStore, count: int) -> None:
    for number in range(count):
        row = replace(ROW, id=f"{number:012x}", title=f"Session 100%_{number}", updated=float(100 + number // 2))
        store.create(replace(row, project="/q" if number == 3 else "/p"))
        store.write(row.id, [message(0)], [UsageRow("m", "step", 1, 1, 1, 1, None if number == 1 else 0.5)] * 2)


def test_the_list_comes_a_page_at_a_time_and_each_session_once(store: SessionStore) -> None:
    listed(store, 7)
    catalogue, pages = SessionCatalogue(store), list[tuple[ListedSession, ...]]()
    while not pages or pages[-1]:
        after = (pages[-1][-1].session.updated, pages[-1][-1].row_order) if pages else None
        pages.append(catalogue.page(None, 3, after))
    found = [row for page in pages for row in page]
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert [row.session.id for row in found] == [f"{number:012x}" for number in range(6, -1, -1)]
    assert [row.cost for row in found] == [1.0, 1.0, 1.0, 1.0, 1.0, None, 1.0]
    assert [row.session.messages for row in found] == [1] * 7
    assert [row.session.id for row in catalogue.page("/q", 9)] == [f"{3:012x}"]
    assert catalogue.sessions_by_id((f"{2:012x}", "gone", f"{5:012x}")) == (found[4], found[1])


def test_titles_are_searched_word_by_word_and_literally(store: SessionStore) -> None:
    listed(store, 3)
    catalogue = SessionCatalogue(store)
    assert [row.session.id for row in catalogue.page(None, 9, words=("session", "_2"))] == [f"{2:012x}"]
    assert len(catalogue.page(None, 9, words=("100%_",))) == 3
    assert catalogue.page(None, 9, words=("100%x",)) == ()
    assert catalogue.page(None, 9, words=("\\",)) == ()


def test_a_page_is_found_without_a_look_at_every_session(store: SessionStore) -> None:
    listed(store, 1)
    plans = store.query(
        "explain query plan select s.rowid from sessions s where (s.updated, s.rowid) < (5, 3) "
        "order by s.updated desc, s.rowid desc limit 9"
    )
    assert [plan[3] for plan in plans] == ["SEARCH s USING COVERING INDEX sessions_by_time (updated<?)"]
