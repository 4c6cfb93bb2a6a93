"""What is written down of one session, and the calls of a project's sessions, to read. It writes nothing, and does not
know how a session goes on."""

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
"""A position that no message has."""
SLICE = 2_000
"""Messages of a long session that are read at once: others may use the store in between, and whoever reads may stop."""
MAX_REPLIES = 1_000
"""Replies that are looked at, the newest first."""


class SessionLog:
    """Raises `StoreFailed` where the store does."""

    def __init__(self, thread: StoreThread, store: SessionStore, session: str) -> None:
        self._thread = thread
        self._store = store
        self._session = session
        self.progress: Callable[[int, int], None] = no_progress
        """Told how many messages of a long session have been read, and how many there are."""
        self.damage = ""
        """What was wrong with the messages that were read last."""

    async def messages(self, start: int) -> tuple[tuple[Message, ...], int]:
        """The messages from a position on, as they are sent, and the position of what is written next."""
        rows, known = await self._rows(start)

        def decode(row: MessageRow) -> Message:
            message = known[row.position]
            if message is None:
                raise StoreFailed(unreadable(row.position), "corrupt")
            return message

        # In threads, here and below: of a long session that takes a while. Not in the store's, which others wait for.
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
        """The rows from a position on, and the messages in them by their positions, as far as they can be read."""
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
        """What the replies from a position on took, by their distance from it: all requests for steps since the reply
        before."""
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
        """The ids of calls by the positions of their outputs, where messages are lost (`is_cut`), or were behind the
        last that is left: nothing new may take the numbers of outputs that can still be read."""
        archive = ArchiveStore(self._store)
        with suppress(StoreFailed):  # then as many are counted as can be seen
            last = await self._thread.run(archive.last_position, self._session)
            if is_cut or last >= positions.stop:
                farthest = range(positions.start, positions.stop + FARTHEST)
                return await self._thread.run(archive.calls, self._session, farthest)
        return {}

    async def newest(self, count: int) -> tuple[Message, ...]:
        """The newest messages of a view that has more than `count` of them; none of a shorter one."""
        try:
            shown = await self._thread.run(self._store.snapshot, self._session)
            view = decode_snapshot(shown.body) if shown else (0, Conversation())
            if view is None:
                return ()
            rows = await self._thread.run(self._store.messages_before, self._session, _BEHIND_ALL, count + 1)
            if len(rows) <= count or rows[0].position < view[0]:
                return ()
            return readable(rows[1:]).messages
        except StoreFailed:  # whoever reads all of it is told
            return ()

    async def may_begin(self, start: int, messages: Sequence[Message]) -> bool:
        """Whether a view may begin at a position: behind a message that is there, and not between calls and outputs."""
        before = await self._thread.run(self._store.messages_before, self._session, start, 1)
        is_behind_one = bool(before) and before[0].position == start - 1
        return is_behind_one and not (messages and _is_cut_inside_a_step(messages))

    async def before_rewrite(self, now: Conversation) -> tuple[int, Conversation, RequestMark | None] | None:
        """The number of the view that the last rewrite replaced, that view with all that was said since, and the last
        request of that time. `now`: what is shown. None when there is none that can be shown."""
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
        """What each request of the session took, oldest first."""
        return tuple(map(request_usage, await self._thread.run(self._store.usage, self._session)))

    async def rewrites(self) -> tuple[Rewrite, ...]:
        """Oldest first."""
        return tuple(map(rewrite_of, await self._thread.run(self._store.rewrites, self._session)))


def _decode_rows(rows: Sequence[MessageRow]) -> Mapping[int, Message | None]:
    """The messages by their positions; None for one that cannot be read."""
    return {row.position: try_decode_message(row) for row in rows}


def _view_state(view: Conversation) -> tuple[object, ...]:
    """All that decides what a view shows."""
    return view.messages, view.summary, view.masked, view.retold, view.held_back


def _known_ones(messages: Sequence[Message], start: int, now: Conversation) -> tuple[Message, ...]:
    """The messages from a position on: in the place of those that are shown now, the very objects that are, of which
    much is known."""
    shown = dict(enumerate(now.messages, now.messages_before))
    known = (shown.get(position, message) for position, message in enumerate(messages, start))
    return tuple(there if there == message else message for there, message in zip(known, messages, strict=True))


def _is_cut_inside_a_step(messages: Sequence[Message]) -> bool:
    """Whether the first message answers calls that are not among the messages."""
    first = messages[0]
    return isinstance(first, User) and bool(first.outputs)


async def earlier_calls(thread: StoreThread, store: SessionStore, project: str, session: str) -> Sequence[ToolCall]:
    """The calls of a project's sessions, the newest first, without those of the session's last reply: they are what is
    being asked about. Empty when they cannot be read."""
    try:
        rows = await thread.run(replies_with_calls, store, project, session, MAX_REPLIES)
    except StoreFailed:  # no question waits for this
        return ()
    calls: list[ToolCall] = []
    for row in rows:
        with suppress(StoreFailed):
            message = decode_message(row)
            if isinstance(message, Assistant):
                calls += [unwrapped_call(call) for call in reversed(message.calls) if is_asked_about(call)]
    return calls


def is_asked_about(call: ToolCall) -> bool:
    """Whether rules would have been asked about a call: not where the user ran it, nor where it could not be read."""
    return not call.problem and not call.id.startswith(BY_USER)
