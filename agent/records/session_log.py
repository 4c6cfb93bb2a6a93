"""Read-only access to a stored session, and to the past tool calls in a project."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ebbtide.agent.budget.last_request import RequestRecord
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import USER_CALL_PREFIX, Assistant, Conversation, Message, ToolCall, Usage, User
from ebbtide.agent.records.damage import (
    MAX_POSITION_GAP,
    decode_message_or_none,
    restore_messages,
    rows_before_gap,
    unreadable_message_error,
)
from ebbtide.agent.records.images import load_image_bytes, needs_image_bytes
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.agent.records.rows import decode_request_mark, decode_snapshot
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.usage import RequestUsage, Rewrite, SessionUsage, request_usage_from_row, rewrite_from_row
from ebbtide.agent.tool_specs import unwrapped_call
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.calls import replies_with_calls
from ebbtide.store.session_rows import MessageRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.recall_results import no_progress

_AFTER_ALL_MESSAGES = 1 << 60
"""A position after all messages."""
MESSAGES_PER_READ = 2_000
"""Number of messages read at once. Between reads, other tasks can use the store, and loading can be cancelled."""
MAX_EXAMINED_REPLIES = 1_000
"""Maximum number of past replies searched for tool calls, newest first."""


class SessionLog:
    """Reads one stored session. Methods raise `StoreFailed` if the store fails."""

    def __init__(self, thread: StoreThread, store: SessionStore, session_id: str) -> None:
        self._thread = thread
        self._store = store
        self._session_id = session_id
        self.on_progress: Callable[[int, int], None] = no_progress
        """Called with the number of messages read so far and the total, for long sessions."""
        self.damage_text = ""
        """Description of the damage found in the last read; empty if there was none."""

    async def load_messages(self, start: int) -> tuple[tuple[Message, ...], int]:
        """Load all messages from a position on, ready to send. Also return the position for the next new message."""
        rows, decoded = await self._load_rows(start)

        def decode(row: MessageRow) -> Message:
            message = decoded[row.position]
            if message is None:
                raise StoreFailed(unreadable_message_error(row.position), "corrupt")
            return message

        # Decoding a long session takes a while. Here and below, decoding runs in another thread, so that it does not
        # block the store's thread.
        readable_messages = await asyncio.to_thread(restore_messages, rows, None, start, decode=decode)
        valid_rows = rows_before_gap(rows, start)
        first, end = (valid_rows[0].position, valid_rows[-1].position + 1) if valid_rows else (start, start)
        is_cut = bool(readable_messages.problem) or first > start
        lost_call_ids = await self._lost_call_ids(range(start, end), has_lost_messages=is_cut)
        if readable_messages.messages and first > start and _starts_inside_step(readable_messages.messages):
            first = start
        first = min([first, *(position - 1 for position in lost_call_ids)])
        end = max([end, *(position + 1 for position in lost_call_ids)])
        if lost_call_ids or (valid_rows and first < valid_rows[0].position):
            readable_messages = await asyncio.to_thread(
                restore_messages, rows, range(max(first, start), end), start, lost_call_ids, decode
            )
        messages, self.damage_text = readable_messages.messages, readable_messages.problem
        if needs_image_bytes(messages):
            messages = await self._thread.run(load_image_bytes, messages, self._store.blobs)
        return messages, end

    async def _load_rows(self, start: int) -> tuple[Sequence[MessageRow], Mapping[int, Message | None]]:
        """Return the rows from a position on, and the decoded messages by position. Unreadable messages are None."""
        rows, decoded = list[MessageRow](), dict[int, Message | None]()
        total_count = await self._thread.run(self._store.message_count, self._session_id, start)
        while len(rows) < total_count:
            next_position = rows[-1].position + 1 if rows else start
            next_rows = await self._thread.run(self._store.messages, self._session_id, next_position, MESSAGES_PER_READ)
            if not next_rows:
                break
            decoded |= await asyncio.to_thread(_decode_rows, next_rows)
            rows += next_rows
            self.on_progress(len(rows), total_count)
        return rows, decoded

    async def usage_by_reply(self, start: int, end: int) -> Mapping[int, Usage]:
        """Return the usage of each reply between the positions `start` and `end`, by its offset from `start`. A reply's
        usage covers all requests for steps since the previous reply."""
        return await self._thread.run(self._usage_by_reply, start, end)

    def _usage_by_reply(self, start: int, end: int) -> Mapping[int, Usage]:
        rows = iter([row for row in self._store.usage(self._session_id) if row.purpose == "step"])
        row, usage_by_offset = next(rows, None), dict[int, Usage]()
        for position, created in self._store.reply_times(self._session_id):
            usage = Usage()
            while row is not None and row.created <= created:
                usage += Usage(row.input, row.cache_read, row.cache_write, row.output)
                row = next(rows, None)
            if start <= position < end:
                usage_by_offset[position - start] = usage
        return usage_by_offset

    async def _lost_call_ids(self, positions: range, *, has_lost_messages: bool) -> Mapping[int, Sequence[str]]:
        """Return the ids of the calls answered at each position. Empty unless messages are lost (`has_lost_messages`)
        or outputs are stored after the last remaining message. Placeholders for these calls prevent new outputs from
        reusing the numbers of stored ones."""
        archive = ArchiveStore(self._store)
        with suppress(StoreFailed):  # on failure, only outputs in the remaining messages are known
            last_position = await self._thread.run(archive.last_position, self._session_id)
            if has_lost_messages or last_position >= positions.stop:
                searched_positions = range(positions.start, positions.stop + MAX_POSITION_GAP)
                return await self._thread.run(archive.answered_calls, self._session_id, searched_positions)
        return {}

    async def newest_messages(self, count: int) -> tuple[Message, ...]:
        """Return the newest `count` messages if the view has more messages than that; otherwise an empty tuple."""
        try:
            snapshot = await self._thread.run(self._store.snapshot, self._session_id)
            view = decode_snapshot(snapshot.body) if snapshot else (0, Conversation())
            if view is None:
                return ()
            rows = await self._thread.run(self._store.messages_before, self._session_id, _AFTER_ALL_MESSAGES, count + 1)
            if len(rows) <= count or rows[0].position < view[0]:
                return ()
            return restore_messages(rows[1:]).messages
        except StoreFailed:  # reading everything will report the error
            return ()

    async def can_view_start(self, start: int, messages: Sequence[Message]) -> bool:
        """Whether a view can begin at a position: the previous message exists, and no call is separated from its
        output."""
        previous_rows = await self._thread.run(self._store.messages_before, self._session_id, start, 1)
        has_previous = bool(previous_rows) and previous_rows[0].position == start - 1
        return has_previous and not (messages and _starts_inside_step(messages))

    async def view_before_rewrite(
        self, current_view: Conversation
    ) -> tuple[int, Conversation, RequestRecord | None] | None:
        """Find the view that the last rewrite replaced. Return its number, the view with all messages since then, and
        the last request before the rewrite. None if there is no such view, or if it cannot be restored."""
        for row in await self._thread.run(self._store.views, self._session_id):
            decoded = decode_snapshot(row.body)
            if decoded is None:
                return None
            start, view = decoded
            messages, _ = await self.load_messages(start)
            if start and not await self.can_view_start(start, messages):
                return None
            view = replace(view, messages=await self._thread.run(_with_known_messages, messages, start, current_view))
            if _view_state(view) != _view_state(current_view):
                return row.number, view, decode_request_mark(row.body)
        return None

    async def total_usage(self) -> SessionUsage:
        total = await self._thread.run(self._store.usage_total, self._session_id)
        return SessionUsage(Usage(total.input, total.cache_read, total.cache_write, total.output), total.cost)

    async def request_usages(self) -> tuple[RequestUsage, ...]:
        """Return the usage of each of the session's requests, oldest first."""
        return tuple(map(request_usage_from_row, await self._thread.run(self._store.usage, self._session_id)))

    async def rewrites(self) -> tuple[Rewrite, ...]:
        """Return the session's rewrites, oldest first."""
        return tuple(map(rewrite_from_row, await self._thread.run(self._store.rewrites, self._session_id)))


def _decode_rows(rows: Sequence[MessageRow]) -> Mapping[int, Message | None]:
    """Decode the messages. Keys are positions; unreadable messages are None."""
    return {row.position: decode_message_or_none(row) for row in rows}


def _view_state(view: Conversation) -> tuple[object, ...]:
    """Return everything that determines what a view shows."""
    return view.messages, view.summary, view.masked, view.retold, view.excluded_tools


def _with_known_messages(messages: Sequence[Message], start: int, current_view: Conversation) -> tuple[Message, ...]:
    """Replace messages with equal ones from the current view, because cached values are attached to those objects.
    `start`: position of the first message."""
    current_by_position = dict(enumerate(current_view.messages, current_view.messages_before))
    current_messages = (current_by_position.get(position, message) for position, message in enumerate(messages, start))
    return tuple(
        current_message if current_message == message else message
        for current_message, message in zip(current_messages, messages, strict=True)
    )


def _starts_inside_step(messages: Sequence[Message]) -> bool:
    """Whether the first message answers calls that are not among the messages."""
    first = messages[0]
    return isinstance(first, User) and bool(first.outputs)


async def past_tool_calls(
    thread: StoreThread, store: SessionStore, project: str, session_id: str
) -> Sequence[ToolCall]:
    """Return the past tool calls in a project's sessions, newest first. The calls in this session's last reply are
    skipped, because they are still awaiting permission. Return an empty sequence if the calls cannot be read."""
    try:
        rows = await thread.run(replies_with_calls, store, project, session_id, MAX_EXAMINED_REPLIES)
    except StoreFailed:  # the calls are needed only for suggestions
        return ()
    calls: list[ToolCall] = []
    for row in rows:
        with suppress(StoreFailed):
            message = decode_message(row)
            if isinstance(message, Assistant):
                calls += [unwrapped_call(call) for call in reversed(message.calls) if is_permission_checked(call)]
    return calls


def is_permission_checked(call: ToolCall) -> bool:
    """Whether permission rules apply to a call. They do not apply to calls by the user or to calls that could not be
    parsed."""
    return not call.problem and not call.id.startswith(USER_CALL_PREFIX)
