"""Keeps the provider's cache alive while the user is idle, if this is configured."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ebbtide.agent import request
from ebbtide.agent.errors import AgentError

if TYPE_CHECKING:  # session modules load only after the first paint
    from ebbtide.agent.session import Session
    from ebbtide.tui.session.controller import SessionController


class CacheKeepAlive:
    """Renews the cache while the session is idle, that is, between `begin` and `end`."""

    def __init__(
        self,
        get_controller: "Callable[[], SessionController]",
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock`: returns seconds, and keeps running while the machine sleeps."""
        self._get_controller = get_controller
        self._sleep = sleep
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start renewing, because the session is now idle."""
        session = self._get_controller().session
        if session is not None and session.limits.max_keep_alive_requests:
            self._task = asyncio.create_task(self._renew_until_expired(session))

    def end(self) -> None:
        """Stop renewing, because the session is now busy. Any request in progress is cancelled."""
        task, self._task = self._task, None
        if task is None:
            return
        if task.done() and not task.cancelled():
            task.result()  # raises the exception if the task failed
        task.cancel()

    async def end_and_wait(self) -> None:
        """Stop renewing, and wait until any request in progress is cancelled."""
        task = self._task
        self.end()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    async def _renew_until_expired(self, session: "Session") -> None:
        try:
            renewal = await session.change_conversation(request.keep_alive.plan_renewal)
            while renewal.wait_seconds is not None:
                due_time = self._clock() + renewal.wait_seconds
                await self._sleep(renewal.wait_seconds)
                if self._clock() > due_time + renewal.grace_seconds:
                    return  # the machine was asleep and the cache has expired
                renewal = await session.change_conversation(
                    request.keep_alive.renew_cache, self._get_controller().show_event
                )
        except AgentError:
            pass  # a turn is running, or the store failed, which the next action will report
