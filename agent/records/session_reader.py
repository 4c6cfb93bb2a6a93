"""Read-only access to a stored session, and to the tool calls of a project's sessions."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ebbtide.agent.context.last_request import RequestMark
from ebbtide.agent.context.tool_selection import unwrapped_call
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import BY_USER, Assistant, Conversation, Message, ToolCall, Usage, User
from ebbtide.agent.records.damage import FARTHEST, in_place, readable, try_decode_message, unreadable
from ebbtide.agent.records.images import needs_image_bytes, with_image_bytes
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.agent.records.rows import decode_mark, decode_snapshot
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.usage import RequestUsage, Rewrite, SessionUsage, request_usage, rewrite_of
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.calls import replies_with_calls
from ebbtide.store.session_rows import MessageRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.recalled import no_progress

_BEHIND_ALL = 1 << 60
"""A position after all messages."""
SLICE = 2_000
"""Messages read at once: between slices the store is free for others, and the reader may stop."""
MAX_REPLIES = 1_000
"""Replies that are examined, newest first."""


class SessionLog:
    """Reads one stored session. Methods raise `StoreFailed` if the store fails."""

    def __init__(self, thread: StoreThread, store: SessionStore, session: str) -> None:
        self._thread = thread
        self._store = store
        self._session = session
        self.progress: Callable[[int, int], None] = no_progress
        """Called with the number of messages read so far and the total, for long sessions."""
        self.damage = ""
        """What was wrong with the messages read last."""

    async def messages(self, start: int) -> tuple[tuple[Message, ...], int]:
        """Return the messages from a position on, ready to send, and the position of the next message to be written."""
        rows, known = await self._rows(start)

        def decode(row: MessageRow) -> Message:
            message = known[row.position]
            if message is None:
                raise StoreFailed(unreadable(row.position), "corrupt")
            return message

        # Decode in threads, here and below: slow for a long session. Not in the store's thread, which others wait for.
        found = await asyncio.to_thread(readable, rows, None, start, decode=decode)
        sound = in_place(rows, start)
        begin, end = (sound[0].position, sound[-1].position + 1) if sound else (start, start)
        is_cut = bool(found.problem) or begin > start
        calls = await self._calls_of_lost(range(start, end), is_cut=is_cut)
        if found.messages and begin > start and _is_cut_inside_a_step(found.messages):
            begin = start
        begin, end = min([begin, *(position - 1 for position in calls)]), max([end, *(at + 1 for at in calls)])
        if calls or (sound and begin < sound[0].position):
            found = await asyncio.to_thread(readable, rows, range(max(begin, start), end), start, calls, decode)
        messages, self.damage = found.messages, found.problem
        if needs_image_bytes(messages):
            messages = await self._thread.run(with_image_bytes, messages, self._store.blobs)
        return messages, end

    async def _rows(self, start: int) -> tuple[Sequence[MessageRow], Mapping[int, Message | None]]:
        """Return the rows from a position on, and the decoded messages by position, None if unreadable."""
        rows, known = list[MessageRow](), dict[int, Message | None]()
        count = await self._thread.run(self._store.count, self._session, start)
        while len(rows) < count:
            after = rows[-1].position + 1 if rows else start
            more = await self._thread.run(self._store.messages, self._session, after, SLICE)
            if not more:
                break
            known |= await asyncio.to_thread(_decode_rows, more)
            rows += more
            self.progress(len(rows), count)
        return rows, known

    async def usage_by_reply(self, start: int, end: int) -> Mapping[int, Usage]:
        """The usage of each reply, by its distance from `start`: all step requests since the previous reply."""
        return await self._thread.run(self._usage_by_reply, start, end)

    def _usage_by_reply(self, start: int, end: int) -> Mapping[int, Usage]:
        rows = iter([row for row in self._store.usage(self._session) if row.purpose == "step"])
        row, found = next(rows, None), dict[int, Usage]()
        for position, created in self._store.reply_times(self._session):
            used = Usage()
            while row is not None and row.created <= created:
                used += Usage(row.input, row.cache_read, row.cache_write, row.output)
                row = next(rows, None)
            if start <= position < end:
                found[position - start] = used
        return found

    async def _calls_of_lost(self, positions: range, *, is_cut: bool) -> Mapping[int, Sequence[str]]:
        """Ids of the calls answered at each position, if messages are lost (`is_cut`) or were stored after the last
        one left. New outputs must not reuse the numbers of outputs that can still be read."""
        archive = ArchiveStore(self._store)
        with suppress(StoreFailed):  # then only visible outputs count
            last = await self._thread.run(archive.last_position, self._session)
            if is_cut or last >= positions.stop:
                farthest = range(positions.start, positions.stop + FARTHEST)
                return await self._thread.run(archive.calls, self._session, farthest)
        return {}

    async def newest(self, count: int) -> tuple[Message, ...]:
        """The newest `count` messages of a view with more than that; empty for a shorter view."""
        try:
            shown = await self._thread.run(self._store.snapshot, self._session)
            view = decode_snapshot(shown.body) if shown else (0, Conversation())
            if view is None:
                return ()
            rows = await self._thread.run(self._store.messages_before, self._session, _BEHIND_ALL, count + 1)
            if len(rows) <= count or rows[0].position < view[0]:
                return ()
            return readable(rows[1:]).messages
        except StoreFailed:  # a full read reports the error
            return ()

    async def may_begin(self, start: int, messages: Sequence[Message]) -> bool:
        """Whether a view may begin at a position: the message before it exists, and no call is separated from its
        output."""
        before = await self._thread.run(self._store.messages_before, self._session, start, 1)
        is_behind_one = bool(before) and before[0].position == start - 1
        return is_behind_one and not (messages and _is_cut_inside_a_step(messages))

    async def before_rewrite(self, now: Conversation) -> tuple[int, Conversation, RequestMark | None] | None:
        """Return the number of the view that the last rewrite replaced, that view with all messages since, and the
        last request of that time. `now`: the current view. None if there is no such view, or it cannot be shown."""
        for row in await self._thread.run(self._store.views, self._session):
            decoded = decode_snapshot(row.body)
            if decoded is None:
                return None
            start, view = decoded
            messages, _ = await self.messages(start)
            if start and not await self.may_begin(start, messages):
                return None
            view = replace(view, messages=await self._thread.run(_known_ones, messages, start, now))
            if _view_state(view) != _view_state(now):
                return row.number, view, decode_mark(row.body)
        return None

    async def total_usage(self) -> SessionUsage:
        used = await self._thread.run(self._store.usage_total, self._session)
        return SessionUsage(Usage(used.input, used.cache_read, used.cache_write, used.output), used.cost)

    async def requests(self) -> tuple[RequestUsage, ...]:
        """The usage of each request of the session, oldest first."""
        return tuple(map(request_usage, await self._thread.run(self._store.usage, self._session)))

    async def rewrites(self) -> tuple[Rewrite, ...]:
        """The rewrites of the session, oldest first."""
        return tuple(map(rewrite_of, await self._thread.run(self._store.rewrites, self._session)))


def _decode_rows(rows: Sequence[MessageRow]) -> Mapping[int, Message | None]:
    """The messages by position; None for one that cannot be read."""
    return {row.position: try_decode_message(row) for row in rows}


def _view_state(view: Conversation) -> tuple[object, ...]:
    """Everything that decides what a view shows."""
    return view.messages, view.summary, view.masked, view.retold, view.held_back


def _known_ones(messages: Sequence[Message], start: int, now: Conversation) -> tuple[Message, ...]:
    """The messages from a position on, reusing equal message objects of the current view, about which much is
    cached."""
    shown = dict(enumerate(now.messages, now.messages_before))
    known = (shown.get(position, message) for position, message in enumerate(messages, start))
    return tuple(there if there == message else message for there, message in zip(known, messages, strict=True))


def _is_cut_inside_a_step(messages: Sequence[Message]) -> bool:
    """Whether the first message answers calls that are not among the messages."""
    first = messages[0]
    return isinstance(first, User) and bool(first.outputs)


async def earlier_calls(thread: StoreThread, store: SessionStore, project: str, session: str) -> Sequence[ToolCall]:
    """The tool calls of a project's sessions, newest first, without those of this session's last reply, which are
    being decided now. Empty if they cannot be read."""
    try:
        rows = await thread.run(replies_with_calls, store, project, session, MAX_REPLIES)
    except StoreFailed:  # only suggestions need it
        return ()
    calls: list[ToolCall] = []
    for row in rows:
        with suppress(StoreFailed):
            message = decode_message(row)
            if isinstance(message, Assistant):
                calls += [unwrapped_call(call) for call in reversed(message.calls) if is_asked_about(call)]
    return calls


def is_asked_about(call: ToolCall) -> bool:
    """Whether permission rules apply to a call: not if the user ran it, nor if it could not be parsed."""
    return not call.problem and not call.id.startswith(BY_USER)
