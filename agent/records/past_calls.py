"""The calls that were made in a project so far."""

from collections.abc import Sequence
from contextlib import suppress

from agent.context.tool_selection import meant
from agent.errors import StoreFailed
from agent.messages import BY_USER, Assistant, ToolCall
from agent.records.message_rows import decode_message
from agent.records.store_thread import StoreThread
from store.calls import replies_with_calls
from store.sessions import SessionStore

MOST = 1_000
"""Replies that are looked at, the newest first."""


async def earlier_calls(thread: StoreThread, store: SessionStore, project: str, session: str) -> Sequence[ToolCall]:
    """The calls of a project's sessions, the newest first, without those of the session's last reply: they are what is
    being asked about. Empty when they cannot be read."""
    try:
        rows = await thread.run(replies_with_calls, store, project, session, MOST)
    except StoreFailed:  # no question waits for this
        return ()
    calls: list[ToolCall] = []
    for row in rows:
        with suppress(StoreFailed):
            message = decode_message(row)
            if isinstance(message, Assistant):
                calls += [meant(call) for call in reversed(message.calls) if is_asked_about(call)]
    return calls


def is_asked_about(call: ToolCall) -> bool:
    """Whether rules would have been asked about a call: not where the user ran it, nor where it could not be read."""
    return not call.problem and not call.id.startswith(BY_USER)
