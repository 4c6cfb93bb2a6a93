"""Stores a session while it runs, and loads it again.

Each step is three short transactions: the user's message; the reply with its calls, before the first of them runs;
all outputs with the snapshot. The session can be resumed whenever the process dies."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.context.control_calls import TodoState
from ebbtide.agent.context.incremental import IncrementalFold
from ebbtide.agent.context.job_notes import reported_job_ids
from ebbtide.agent.context.last_request import RequestMark
from ebbtide.agent.context.mask import outputs_so_far
from ebbtide.agent.context.tool_selection import unwrapped_call
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.events.session import (
    AgentActivity,
    Event,
    ModelSwitched,
    ReplyFinished,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from ebbtide.agent.events.view import ContextCompacted, FilesChanged, PrefixRenewed, RewriteUndone, ViewChanged
from ebbtide.agent.messages import Assistant, CallState, Conversation, Message, Summary, User
from ebbtide.agent.records.call_progress import is_to_be_asked, output_left
from ebbtide.agent.records.images import as_in_log
from ebbtide.agent.records.message_rows import contents_of, encode_message
from ebbtide.agent.records.rows import (
    changes_of,
    decode_call_state,
    decode_mark,
    decode_session_state,
    decode_snapshot,
    encode_call_state,
    encode_snapshot,
    output_rows,
    summary_row,
)
from ebbtide.agent.records.session_reader import SessionLog
from ebbtide.agent.records.session_state import SessionState, with_jobs_of, with_todos
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.records.turn_endings import ending_row
from ebbtide.agent.records.usage import SessionUsage, rewrite_row, usage_row
from ebbtide.agent.records.write_queue import WriteQueue
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.calls import save_tool_uses, tool_uses
from ebbtide.store.session_rows import (
    FactRow,
    MessageRow,
    OutputRow,
    RewriteRow,
    SessionRow,
    SnapshotRow,
    SummaryRow,
    UsageRow,
    ViewRow,
)
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.extent import ellipsize

_CALL = "call"
"""The kind of facts that store the progress of calls."""

UNREADABLE_SNAPSHOT = "the session's snapshot could not be read; the model sees all messages again"


def ignore_jobs(jobs: Collection[str]) -> None:
    """Default for sessions without jobs."""


class Recorder:
    """Stores one session while it runs."""

    def __init__(
        self,
        thread: StoreThread,
        store: SessionStore,
        row: SessionRow,
        *,
        is_new: bool = True,
        look: Callable[[], SessionState] = SessionState,
        note_told: Callable[[Collection[str]], None] = ignore_jobs,
        writes: WriteQueue | None = None,
    ) -> None:
        """`look`: returns the workspace state that each snapshot stores. `note_told`: called with the ids of ended
        jobs once it is stored that the model knows of them. `writes`: the queue for writes."""
        self._thread = thread
        self._store = store
        self._row = row
        self.log = SessionLog(thread, store, row.id)
        """Reads what is stored of the session."""
        self._is_new = is_new
        self._position = 0
        self._usage: list[UsageRow] = []
        self._rewrites: list[RewriteRow] = []
        self._outputs = 0
        self._tools: dict[str, str] = {}
        """The tool of each call in the last recorded reply."""
        self._output_rows: list[OutputRow] = []
        self._summary = Summary()
        self._archive = ArchiveStore(store)
        self.situation = SessionState()
        """The session state as last read or written."""
        self._changed: FilesChanged | None = None
        """The files that the turn changed, as far as known."""
        self._kept: IncrementalFold[TodoState, Message] = IncrementalFold(TodoState, TodoState.plus)
        self._look = look
        self._note_told = note_told
        self._writing = asyncio.Lock()
        self.spent = SessionUsage()
        """Usage of all requests of the session."""
        self.spent_here = SessionUsage()
        """Usage of the requests sent since the program started."""
        self.mark: RequestMark | None = None
        """The last request, as stored in the loaded snapshot."""
        self.turn: tuple[int, float] | None = None
        """How many messages the session had when the last turn began, and the time in Unix seconds; None before the
        first turn since the program started."""
        self.problems: list[str] = []
        """What `load` could not read but managed without, one sentence each."""
        self.writes = writes or WriteQueue(thread, store, self.problems.append, Interrupt())
        self.left_open: Mapping[str, CallState] = {}
        """Progress of the calls that still lack an output because the session ended at a question."""
        self._call_states: dict[str, str] = {}
        """The stored progress of the calls of the current step."""

    @property
    def used_before(self) -> tuple[str, float] | None:
        """The model used last before the program was restarted, and how many seconds ago that was; None in a new
        session."""
        return None if self._is_new else (self._row.model, max(time.time() - self._row.updated, 0.0))

    @property
    def count(self) -> int:
        """How many messages the session has, including any that could not be written."""
        return self._position

    @property
    def session(self) -> str:
        return self._row.id

    @property
    def project(self) -> str:
        return self._row.project

    @property
    def family(self) -> str:
        """The id of the root of this session's fork tree: forks share the beginning of their requests."""
        return self._row.family or self._row.id

    @property
    def title(self) -> str:
        return self._row.title

    def set_title(self, title: str) -> None:
        """Change the title in memory; the caller stores it."""
        self._row = replace(self._row, title=title)

    async def load(self, *, ask_again: bool = False) -> Conversation:
        """Load the conversation as `read` does, and set `spent`. Calls left open by a crashed process are answered
        with what became of them, in memory and on disk. With `ask_again` they stay open if the session ended at a
        question."""
        self.problems.clear()
        conversation = await self.read()
        self.situation = await self._last_session_state()
        if self.spent_here == SessionUsage():  # usage from this run may not be written yet
            self.spent = await self.log.total_usage()
        self.left_open = await self._stored_states() if conversation.unanswered_calls else {}
        if conversation.unanswered_calls and not (ask_again and is_to_be_asked(self.left_open)):
            outputs = User(tuple(output_left(call, self.left_open) for call in conversation.unanswered_calls))
            await self._write(self._rows(outputs), states={})
            conversation = conversation.plus(outputs)
        return conversation

    async def _stored_states(self) -> Mapping[str, CallState]:
        """The stored progress of the calls of the last step."""
        try:
            rows = await self._thread.run(self._store.facts, self.session, _CALL)
        except StoreFailed:  # they count as interrupted
            return {}
        self._call_states = {row.key: row.body for row in rows}
        found = {row.key: decode_call_state(row.body) for row in rows}
        return {id: state for id, state in found.items() if state is not None}

    async def record_call_states(self, states: Mapping[str, CallState]) -> None:
        """Store the progress of a step's calls. It is on disk when this returns."""
        await self._write([], states={id: encode_call_state(state) for id, state in states.items()})

    async def read(self) -> Conversation:
        """Load the conversation from the last snapshot and the messages since. Without a usable snapshot, return all
        messages."""
        await self.writes.wait_until_written()
        start, conversation = await self._view()
        messages, self._position = await self.log.messages(start)
        if start and not await self.log.may_begin(start, messages):
            self.problems.append(UNREADABLE_SNAPSHOT)
            start, conversation = 0, Conversation()
            messages, self._position = await self.log.messages(start)
        if self.log.damage:
            self.problems.append(self.log.damage)
        if conversation.anchored > len(messages):
            conversation = replace(conversation, anchor=None, anchored=0)  # it counts messages that do not exist
        self._summary = conversation.summary
        self._output_rows.clear()
        before = conversation.outputs_before
        if start and not before:  # earlier versions did not count
            before = await self._thread.run(self._archive.count_before, self.session, start)
        conversation = replace(conversation, messages=messages, outputs_before=before, messages_before=start)
        self._outputs = outputs_so_far(conversation)
        self._tools = {call.id: unwrapped_call(call).name for call in conversation.unanswered_calls}
        return conversation

    async def _view(self) -> tuple[int, Conversation]:
        try:
            snapshot = await self._thread.run(self._store.snapshot, self.session)
        except StoreFailed as error:
            self.problems.append(f"{UNREADABLE_SNAPSHOT}: {error}")
            return 0, Conversation()
        decoded = decode_snapshot(snapshot.body) if snapshot else (0, Conversation())
        self.mark = decode_mark(snapshot.body) if snapshot else None
        if decoded is None:
            self.problems.append(UNREADABLE_SNAPSHOT)
        return decoded or (0, Conversation())

    async def _last_session_state(self) -> SessionState:
        try:
            return decode_session_state(await self._thread.run(self._store.situation, self.session))
        except StoreFailed as error:
            self.problems.append(f"seen files, todos and background jobs of the session could not be restored: {error}")
            return SessionState()

    async def record_user_message(self, message: User) -> None:
        """Store the user's message. It is on disk when this returns. The first message creates the session."""
        if self._is_new:
            self._row = replace(self._row, title=title_of(message.text))
            await self.writes.put(self._store.create, self._row)
            self._is_new = False
        elif not self._row.title and (title := title_of(message.text)):  # it began with a note
            await self.writes.put(self._store.rename, self.session, title)
            self.set_title(title)
        told = reported_job_ids(message)
        await self._write(self._rows(message), situation=with_jobs_of(self.situation, self._look(), told))
        self._note_told(told)

    async def forget_files(self, paths: Collection[Path]) -> None:
        """Store that the model no longer knows the content of these files. It is on disk when this returns."""
        seen = {path: digest for path, digest in self.situation.seen.items() if path not in paths}
        await self._write([], situation=replace(self.situation, seen=seen))

    async def record_jobs(self) -> None:
        """Store which jobs have ended. It is on disk when this returns."""
        if not self._is_new:
            await self._write([], situation=with_jobs_of(self.situation, self._look(), ()))

    async def record_reply(self, reply: Assistant) -> None:
        """Store the reply and its calls. It is on disk when this returns; only then may a call run."""
        await self._write(self._rows(reply))

    def note(self, event: Event) -> None:
        """Remember usage and rewrites from an event; they are stored with the next write."""
        match event:
            case TurnStarted():
                self.turn, self._changed = (self._position, time.time()), None
            case FilesChanged():
                self._changed = event
            case ReplyFinished():
                self._usage.append(usage_row(event, time.time()))
                self.spent = self.spent.plus(event.usage, event.cost)
                self.spent_here = self.spent_here.plus(event.usage, event.cost)
            case AgentActivity(event=ReplyFinished(usage=usage, cost=cost)):  # the agent stores its own row
                self.spent = self.spent.plus(usage, cost)
                self.spent_here = self.spent_here.plus(usage, cost)
            case ContextCompacted() | RewriteUndone() | ViewChanged() | ModelSwitched() | PrefixRenewed():
                row = rewrite_row(event, self._position, time.time())
                self._rewrites += [row] if row is not None else []
            case _:
                pass

    async def snapshot(
        self,
        conversation: Conversation,
        outputs: User,
        mark: RequestMark | None,
        before: Conversation | None = None,
        back: int = 0,
    ) -> None:
        """Store the outputs, the view that they complete, and the session state. They are on disk when this returns.

        `mark`: stored facts about the last request. `before`: the previous view, if it was rewritten. `back`: number
        of the view that is shown again. If anything but messages cannot be written, it is skipped: the session then
        resumes from an earlier view."""
        rows = self._rows(outputs)
        shown = SnapshotRow(self._position, encode_snapshot(conversation, self._position, mark))
        left = ViewRow(self._position, encode_snapshot(before, self._position, mark)) if before else None
        seen, told = self._look(), reported_job_ids(outputs)
        left_by_calls = with_todos(self.situation, self._kept.of(conversation.messages))
        situation = with_jobs_of(replace(left_by_calls, seen=seen.seen), seen, told)
        summaries = await self._new_summary(conversation)
        try:
            await self._write(rows, shown, situation, summaries, left, back, states={})
            self._summary = conversation.summary if summaries else self._summary
            self._note_told(told)
        except StoreFailed as error:
            if error.reason != "unreadable":
                raise
            self._rewrites.clear()
            try:
                await self._write(rows, states={})
            except StoreFailed:  # then separately stored outputs cannot be found, but the session continues
                self._output_rows.clear()
                await self._write([encode_message(as_in_log(outputs), row.position) for row in rows])
            self.writes.tell(f"the session's snapshot could not be written; resuming will be slower: {error}")

    async def record_learned(self, model: str, learned: str) -> None:
        """Store what is known of the model's token counts for the next session with it."""
        if self.writes.is_stuck:
            return
        with suppress(StoreFailed):  # it can be learned again; this must not fail a turn
            await self._thread.run(self._store.save_calibration, model, learned)

    async def switch_model(self, model: str, mode: str | None = None) -> None:
        """Store the session's new model, and mode if given. It is on disk when this returns, unless another program
        holds the database: then it is stored at the end of the turn."""
        row = replace(self._row, model=model, mode=mode or self._row.mode)
        if not self._is_new:
            try:
                await self._thread.run(self._store.update, self.session, model=model, mode=row.mode)
            except StoreFailed as error:
                if error.reason != "locked":
                    raise
                return
        self._row = row

    async def tool_uses(self) -> Mapping[str, float]:
        """When each tool was last used in the project, in Unix seconds."""
        with suppress(StoreFailed):  # the times are only a hint; this must not fail a session
            return await self._thread.run(tool_uses, self._store, self._row.project)
        return {}

    async def record_tool_uses(self, uses: Mapping[str, float]) -> None:
        """Store when these tools were used, for the project's next session."""
        if uses and not self.writes.is_stuck:
            with suppress(StoreFailed):  # as above
                await self._thread.run(save_tool_uses, self._store, self._row.project, uses)

    async def end_turn(
        self,
        model: str,
        mode: str,
        learned: str | None = None,
        ended: TurnFinished | TurnFailed | None = None,
    ) -> None:
        """Flush everything, so that it survives a power loss. `learned`: what is known of the model's token counts.
        `ended`: how the turn ended, if one did."""
        if self._is_new:
            return
        if ended is not None:
            changed, self._changed = self._changed, None
            ending = ending_row(self._position, ended, changed)
            with suppress(StoreFailed):  # the turn still counts; a resumed session lacks this line
                if ending is not None:
                    await self.writes.put(self._store.write, self.session, (), (), None, (ending,))
        if learned is not None:
            await self.record_learned(model, learned)
        await self._write([])
        if (model, mode) != (self._row.model, self._row.mode):
            self._row = replace(self._row, model=model, mode=mode)
            await self.writes.put(self._store.update, self.session, model=model, mode=mode)
        await self.writes.put(self._store.end_turn, self.session)

    async def _new_summary(self, conversation: Conversation) -> tuple[SummaryRow, ...]:
        """The row of the current summary, if it is not stored yet."""
        summary = conversation.summary
        if summary == self._summary or not summary:
            return ()
        try:
            known = await self._thread.run(self._archive.summaries, self.session)
        except StoreFailed:  # writing the snapshot will report it
            return ()
        return (summary_row(summary, len(known) + 1, self._position - len(conversation.messages)),)

    async def _write(
        self,
        rows: list[MessageRow],
        shown: SnapshotRow | None = None,
        situation: SessionState | None = None,
        summaries: tuple[SummaryRow, ...] = (),
        before: ViewRow | None = None,
        back: int = 0,
        states: dict[str, str] | None = None,
    ) -> None:
        """`states`: the progress of calls; None leaves it unchanged."""
        async with self._writing:  # a job may end at any time
            await self._write_alone(rows, shown, situation, summaries, before, back, states)

    async def _write_alone(
        self,
        rows: list[MessageRow],
        shown: SnapshotRow | None,
        situation: SessionState | None,
        summaries: tuple[SummaryRow, ...],
        before: ViewRow | None,
        back: int,
        states: dict[str, str] | None,
    ) -> None:
        usage, rewrites, outputs = tuple(self._usage), tuple(self._rewrites), tuple(self._output_rows)
        facts, over = changes_of(self.situation, situation or self.situation)
        if states is not None and states != self._call_states:
            known = self._call_states
            facts += tuple(FactRow(_CALL, id, body) for id, body in states.items() if known.get(id) != body)
            over += tuple((_CALL, id) for id in known.keys() - states.keys())
        if rows or usage or shown or rewrites or facts or over:
            try:
                await self.writes.put(
                    self._store.write,
                    self.session,
                    rows,
                    usage,
                    shown,
                    facts,
                    over,
                    rewrites,
                    outputs,
                    summaries,
                    before,
                    back,
                )
            except StoreFailed as error:
                if error.reason != "locked" or not rows:
                    raise
                raise StoreFailed(f"{error}; not stored: {contents_of(rows)}", error.reason) from error
            del self._usage[: len(usage)], self._rewrites[: len(rewrites)], self._output_rows[: len(outputs)]
            self.situation = situation or self.situation
            self._call_states = self._call_states if states is None else states

    def _rows(self, message: Message) -> list[MessageRow]:
        if not message.parts:
            return []
        row = encode_message(message, self._position)
        if isinstance(message, Assistant):
            self._tools = {call.id: unwrapped_call(call).name for call in message.calls}
        elif message.outputs:
            self._output_rows += output_rows(message, self._position, self._outputs, self._tools)
            self._outputs += len(message.outputs)
        self._position += 1
        return [row]


def title_of(text: str) -> str:
    """The session's title: the first line of the user's message, at most 80 characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return ellipsize(first, 80)
