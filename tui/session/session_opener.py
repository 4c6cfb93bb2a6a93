"""Opens a session that replaces the current one. A long session takes a while to open, and opening can be
interrupted."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from ebbtide.agent.errors import AgentError
from ebbtide.agent.messages import Conversation
from ebbtide.tui.view.blocks import Block, Notice, SessionView
from ebbtide.tui.view.resumed import build_resumed_view, newest_messages, without_orphaned_outputs

if TYPE_CHECKING:  # session modules load only after the first paint
    from ebbtide.agent.compose.sessions import OpeningKind, ProjectSessions
    from ebbtide.agent.session import Session

MESSAGES_PER_PAGE = 200
"""Number of earlier messages per read."""
MAX_INITIAL_MESSAGES = 10_000
"""Maximum number of messages shown when a session is resumed. Earlier ones are read on demand."""


async def build_session_view(sessions: "ProjectSessions", session: "Session") -> SessionView:
    """Build the view of a resumed session in threads, because this takes a while for a long session."""
    history = await asyncio.to_thread(sessions.hide_secrets, newest_messages(session.history, MAX_INITIAL_MESSAGES))
    endings = await sessions.turn_endings(session.id)
    return await asyncio.to_thread(
        build_resumed_view, history, str(sessions.root), endings, has_open_question=session.has_open_question
    )


async def load_older_blocks(
    sessions: "ProjectSessions", session_id: str, position: int, limit: int
) -> tuple[int, tuple[Block, ...]]:
    """Read about `limit` messages before a position. Returns the position of the first one, and the blocks. Outputs are
    left out if their call is not among these messages. Raises `AgentError`."""
    page = await sessions.messages_before(session_id, position, limit)
    messages = without_orphaned_outputs(page.messages) if position > limit else page.messages
    redacted = await asyncio.to_thread(
        sessions.hide_secrets, Conversation(messages)
    )  # in a thread: slow for many messages
    start = position - len(messages)
    endings = tuple(
        replace(ending, position=ending.position - start) for ending in await sessions.turn_endings(session_id)
    )
    blocks = (
        await asyncio.to_thread(build_resumed_view, redacted, str(sessions.root), endings)
    ).past_blocks  # slow for many messages
    return start, (*((Notice(page.problem),) if page.problem else ()), *blocks)


OpenedSession: TypeAlias = "tuple[Session, SessionView]"
"""An open session with its view."""


class SessionOpener:
    """Opens one session at a time."""

    def __init__(
        self,
        sessions: "ProjectSessions",
        on_preview: Callable[[Conversation], None],
        on_progress: Callable[[str], None],
    ) -> None:
        """`on_preview` is called with the end of a session before the rest is read. `on_progress` is called with text
        that says how many messages have been read."""
        self._sessions, self._on_preview, self._on_progress = sessions, on_preview, on_progress
        self._task: asyncio.Task[OpenedSession] | None = None

    @property
    def is_opening(self) -> bool:
        """Whether a session is being opened."""
        return self._task is not None

    async def open(
        self, session_id: str | None, model: str | None, opening: "OpeningKind", *, is_displayed: bool = False
    ) -> OpenedSession:
        """Open a stored session, or a new one if `session_id` is None. `is_displayed`: whether all of the session is
        already on the screen. Raises `AgentError`."""
        on_preview = None if is_displayed else self._on_preview
        session = await self._sessions.open(
            session_id, model, on_preview, opening_kind=opening, on_progress=self._report_progress
        )
        try:
            return session, await build_session_view(self._sessions, session)
        except asyncio.CancelledError:
            await session.close(None)
            raise

    async def open_unless_stopped(
        self, session_id: str | None, model: str | None, opening: "OpeningKind"
    ) -> "OpenedSession | None":
        """Do the same as `open`, but return None if `stop` is called before it finishes."""
        task = self._task = asyncio.ensure_future(self.open(session_id, model, opening))
        try:
            await asyncio.wait((task,))
        finally:
            self._task = None
            task.cancel()  # no effect if the task is done
            with suppress(asyncio.CancelledError, AgentError):
                await task
        return None if task.cancelled() else task.result()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _report_progress(self, read_count: int, total_count: int) -> None:
        if read_count < total_count:
            self._on_progress(f"opening the session ({read_count:,} of {total_count:,} messages)")
