"""A store in a thread of its own."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from agent.errors import StoreFailed
from store.errors import StoreError
from store.sessions import SessionStore

PATIENCE, PAUSE = 600.0, 0.2
"""Seconds for which something waits for a database that another program holds, and between two tries."""
WAITING = "another program holds the session database; what is to be stored waits in memory until it lets go"
WRITTEN = "the session database is free again, and all that waited is stored"

P = ParamSpec("P")
T = TypeVar("T")


class StoreThread:
    """A session store in a thread of its own, which opened it."""

    def __init__(self, open_store: Callable[[], SessionStore]) -> None:
        self._open = open_store
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._store: SessionStore | None = None

    async def open(self) -> SessionStore:
        """Opens the store. Its methods are to be called through `run` only. Raises `StoreFailed`."""
        self._store = await self.run(self._open)
        return self._store

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of the work, done in the store's thread. Raises `StoreFailed`."""
        loop = asyncio.get_running_loop()
        try:
            # Shielded: a cancelled caller must not leave half of a write behind its back.
            return await asyncio.shield(loop.run_in_executor(self._executor, lambda: work(*args, **kwargs)))
        except StoreError as error:
            raise StoreFailed(str(error), error.reason) from error

    async def persist(self, tell: Callable[[str], None], work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `run`, for what must not be lost: while another program holds the database it waits in memory, which is
        told, and is tried again for ten minutes. Raises `StoreFailed`."""
        began, has_told = time.monotonic(), False
        while True:
            try:
                result = await self.run(work, *args, **kwargs)
            except StoreFailed as error:
                if error.reason != "locked" or time.monotonic() - began >= PATIENCE:
                    raise
                if not has_told:
                    tell(WAITING)
                has_told = True
            else:
                if has_told:
                    tell(WRITTEN)
                return result
            await asyncio.sleep(PAUSE)

    async def close(self) -> None:
        if self._store is not None:
            await self.run(self._store.close)
            self._store = None
        self._executor.shutdown()
