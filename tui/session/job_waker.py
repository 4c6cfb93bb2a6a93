"""Lets the model continue when a background job ends while idle, if configured."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from ebbtide.agent.session import Session
    from ebbtide.tui.session.controller import SessionController


class JobWaker:
    """Active from `begin` to `end`, while the session is idle."""

    def __init__(self, controller: "Callable[[], SessionController]", wake: Callable[[], None]) -> None:
        """`wake` starts a turn in which the model continues."""
        self._controller = controller
        self._wake = wake
        self._waiting: asyncio.Task[None] | None = None

    def begin(self, *, was_stopped: bool) -> None:
        """The session is idle now. `was_stopped`: the user interrupted it, so jobs that already ended wake nothing."""
        session = self._controller().session
        if session is not None and session.limits.is_woken:
            known = tuple(session.background_jobs.ended) if was_stopped else ()
            self._waiting = asyncio.create_task(self._wait(session, known))

    def end(self) -> None:
        """The session is busy now."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()

    async def _wait(self, session: "Session", known: tuple[str, ...]) -> None:
        await session.background_jobs.wait_for_end(known)
        self._waiting = None  # what is begun now would cancel it
        self._wake()
