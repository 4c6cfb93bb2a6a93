"""Stores a running session in the database, and loads it again.

Each step is stored in three short transactions: the user's message; the reply with its calls, before the first call
runs; and all outputs, together with a snapshot of the view. The session can therefore be resumed no matter when the
process dies.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ebbtide.agent.budget.last_request import RequestRecord
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.control_calls import TodoState
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.events.session import Event, TurnFailed, TurnFinished
from ebbtide.agent.messages import Assistant, CallState, Conversation, Message, Summary, User
from ebbtide.agent.prompt.reminder_notes import reported_job_ids
from ebbtide.agent.records.call_progress import has_open_question, output_for_open_call
from ebbtide.agent.records.event_rows import EventRows
from ebbtide.agent.records.images import without_image_digests
from ebbtide.agent.records.message_rows import describe_messages, encode_message, session_title
from ebbtide.agent.records.rows import (
    call_state_changes,
    decode_call_states,
    encode_call_state,
    encode_snapshot,
    encode_summary_row,
    output_rows,
    state_changes,
)
from ebbtide.agent.records.session_log import SessionLog
from ebbtide.agent.records.session_state import SessionState, with_current_jobs, with_todos
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.stored_view import load_call_states, load_session_state, load_view
from ebbtide.agent.records.turn_endings import ending_row
from ebbtide.agent.records.usage import SessionUsage
from ebbtide.agent.records.write_queue import WriteQueue
from ebbtide.agent.tokens.incremental import IncrementalFold
from ebbtide.agent.tool_specs import unwrapped_call
from ebbtide.agent.view.visible import count_outputs
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.calls import last_tool_uses, save_tool_uses
from ebbtide.store.session_rows import MessageRow, OutputRow, SessionRow, SnapshotRow, SummaryRow, ViewRow
from ebbtide.store.sessions import SessionStore


def ignore_jobs(jobs: Collection[str]) -> None:
    """Do nothing; the default for sessions without background jobs."""


def index_nothing(store: SessionStore) -> None:
    """Do nothing; the default for sessions that are indexed only when they are searched."""


class Recorder:
    """Stores one session while it runs."""

    def __init__(
        self,
        thread: StoreThread,
        store: SessionStore,
        row: SessionRow,
        *,
        is_new: bool = True,
        get_workspace_state: Callable[[], SessionState] = SessionState,
        on_jobs_reported: Callable[[Collection[str]], None] = ignore_jobs,
        write_queue: WriteQueue | None = None,
        start_indexing: Callable[[SessionStore], None] = index_nothing,
    ) -> None:
        """`get_workspace_state`: returns the workspace state to store in each snapshot. `on_jobs_reported`: called with
        the ids of ended jobs once the database records that the model knows about them. `write_queue`: the queue for
        writes. `start_indexing`: called in the store's thread after a turn, and when messages have left the view, so
        that searches find them."""
        self._thread = thread
        self._store = store
        self._row = row
        self.log = SessionLog(thread, store, row.id)
        """Reads the stored session."""
        self._is_new = is_new
        self._next_position = 0
        self.events = EventRows()
        """Usage and rewrites, as reported by events."""
        self._output_count = 0
        self._tool_names: dict[str, str] = {}
        """The tool name of each call in the last recorded reply."""
        self._unsaved_outputs: list[OutputRow] = []
        self._summary = Summary()
        self._archive = ArchiveStore(store)
        self.session_state = SessionState()
        """The session state as last read or written."""
        self._todo_state: IncrementalFold[TodoState, Message] = IncrementalFold(TodoState, TodoState.plus)
        self._get_workspace_state = get_workspace_state
        self._on_jobs_reported = on_jobs_reported
        self._start_indexing = start_indexing
        self._write_lock = asyncio.Lock()
        self.last_request_mark: RequestRecord | None = None
        """The last request recorded in the loaded snapshot; None if there is none."""
        self.problems: list[str] = []
        """A sentence for the user about each piece of non-essential data that could not be read."""
        self.write_queue = write_queue or WriteQueue(thread, store, self.problems.append, Interrupt())
        self.open_call_states: Mapping[str, CallState] = {}
        """Progress of calls without output, left open because the session ended while the user was being asked."""
        self._call_states: Mapping[str, str] = {}
        """The stored progress of the current step's calls."""

    @property
    def previous_model_use(self) -> tuple[str, float] | None:
        """The last model used before this run, and how many seconds ago it was used; None for a new session."""
        return None if self._is_new else (self._row.model, max(time.time() - self._row.updated, 0.0))

    @property
    def message_count(self) -> int:
        """How many messages the session has, including any that could not be written."""
        return self._next_position

    @property
    def session_id(self) -> str:
        return self._row.id

    @property
    def project(self) -> str:
        return self._row.project

    @property
    def fork_root_id(self) -> str:
        """The id of the session at the root of the fork tree. All forks in a tree share the beginning of their
        requests."""
        return self._row.family or self._row.id

    @property
    def title(self) -> str:
        return self._row.title

    def set_title(self, title: str) -> None:
        """Change the title in memory; the caller stores it."""
        self._row = replace(self._row, title=title)

    async def load(self, *, ask_again: bool = False) -> Conversation:
        """Load the conversation with `read_conversation`, and set the session state and total usage. Calls left open by
        a crashed process get an output that describes what became of them, in memory and on disk. With `ask_again`,
        they stay open if the session ended while the user was being asked about a call."""
        self.problems.clear()
        conversation = await self.read_conversation()
        self.session_state = await load_session_state(self._thread, self._store, self.session_id, self.problems)
        if self.events.usage_this_run == SessionUsage():  # the usage of this run may not be stored yet
            self.events.total_usage = await self.log.total_usage()
        self.open_call_states = {}
        if conversation.unanswered_calls:
            self._call_states = await load_call_states(self._thread, self._store, self.session_id)
            self.open_call_states = decode_call_states(self._call_states)
        if conversation.unanswered_calls and not (ask_again and has_open_question(self.open_call_states)):
            outputs = User(
                tuple(output_for_open_call(call, self.open_call_states) for call in conversation.unanswered_calls)
            )
            await self._write(self._next_rows(outputs), call_states={})
            conversation = conversation.plus(outputs)
        return conversation

    async def read_conversation(self) -> Conversation:
        """Load the view in the last snapshot, and the messages since then. If there is no usable snapshot, return all
        messages."""
        await self.write_queue.wait_until_written()
        stored = await load_view(self._thread, self._store, self.session_id, self.log)
        self.problems += stored.problems
        self.last_request_mark, self._next_position = stored.last_request, stored.message_count
        conversation = stored.conversation
        self._summary = conversation.summary
        self._unsaved_outputs.clear()
        self._output_count = count_outputs(conversation)
        self._tool_names = {call.id: unwrapped_call(call).name for call in conversation.unanswered_calls}
        return conversation

    async def record_call_states(self, states: Mapping[str, CallState]) -> None:
        """Store the progress of a step's calls. It is on disk when this returns."""
        await self._write([], call_states={call_id: encode_call_state(state) for call_id, state in states.items()})

    async def record_user_message(self, message: User) -> None:
        """Store the user's message. It is on disk when this returns. The first message creates the session."""
        if self._is_new:
            self._row = replace(self._row, title=session_title(message.text))
            await self.write_queue.write(self._store.create, self._row)
            self._is_new = False
        elif not self._row.title and (title := session_title(message.text)):  # the session began with a note
            await self.write_queue.write(self._store.rename, self.session_id, title)
            self.set_title(title)
        reported_ids = reported_job_ids(message)
        await self._write(
            self._next_rows(message),
            state=with_current_jobs(self.session_state, self._get_workspace_state(), reported_ids),
        )
        self._on_jobs_reported(reported_ids)

    async def forget_files(self, paths: Collection[Path]) -> None:
        """Record that the model no longer knows the content of these files. The change is on disk when the method
        returns."""
        seen_digests = {path: digest for path, digest in self.session_state.seen_digests.items() if path not in paths}
        await self._write([], state=replace(self.session_state, seen_digests=seen_digests))

    async def record_jobs(self) -> None:
        """Record which jobs have ended. The change is on disk when the method returns."""
        if not self._is_new:
            await self._write([], state=with_current_jobs(self.session_state, self._get_workspace_state(), ()))

    async def record_reply(self, reply: Assistant) -> None:
        """Store the reply and its calls. It is on disk when this returns; only then may a call run."""
        await self._write(self._next_rows(reply))

    def queue_event_rows(self, event: Event) -> None:
        """Queue what an event reports; the next write stores it."""
        self.events.add_event(event, self._next_position)

    async def record_snapshot(
        self,
        conversation: Conversation,
        outputs: User,
        request_mark: RequestRecord | None,
        previous_view: Conversation | None = None,
        restored_view_number: int = 0,
    ) -> None:
        """Store a step's outputs, the resulting view, and the session state. They are on disk when this returns.

        `request_mark`: facts about the last request. `previous_view`: the previous view, if it was rewritten.
        `restored_view_number`: number of the view restored by an undo, otherwise 0. Anything other than messages is
        skipped if it cannot be written; the session then resumes from an earlier view.
        """
        rows = self._next_rows(outputs)
        snapshot = SnapshotRow(self._next_position, encode_snapshot(conversation, self._next_position, request_mark))
        previous_row = (
            ViewRow(self._next_position, encode_snapshot(previous_view, self._next_position, request_mark))
            if previous_view
            else None
        )
        current, reported_ids = self._get_workspace_state(), reported_job_ids(outputs)
        state_with_todos = with_todos(self.session_state, self._todo_state.value_for(conversation.messages))
        state = with_current_jobs(replace(state_with_todos, seen_digests=current.seen_digests), current, reported_ids)
        summaries = await self._new_summary_rows(conversation)
        try:
            await self._write(rows, snapshot, state, summaries, previous_row, restored_view_number, call_states={})
            self._summary = conversation.summary if summaries else self._summary
            self._on_jobs_reported(reported_ids)
            if previous_view is not None:
                await self._thread.run(self._start_indexing, self._store)
        except StoreFailed as error:
            if error.reason != "unreadable":
                raise
            self.events.rewrites.clear()
            try:
                await self._write(rows, call_states={})
            except StoreFailed:  # separately stored outputs then cannot be found, but the session continues
                self._unsaved_outputs.clear()
                await self._write([encode_message(without_image_digests(outputs), row.position) for row in rows])
            self.write_queue.notify(f"the session's snapshot could not be written; resuming will be slower: {error}")

    async def record_calibration(self, model: str, calibration: str) -> None:
        """Store what was learned about the model's token counts, for the next session with that model."""
        if self.write_queue.is_blocked:
            return
        with suppress(StoreFailed):  # losing this is harmless, so an error must not end the turn
            await self._thread.run(self._store.save_calibration, model, calibration)

    async def switch_model(self, model: str, mode: str | None = None) -> None:
        """Store the session's new model, and its new mode unless that is None. Both are on disk when this returns. If
        another program has locked the database, they are stored at the end of the turn instead."""
        row = replace(self._row, model=model, mode=mode or self._row.mode)
        if not self._is_new:
            try:
                await self._thread.run(self._store.update, self.session_id, model=model, mode=row.mode)
            except StoreFailed as error:
                if error.reason != "locked":
                    raise
                return
        self._row = row

    async def last_tool_uses(self) -> Mapping[str, float]:
        """Return when each tool was last used in the project, in Unix seconds."""
        with suppress(StoreFailed):  # the times are only hints, so an error must not end the session
            return await self._thread.run(last_tool_uses, self._store, self._row.project)
        return {}

    async def record_tool_uses(self, uses: Mapping[str, float]) -> None:
        """Store when these tools were used, for the next session in the project."""
        if uses and not self.write_queue.is_blocked:
            with suppress(StoreFailed):  # an error must not end the session
                await self._thread.run(save_tool_uses, self._store, self._row.project, uses)

    async def end_turn(
        self,
        model: str,
        mode: str,
        calibration: str | None = None,
        outcome: TurnFinished | TurnFailed | None = None,
    ) -> None:
        """Write everything, so that it survives a power loss. `calibration`: what was learned about the model's token
        counts. `outcome`: how the turn ended; None if no turn was running."""
        if self._is_new:
            return
        if outcome is not None:
            ending = ending_row(self._next_position, outcome, self.events.pop_changed_files())
            with suppress(StoreFailed):  # without this row, a resumed session only lacks the note on how the turn ended
                if ending is not None:
                    await self.write_queue.write(self._store.write, self.session_id, (), (), None, (ending,))
        if calibration is not None:
            await self.record_calibration(model, calibration)
        await self._write([])
        if (model, mode) != (self._row.model, self._row.mode):
            self._row = replace(self._row, model=model, mode=mode)
            await self.write_queue.write(self._store.update, self.session_id, model=model, mode=mode)
        await self.write_queue.write(self._store.end_turn, self.session_id)
        await self._thread.run(self._start_indexing, self._store)

    async def _new_summary_rows(self, conversation: Conversation) -> tuple[SummaryRow, ...]:
        """Return the row of the current summary if it is not stored yet; otherwise an empty tuple."""
        summary = conversation.summary
        if summary == self._summary or not summary:
            return ()
        try:
            stored_summaries = await self._thread.run(self._archive.summaries, self.session_id)
        except StoreFailed:  # writing the snapshot will fail as well and report the error
            return ()
        return (
            encode_summary_row(summary, len(stored_summaries) + 1, self._next_position - len(conversation.messages)),
        )

    async def _write(
        self,
        rows: list[MessageRow],
        snapshot: SnapshotRow | None = None,
        state: SessionState | None = None,
        summaries: tuple[SummaryRow, ...] = (),
        previous_view_row: ViewRow | None = None,
        restored_view_number: int = 0,
        call_states: Mapping[str, str] | None = None,
    ) -> None:
        """Write rows and changes of the session state. `call_states`: the progress of calls; None leaves the stored
        progress unchanged."""
        async with self._write_lock:  # serialises writes, because a job may end, and be recorded, at any time
            usage, rewrites = tuple(self.events.usage), tuple(self.events.rewrites)
            outputs = tuple(self._unsaved_outputs)
            facts, deleted_facts = state_changes(self.session_state, state or self.session_state)
            if call_states is not None:
                call_facts, deleted_call_facts = call_state_changes(self._call_states, call_states)
                facts, deleted_facts = facts + call_facts, deleted_facts + deleted_call_facts
            if not (rows or usage or snapshot or rewrites or facts or deleted_facts):
                return
            try:
                await self.write_queue.write(
                    self._store.write, self.session_id, rows, usage, snapshot, facts, deleted_facts, rewrites, outputs,
                    summaries, previous_view_row, restored_view_number,
                )  # fmt: skip
            except StoreFailed as error:
                if error.reason != "locked" or not rows:
                    raise
                raise StoreFailed(f"{error}; not stored: {describe_messages(rows)}", error.reason) from error
            del self.events.usage[: len(usage)], self.events.rewrites[: len(rewrites)]
            del self._unsaved_outputs[: len(outputs)]
            self.session_state = state or self.session_state
            self._call_states = self._call_states if call_states is None else call_states

    def _next_rows(self, message: Message) -> list[MessageRow]:
        if not message.parts:
            return []
        row = encode_message(message, self._next_position)
        if isinstance(message, Assistant):
            self._tool_names = {call.id: unwrapped_call(call).name for call in message.calls}
        elif message.outputs:
            self._unsaved_outputs += output_rows(message, self._next_position, self._output_count, self._tool_names)
            self._output_count += len(message.outputs)
        self._next_position += 1
        return [row]
