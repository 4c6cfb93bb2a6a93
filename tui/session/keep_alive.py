"""Keeps the provider's cache alive while the user is idle, if configured."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ebbtide.agent.errors import AgentError

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from ebbtide.agent.session import Session
    from ebbtide.tui.session.controller import SessionController


class CacheKeepAlive:
    """Active from `begin` to `end`, while the session is idle."""

    def __init__(
        self,
        controller: "Callable[[], SessionController]",
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock`: seconds, including the time that the machine sleeps."""
        self._controller = controller
        self._sleep = sleep
        self._clock = clock
        self._keeping: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """The session is idle now."""
        session = self._controller().session
        if session is not None and session.limits.keep_alive:
            self._keeping = asyncio.create_task(self._keep(session))

    def end(self) -> None:
        """The session is busy now: cancel a running request."""
        keeping, self._keeping = self._keeping, None
        if keeping is None:
            return
        if keeping.done() and not keeping.cancelled():
            keeping.result()  # a bug in it is told
        keeping.cancel()

    async def over(self) -> None:
        """Like `end`, and wait until the request is cancelled."""
        keeping = self._keeping
        self.end()
        if keeping is not None:
            await asyncio.gather(keeping, return_exceptions=True)

    async def _keep(self, session: "Session") -> None:
        from ebbtide.agent.window.keep_alive import next_renewal, renew_cache  # noqa: PLC0415  # deferred: few users want it

        try:
            renewal = await session.change(next_renewal)
            while renewal.wait is not None:
                due = self._clock() + renewal.wait
                await self._sleep(renewal.wait)
                if self._clock() > due + renewal.late:
                    return  # the machine was asleep: the cache is gone
                renewal = await session.change(renew_cache, self._controller().advance)
        except AgentError:
            pass  # a turn runs, or nothing can be written down: whoever does something next is told
