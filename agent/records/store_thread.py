"""Runs a session store in its own thread."""

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
    """A session store that is opened and used in its own thread."""

    def __init__(self, open_store: Callable[[], SessionStore]) -> None:
        self._open = open_store
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._store: SessionStore | None = None

    async def open(self) -> SessionStore:
        """Open the store and return it; its methods must be called through `run`. Raises `StoreFailed`."""
        self._store = await self.run(self._open)
        return self._store

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in the store's thread and return its result. Raises `StoreFailed`."""
        loop = asyncio.get_running_loop()
        try:
            # Shielded, because cancelling the caller must not leave a write incomplete.
            return await asyncio.shield(loop.run_in_executor(self._executor, lambda: work(*args, **kwargs)))
        except StoreError as error:
            raise StoreFailed(str(error), error.reason) from error

    async def close(self) -> None:
        if self._store is not None:
            await self.run(self._store.close)
            self._store = None
        self._executor.shutdown()
