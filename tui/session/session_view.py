"""The view of a session: its end first, and earlier messages on demand."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.agent.messages import Conversation
from ebbtide.tui.view.blocks import Block, Notice, SessionView
from ebbtide.tui.view.resumed import newest, view_of, whole_steps

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from ebbtide.agent.session import Session
    from ebbtide.agent.sessions import Sessions

PAGE = 200
"""Earlier messages read at once."""
MAX_INITIAL_MESSAGES = 10_000
"""Maximum messages shown of a resumed session; earlier ones are read on demand."""


async def view_of_session(sessions: "Sessions", session: "Session") -> SessionView:
    """The view of a resumed session, built in threads: a long one takes a while."""
    history = await asyncio.to_thread(sessions.visible, newest(session.history, MAX_INITIAL_MESSAGES))
    endings = await sessions.turn_endings(session.id)
    return await asyncio.to_thread(view_of, history, str(sessions.root), endings, is_at_question=session.is_at_question)


async def earlier_blocks(
    sessions: "Sessions", session: str, position: int, limit: int
) -> tuple[int, tuple[Block, ...]]:
    """About `count` messages before a position, in whole steps: their start and blocks. Raises `AgentError`."""
    read = await sessions.earlier(session, position, limit)
    whole = whole_steps(read.messages) if position > limit else read.messages
    visible = await asyncio.to_thread(sessions.visible, Conversation(whole))  # of many that takes a while
    start = position - len(whole)
    endings = tuple(replace(one, position=one.position - start) for one in await sessions.turn_endings(session))
    blocks = (await asyncio.to_thread(view_of, visible, str(sessions.root), endings)).past  # as above
    return start, (*((Notice(read.problem),) if read.problem else ()), *blocks)
