"""The search index, as it is brought up to date by searches and by processes that may die at any moment."""

import asyncio
import os
import signal
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ebbtide.agent.archive import index_process, indexer, recall_search
from ebbtide.agent.archive.index_process import MAX_UNINDEXED_MESSAGES, index_in_background_if_behind
from ebbtide.agent.archive.indexer import Indexer
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import Text, User
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.index_lock import IndexLock, last_indexed_message
from ebbtide.store.queries import SearchQuery
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.recall_results import RecallQuery
from tests.kit.archived_sessions import opened
from tests.kit.polling import soon

T = TypeVar("T")
SESSIONS = ("a", "b", "c")
BATCH = 3


class Killed(BaseException):
    """Stands for a process that is killed: nothing after it is done, and its transaction is never committed."""


class SameThread(StoreThread):
    """Runs what is to be done at once; before the n-th piece of it, something else happens."""

    def __init__(self, store: SessionStore, pieces: int = -1, happening: Callable[[], None] = lambda: None) -> None:
        super().__init__(lambda: store)
        self.pieces_left = pieces
        self.happening = happening

    async def run(self, work: Callable[..., T], *args: object, **kwargs: object) -> T:
        if self.pieces_left == 0:
            self.happening()
        self.pieces_left -= 1
        return work(*args, **kwargs)


def dies() -> None:
    raise Killed


def messages_in(store: SessionStore, session: str, count: int) -> None:
    first = store.message_count(session)
    rows = [encode_message(User((Text(f"word {session}{at}"),)), at) for at in range(first, first + count)]
    store.write(session, rows)


class IndexMachine(RuleBasedStateMachine):
    """Sessions grow, are indexed by several processes, and are deleted; processes die between and in transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "sessions.db"
        self.stores = [SessionStore(self.path) for _ in range(2)]
        for session in SESSIONS:
            self.stores[0].create(SessionRow(session, "/p", "", "m", "ask", 1.0, 1.0))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(indexer, "MESSAGES_PER_BATCH", BATCH)
        self.patch.setattr(indexer, "start_index_process", lambda *arguments: False)

    @rule(session=st.sampled_from(SESSIONS), count=st.integers(1, 2 * BATCH))
    def writes(self, session: str, count: int) -> None:
        messages_in(self.stores[0], session, count)

    @rule(session=st.sampled_from(SESSIONS), pieces=st.integers(0, 12))
    def searches_and_may_die(self, session: str, pieces: int) -> None:
        self.index(lambda one: one.catch_up((session,), seconds=0.0), pieces, dies)

    @rule(pieces=st.integers(0, 12))
    def indexes_in_the_background_and_may_die(self, pieces: int) -> None:
        with closing(self.locked()) as lock:
            self.index(lambda one: one.index_everything(lock), pieces, dies)

    @rule(
        pieces=st.integers(0, 12),
        session=st.sampled_from(SESSIONS),
        other=st.sampled_from(("searches_elsewhere", "empties", "deletes", "writes_elsewhere")),
    )
    def indexes_while_another_process_acts(self, pieces: int, session: str, other: str) -> None:
        with closing(self.locked()) as lock:
            self.index(lambda one: one.index_everything(lock), pieces, lambda: getattr(self, other)(session))

    def searches_elsewhere(self, session: str) -> None:
        indexing = Indexer(SameThread(self.stores[1]), self.stores[1]).catch_up((session,), seconds=0.0)
        with suppress(StopIteration):  # in a loop that runs already: it waits for nothing
            while True:
                indexing.send(None)

    def writes_elsewhere(self, session: str) -> None:
        messages_in(self.stores[1], session, BATCH)

    @rule(session=st.sampled_from(SESSIONS))
    def deletes(self, session: str) -> None:
        self.stores[1].delete(session)
        self.stores[1].create(SessionRow(session, "/p", "", "m", "ask", 1.0, 1.0))

    @rule(session=st.sampled_from(SESSIONS))
    def empties(self, session: str) -> None:
        Indexer(SameThread(self.stores[1]), self.stores[1]).index.clear()

    @rule(process=st.integers(0, 1))
    def dies_in_a_transaction(self, process: int) -> None:
        store = self.stores[process]
        with suppress(Killed), store.transaction() as db:
            db.execute("insert or replace into indexed select id, 99, 99, 99 from sessions")
            raise Killed
        store.close()
        self.stores[process] = SessionStore(self.path)

    @precondition(lambda self: last_indexed_message(self.path) > 0)
    @rule()
    def loses_its_record(self) -> None:
        self.path.with_name("sessions.db-index").unlink()

    @invariant()
    def nothing_is_indexed_twice_or_with_a_gap(self) -> None:
        found = Counter((session, position) for session, position in self.documents())
        assert not [key for key, times in found.items() if times > 1]
        for session, position in self.stores[0].query("select session, position from indexed"):
            assert {at for one, at in found if one == session} == set(range(position))

    def teardown(self) -> None:
        with closing(self.locked()) as lock:
            self.index(lambda one: one.index_everything(lock))
        wanted = {
            (str(session), int(at)) for session, at in self.stores[0].query("select session, position from messages")
        }
        assert {*self.documents()} == wanted
        matches = Indexer(SameThread(self.stores[0]), self.stores[0]).index.find(SearchQuery("word", limit=999))
        assert {(match.session, match.document.position) for match in matches} == wanted
        assert last_indexed_message(self.path) == self.stores[0].last_message_id()
        for store in self.stores:
            store.close()
        self.patch.undo()
        self.folder.cleanup()

    def locked(self) -> IndexLock:
        lock = IndexLock.acquire(self.path)
        assert lock is not None, "a process that died kept the lock"
        return lock

    def index(
        self,
        work: Callable[[Indexer], Coroutine[None, None, None]],
        pieces: int = -1,
        happening: Callable[[], None] = dies,
    ) -> None:
        with suppress(Killed), closing(asyncio.new_event_loop()) as loop:
            loop.run_until_complete(work(Indexer(SameThread(self.stores[0], pieces, happening), self.stores[0])))

    def documents(self) -> list[tuple[str, int]]:
        return [(str(one), int(at)) for one, at in self.stores[0].query("select session, position from documents")]


TestIndexing = IndexMachine.TestCase
TestIndexing.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    store = SessionStore(tmp_path / "sessions.db")
    store.create(SessionRow("a", "/p", "", "m", "ask", 1.0, 1.0))
    messages_in(store, "a", MAX_UNINDEXED_MESSAGES + 1)
    store.close()
    return tmp_path / "sessions.db"


def indexed_count(database: Path) -> int:
    with closing(sqlite3.connect(database, timeout=30)) as db:
        ((count,),) = db.execute("select count(*) from documents").fetchall()
    return int(count)


async def test_what_a_killed_process_left_is_indexed_by_the_next_one(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = list[int]()
    detached = ("/bin/sh", "-c", f'"$@" & echo $! > {database}.pid', "sh")
    monkeypatch.setattr(index_process, "_START_DETACHED", detached)
    with closing(SessionStore(database)) as store:
        index_in_background_if_behind(store, None)
        processes.append(await asyncio.to_thread(read_process_id, database))
        assert IndexLock.acquire(database) is None, "the process does not hold the lock"
        await soon(lambda: indexed_count(database) > 0)
        os.kill(processes[0], signal.SIGKILL)
        await soon(lambda: try_lock(database))
        index_in_background_if_behind(store, None)
        await soon(lambda: last_indexed_message(database) == store.last_message_id())
        positions = store.query("select position from documents")
        assert sorted(positions) == [(at,) for at in range(MAX_UNINDEXED_MESSAGES + 1)]
        await soon(lambda: try_lock(database))
        index_in_background_if_behind(store, None)
        assert try_lock(database), "nothing was left to index"


def read_process_id(database: Path) -> int:
    return int(Path(f"{database}.pid").read_text())


def try_lock(database: Path) -> bool:
    lock = IndexLock.acquire(database)
    if lock is not None:
        lock.close()
    return lock is not None


async def test_a_search_that_leaves_something_starts_the_process(
    tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (indexer, recall_search):
        monkeypatch.setattr(module, "INDEX_TIMEOUT_S", 0.0)
    sessions = await opened(tmp_path)
    recall = sessions.recall("all")
    assert (await recall.search(RecallQuery("word"))).notes == (
        f"{MAX_UNINDEXED_MESSAGES - indexer.MESSAGES_PER_BATCH:,} older messages are not searchable yet; "
        "the rest is being indexed",
    )
    await soon(partial(try_lock, database))
    assert (await recall.search(RecallQuery(f"a{MAX_UNINDEXED_MESSAGES}"))).notes == ()
    await sessions.thread.close()


def test_few_messages_start_no_process(tmp_path: Path) -> None:
    with closing(SessionStore(tmp_path / "sessions.db")) as store:
        store.create(SessionRow("a", "/p", "", "m", "ask", 1.0, 1.0))
        messages_in(store, "a", MAX_UNINDEXED_MESSAGES)
        index_in_background_if_behind(store, None)
        assert not (tmp_path / "sessions.db-index").exists()
    with closing(SessionStore(":memory:")) as store:
        index_in_background_if_behind(store, None)


async def test_a_store_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    lock = IndexLock.acquire(tmp_path / "sessions.db")
    assert lock is not None
    with closing(lock), closing(SessionStore(tmp_path / "other.db")) as store:
        store.path = tmp_path / "sessions.db"
        assert index_process.start_index_process(store, lock, None)
    await soon(lambda: try_lock(tmp_path / "sessions.db"))
    assert not (tmp_path / "sessions.db").exists()


async def test_an_index_that_cannot_be_locked_says_why(tmp_path: Path) -> None:
    sessions = await opened(tmp_path)
    await sessions.says("a word")
    (tmp_path / "sessions.db-index").mkdir()
    with pytest.raises(StoreFailed, match="cannot be used"):
        await sessions.recall().search(RecallQuery("word"))
    await sessions.thread.close()
