"""Writes a session's data one operation at a time. While another program locks the database, writes wait in memory."""

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
"""How long a write waits for a locked database, and the delay between attempts, in seconds."""
INTERRUPT_GRACE_S = 0.5
"""Minimum time to wait for a write before an interrupt can end the wait, in seconds."""
LOCKED_NOTICE = "another program has locked the session database; changes wait in memory until it is free"
CLOSING_NOTICE = (
    "another program has locked the session database; the session will close once its changes are stored; "
    "if you quit now, they are lost"
)
UNLOCKED_NOTICE = "the session database is free again; all changes are stored"

P = ParamSpec("P")


@dataclass(slots=True)
class _QueuedWrite:
    operation: Callable[[], None]
    completion: asyncio.Future[None]
    is_abandoned: bool = False
    """Whether the caller has stopped waiting for the write."""


class WriteQueue:
    """The write queue of one session."""

    def __init__(
        self, thread: StoreThread, store: SessionStore, notify: Callable[[str], None], interrupt: Interrupt
    ) -> None:
        """`notify`: receives notices about waiting. `interrupt`: the user's interrupt, which stops a wait."""
        self._thread = thread
        self._store = store
        self.notify = notify
        self.interrupt = interrupt
        self._writes: deque[_QueuedWrite] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._blocked_since: float | None = None
        self._has_notified = False
        self._unreported_error: BaseException | None = None
        """The error from a write that failed after its caller had stopped waiting. The next `write` raises it."""

    @property
    def is_blocked(self) -> bool:
        """Whether another program is known to have locked the database."""
        return self._blocked_since is not None or any(write.is_abandoned for write in self._writes)

    async def write(self, operation: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run `operation` in the store's thread, after all earlier writes. While another program locks the database,
        notify the user and wait for up to ten minutes. If the user interrupts the wait, return immediately; the queue
        still runs the operation later. Raises `StoreFailed`."""
        unreported_error, self._unreported_error = self._unreported_error, None
        if unreported_error is not None:
            raise unreported_error
        is_interrupted = self.interrupt.is_requested()
        self._has_notified = self._has_notified and is_interrupted
        write = _QueuedWrite(partial(operation, *args, **kwargs), asyncio.get_running_loop().create_future())
        self._writes.append(write)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._run_writes())
        try:
            await asyncio.wait(
                (write.completion,), timeout=0 if is_interrupted and self.is_blocked else INTERRUPT_GRACE_S
            )
            if not write.completion.done():
                await self.interrupt.race(_wait_until_done(write.completion))
        finally:
            write.is_abandoned = not write.completion.done()
        if not write.is_abandoned:
            write.completion.result()

    async def wait_until_written(self) -> None:
        """Wait until every queued write is done or has failed."""
        if self._worker is not None:
            await asyncio.wait((self._worker,))

    async def close(self) -> None:
        """Wait until every queued write is done or has failed. If another program causes the wait, notify the user. On
        cancellation, unwritten rows are discarded."""
        try:
            if self.is_blocked:
                self.notify(CLOSING_NOTICE)
                self._has_notified = True
            await self.wait_until_written()
        finally:
            if self._worker is not None:
                self._worker.cancel()

    async def _run_writes(self) -> None:
        while self._writes:
            error = await self._try_write(self._writes[0].operation)
            write = self._writes.popleft()
            if error is not None and write.is_abandoned:
                self._discard_later_writes(error)
            elif error is not None:
                write.completion.set_exception(error)
            elif not write.is_abandoned:
                write.completion.set_result(None)
        if self._has_notified:
            self._has_notified = False
            self.notify(UNLOCKED_NOTICE)

    async def _try_write(self, operation: Callable[[], None]) -> BaseException | None:
        """Run `operation`, retrying while the database is locked. Return the error, or None on success."""
        start_time = time.monotonic()
        while True:
            error: BaseException | None = None
            try:
                await self._thread.run(operation if self._blocked_since is None else partial(self._try_once, operation))
            except Exception as failure:  # noqa: BLE001  # passed on to the caller
                error = failure
            if not (isinstance(error, StoreFailed) and error.reason == "locked"):
                self._blocked_since = None
                return error
            self._blocked_since = self._blocked_since or start_time
            if time.monotonic() - self._blocked_since >= LOCK_TIMEOUT_S:
                return error
            if not self._has_notified:
                self._has_notified = True
                self.notify(LOCKED_NOTICE)
            await asyncio.sleep(RETRY_DELAY_S)

    def _try_once(self, operation: Callable[[], None]) -> None:
        """Run `operation` once, without waiting for the lock, so that the store's thread is free between attempts."""
        with self._store.without_waiting():
            operation()

    def _discard_later_writes(self, error: BaseException) -> None:
        """Discard the writes queued after a failed one, because a message must not be stored without its
        predecessor."""
        later_writes, self._writes = self._writes, deque()
        awaited_writes = [write for write in later_writes if not write.is_abandoned]
        for write in awaited_writes:
            write.completion.set_exception(error)
        self._unreported_error = None if awaited_writes else error
        self._has_notified = False
        self.notify(f"{error}; waiting changes were lost")


async def _wait_until_done(completion: asyncio.Future[None]) -> None:
    await asyncio.wait((completion,))
