"""What a session writes while another program holds the database: on a real one."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.records import write_queue
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.write_queue import CLOSING_NOTICE, LOCKED_NOTICE, UNLOCKED_NOTICE, WriteQueue
from ebbtide.store.errors import StoreError
from ebbtide.store.session_rows import MessageRow, SessionRow
from ebbtide.store.sessions import SessionStore
from tests.kit.polling import until

ROW = SessionRow("aa11bb22cc33", "/p", "", "scripted/a", "ask", 1.0, 1.0)


@dataclass(slots=True)
class Desk:
    """A session's queue, and another program with the same database."""

    path: Path
    store: SessionStore
    queue: WriteQueue
    notices: list[str]
    other: sqlite3.Connection = field(init=False)

    def __post_init__(self) -> None:
        self.other = sqlite3.connect(self.path, isolation_level=None)

    def hold(self) -> None:
        self.other.execute("begin immediate")

    def let_go(self) -> None:
        self.other.execute("rollback")

    async def put(self, *positions: int) -> None:
        await self.queue.write(self.store.write, ROW.id, [MessageRow(n, "user", f'{{"n": {n}}}') for n in positions])

    @property
    def written(self) -> list[int]:
        return [position for (position,) in self.other.execute("select position from messages order by id")]

    async def hears(self, text: str) -> None:
        await until(lambda: text in self.notices)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    path, notices = tmp_path / "s.db", list[str]()
    thread = StoreThread(lambda: SessionStore(path, busy_timeout=0.05))
    store = await thread.open()
    await thread.run(store.create, ROW)
    opened = Desk(path, store, WriteQueue(thread, store, notices.append, Interrupt()), notices)
    yield opened
    opened.other.close()
    await opened.queue.close()
    await thread.close()


async def test_what_is_put_is_written_in_order(desk: Desk) -> None:
    await asyncio.gather(*(desk.put(n) for n in range(20)))
    assert (desk.written, desk.notices) == (list(range(20)), [])


async def test_a_held_database_is_waited_for_and_that_is_told_once(desk: Desk) -> None:
    desk.hold()
    putting = asyncio.gather(desk.put(0), desk.put(1))
    await desk.hears(LOCKED_NOTICE)
    assert desk.queue.is_blocked
    desk.let_go()
    await putting
    assert (desk.written, desk.notices, desk.queue.is_blocked) == ([0, 1], [LOCKED_NOTICE, UNLOCKED_NOTICE], False)


async def test_the_user_need_not_wait_and_nothing_is_lost(desk: Desk) -> None:
    desk.hold()
    putting = asyncio.create_task(desk.put(0))
    await desk.hears(LOCKED_NOTICE)
    desk.queue.interrupt.request()
    await putting
    await desk.put(1)
    assert desk.written == []
    desk.let_go()
    await desk.queue.wait_until_written()
    assert (desk.written, desk.notices) == ([0, 1], [LOCKED_NOTICE, UNLOCKED_NOTICE])


async def test_who_goes_on_is_told_again_and_comes_after_what_waits(desk: Desk) -> None:
    desk.hold()
    desk.queue.interrupt.request()
    await desk.put(0)
    await desk.hears(LOCKED_NOTICE)
    desk.notices.clear()
    desk.queue.interrupt.reset()
    putting = asyncio.create_task(desk.put(1))
    await desk.hears(LOCKED_NOTICE)
    desk.let_go()
    await putting
    assert (desk.written, desk.notices) == ([0, 1], [LOCKED_NOTICE, UNLOCKED_NOTICE])


async def test_a_session_closes_when_all_is_written(desk: Desk) -> None:
    desk.hold()
    desk.queue.interrupt.request()
    await desk.put(0)
    closing = asyncio.create_task(desk.queue.close())
    await desk.hears(CLOSING_NOTICE)
    assert not closing.done()
    desk.let_go()
    await closing
    assert desk.written == [0]
    assert desk.notices[-1] == UNLOCKED_NOTICE


async def test_who_does_not_wait_for_the_end_drops_what_waits(desk: Desk) -> None:
    desk.hold()
    desk.queue.interrupt.request()
    await desk.put(0)
    closing = asyncio.create_task(desk.queue.close())
    await desk.hears(CLOSING_NOTICE)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    desk.let_go()
    assert desk.written == []


async def test_a_failure_that_nobody_waited_for_is_told_and_is_the_next_ones(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.hold()
    desk.queue.interrupt.request()
    await desk.put(0)
    await desk.put(1)
    await desk.hears(LOCKED_NOTICE)
    monkeypatch.setattr(write_queue, "LOCK_TIMEOUT_S", 0.0)
    await desk.queue.wait_until_written()
    assert desk.notices[-1].endswith("is locked by another program; close it or try again; waiting changes were lost")
    desk.let_go()
    with pytest.raises(StoreFailed, match="is locked by another program"):
        await desk.put(2)
    desk.queue.interrupt.reset()
    await desk.put(3)
    assert desk.written == [3]


async def test_what_comes_after_a_lost_write_fails_with_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.hold()
    desk.queue.interrupt.request()
    await desk.put(0)
    desk.queue.interrupt.reset()
    putting = asyncio.create_task(desk.put(1))
    await desk.hears(LOCKED_NOTICE)

    def full(*_: object) -> None:
        raise StoreError("full", "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(SessionStore, "transaction", full)
        desk.let_go()
        with pytest.raises(StoreFailed, match="the disk is full"):
            await putting
    assert desk.notices[-1] == "the disk is full; waiting changes were lost"
    await desk.put(0)
    assert desk.written == [0]


async def test_a_fault_of_the_program_is_heard_by_who_waits(desk: Desk) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await desk.queue.write(broken)
    await desk.put(0)
    assert desk.written == [0]
