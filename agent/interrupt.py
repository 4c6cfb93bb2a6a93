"""The user's wish to stop, as a value that running work can race against."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupt:
    """Requested by the user, reset at the start of each turn."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def requested(self) -> bool:
        return self._event.is_set()

    def request(self) -> None:
        self._event.set()

    def reset(self) -> None:
        self._event.clear()

    async def race(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of the work, or None when the user was faster; the work is then cancelled and has ended."""
        if self._event.is_set():
            work.close()
            return None
        task = asyncio.ensure_future(work)
        waiter = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for running in (task, waiter):
                running.cancel()
            await asyncio.gather(task, waiter, return_exceptions=True)
