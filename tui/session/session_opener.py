"""Opens a session to replace the current one. A long one takes a while, and opening can be interrupted."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from ebbtide.agent.errors import AgentError
from ebbtide.agent.messages import Conversation
from ebbtide.tui.session.session_view import view_of_session
from ebbtide.tui.view.blocks import SessionView

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from ebbtide.agent.session import Session
    from ebbtide.agent.sessions import Opening, Sessions

OpenedSession: TypeAlias = "tuple[Session, SessionView]"
"""A session and its view."""


class SessionOpener:
    """Opens one session at a time."""

    def __init__(
        self, sessions: "Sessions", glimpse: Callable[[Conversation], None], progress: Callable[[str], None]
    ) -> None:
        """`glimpse` is called with the end of a session before all of it is read, `progress` with the number of
        messages read."""
        self._sessions, self._glimpse, self._progress = sessions, glimpse, progress
        self._task: asyncio.Task[OpenedSession] | None = None

    @property
    def is_at_work(self) -> bool:
        """Whether a session is being opened."""
        return self._task is not None

    async def open(
        self, resume: str | None, model: str | None, opening: "Opening", *, is_shown: bool = False
    ) -> OpenedSession:
        """Open the session with that id, or a new one. `is_shown`: it is already fully on the screen. Raises
        `AgentError`."""
        glimpse = None if is_shown else self._glimpse
        session = await self._sessions.open(resume, model, glimpse, opening=opening, progress=self._report_progress)
        try:
            return session, await view_of_session(self._sessions, session)
        except asyncio.CancelledError:
            await session.close(None)
            raise

    async def open_unless_stopped(
        self, resume: str | None, model: str | None, opening: "Opening"
    ) -> "OpenedSession | None":
        """Like `open`; None if `stop` was called meanwhile."""
        task = self._task = asyncio.ensure_future(self.open(resume, model, opening))
        try:
            await asyncio.wait((task,))
        finally:
            self._task = None
            task.cancel()  # does nothing to one that is done
            with suppress(asyncio.CancelledError, AgentError):
                await task
        return None if task.cancelled() else task.result()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _report_progress(self, read: int, count: int) -> None:
        if read < count:
            self._progress(f"opening the session ({read:,} of {count:,} messages)")
