"""Writes of a session, executed one after the other. While another program locks the database, they wait in memory."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import ParamSpec

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.lazy import dataclass

LOCK_TIMEOUT_S, RETRY_DELAY_S = 600.0, 0.2
"""How long a write waits for a locked database, and the delay between two attempts, in seconds."""
INTERRUPT_GRACE_S = 0.5
"""How long a write may take, in seconds, before an interrupt takes precedence."""
LOCKED_NOTE = "another program has locked the session database; changes wait in memory until it is free"
CLOSING = (
    "another program has locked the session database; the session closes once its changes are stored: leaving "
    "now loses them"
)
UNLOCKED_NOTE = "the session database is free again; all changes are stored"

P = ParamSpec("P")


@dataclass(slots=True)
class _Write:
    work: Callable[[], None]
    done: asyncio.Future[None]
    is_left: bool = False
    """Whether its caller has stopped waiting."""


class WriteQueue:
    """The write queue of one session."""

    def __init__(
        self, thread: StoreThread, store: SessionStore, tell: Callable[[str], None], interrupt: Interrupt
    ) -> None:
        """`tell` is called with notices about waiting; `interrupt` is the user's interrupt."""
        self._thread = thread
        self._store = store
        self.tell = tell
        self.interrupt = interrupt
        self._writes: deque[_Write] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._held_since: float | None = None
        self._has_told = False
        self._lost: BaseException | None = None
        """Why a write failed whose caller had stopped waiting; raised by the next `put`."""

    @property
    def is_stuck(self) -> bool:
        """Whether another program is known to hold the database."""
        return self._held_since is not None or any(write.is_left for write in self._writes)

    async def put(self, work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run `work` in the store's thread, after all earlier writes. While another program locks the database, wait
        for up to ten minutes, with a notice. If the user interrupts meanwhile, return at once; the work is done
        later. Raises `StoreFailed`."""
        lost, self._lost = self._lost, None
        if lost is not None:
            raise lost
        is_over = self.interrupt.is_requested()
        self._has_told = self._has_told and is_over
        write = _Write(partial(work, *args, **kwargs), asyncio.get_running_loop().create_future())
        self._writes.append(write)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        try:
            await asyncio.wait((write.done,), timeout=0 if is_over and self.is_stuck else INTERRUPT_GRACE_S)
            if not write.done.done():
                await self.interrupt.race(_end(write.done))
        finally:
            write.is_left = not write.done.done()
        if not write.is_left:
            write.done.result()

    async def wait_until_written(self) -> None:
        """Wait until every queued write is done or reported lost."""
        if self._worker is not None:
            await asyncio.wait((self._worker,))

    async def close(self) -> None:
        """As `wait_until_written`, and report what it waits for. If it is cancelled, unwritten rows are dropped."""
        try:
            if self.is_stuck:
                self.tell(CLOSING)
                self._has_told = True
            await self.wait_until_written()
        finally:
            if self._worker is not None:
                self._worker.cancel()

    async def _work(self) -> None:
        while self._writes:
            failed = await self._try_write(self._writes[0].work)
            write = self._writes.popleft()
            if failed is not None and write.is_left:
                self._lose(failed)
            elif failed is not None:
                write.done.set_exception(failed)
            elif not write.is_left:
                write.done.set_result(None)
        if self._has_told:
            self._has_told = False
            self.tell(UNLOCKED_NOTE)

    async def _try_write(self, work: Callable[[], None]) -> BaseException | None:
        """Try the work until the database is free. Return the error, or None on success."""
        began = time.monotonic()
        while True:
            trying = self._thread.run(work if self._held_since is None else partial(self._at_once, work))
            (failed,) = await asyncio.gather(trying, return_exceptions=True)
            if not (isinstance(failed, StoreFailed) and failed.reason == "locked"):
                self._held_since = None
                return failed
            self._held_since = self._held_since or began
            if time.monotonic() - self._held_since >= LOCK_TIMEOUT_S:
                return failed
            if not self._has_told:
                self._has_told = True
                self.tell(LOCKED_NOTE)
            await asyncio.sleep(RETRY_DELAY_S)

    def _at_once(self, work: Callable[[], None]) -> None:
        """Try once without waiting, so that the store's thread stays free for others."""
        with self._store.without_waiting():
            work()

    def _lose(self, failed: BaseException) -> None:
        """Drop the following writes as well: a message must not be stored without the one before it."""
        behind, self._writes = self._writes, deque()
        waited_for = [write for write in behind if not write.is_left]
        for write in waited_for:
            write.done.set_exception(failed)
        self._lost = None if waited_for else failed
        self._has_told = False
        self.tell(f"{failed}; waiting changes were lost")


async def _end(done: asyncio.Future[None]) -> None:
    await asyncio.wait((done,))
