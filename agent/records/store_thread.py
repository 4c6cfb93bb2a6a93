"""A store in a thread of its own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from ebbtide.agent.errors import StoreFailed
from ebbtide.store.errors import StoreError
from ebbtide.store.sessions import SessionStore

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

    async def close(self) -> None:
        if self._store is not None:
            await self.run(self._store.close)
            self._store = None
        self._executor.shutdown()
