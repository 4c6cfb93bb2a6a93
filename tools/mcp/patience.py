"""How long calls of a server may take: their clocks stand still while the server waits for us."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

MOST = 60
"""Times the time-out that a call may take at all, however often the server says that it goes on."""


class ServerTimeouts:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._running: dict[asyncio.Timeout, float] = {}
        """The calls, each with the time at which it ends in any case."""
        self._questions = 0

    @asynccontextmanager
    async def call(self) -> AsyncIterator[Callable[[], None]]:
        """Gives what is to be called whenever there is a sign of progress. Raises `TimeoutError`."""
        async with asyncio.timeout(None) as timeout:
            self._running[timeout] = _now() + MOST * self._seconds
            self._wind(timeout)
            try:
                yield lambda: self._wind(timeout)
            finally:
                del self._running[timeout]

    @contextmanager
    def question(self) -> Iterator[None]:
        """While the server waits for us, no call of it runs out of time: nobody knows which one is waiting."""
        self._questions += 1
        self._wind_all()
        try:
            yield
        finally:
            self._questions -= 1
            self._wind_all()

    def _wind_all(self) -> None:
        for timeout in self._running:
            self._wind(timeout)

    def _wind(self, timeout: asyncio.Timeout) -> None:
        if timeout in self._running and not timeout.expired():
            timeout.reschedule(None if self._questions else min(_now() + self._seconds, self._running[timeout]))


def _now() -> float:
    return asyncio.get_running_loop().time()
