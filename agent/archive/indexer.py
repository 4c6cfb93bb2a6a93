"""Converts messages to searchable documents, and updates the search index."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

from ebbtide.agent.archive.index_process import start_index_process
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    Note,
    Text,
    ToolCall,
    ToolOutput,
    User,
    UserPart,
)
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.agent.records.rows import decode_summary_row
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.tool_specs import executed_call
from ebbtide.agent.view.message_text import message_text
from ebbtide.agent.view.previews import reads_archive
from ebbtide.agent.view.stubs import one_line, outcome_line, patched_paths
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.errors import StoreError
from ebbtide.store.index_lock import IndexLock
from ebbtide.store.queries import SearchQuery
from ebbtide.store.search import IndexProgress, SearchDocument, SearchIndex, SearchMatch
from ebbtide.store.search_tables import LARGE_DOCUMENT_BYTES
from ebbtide.store.session_rows import MessageRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.tool_traits import role_of

MAX_INDEXED_OUTPUT_BYTES = LARGE_DOCUMENT_BYTES
"""Maximum number of bytes indexed per output. Search results say if an output is longer."""
MAX_INDEXED_MESSAGE_CHARS = 1 << 22
"""Maximum number of characters indexed per user message, including pasted and piped text."""
MESSAGES_PER_BATCH = 200
"""Messages indexed in one batch. Between batches, other tasks can use the database."""
MAX_BATCH_CHARS = 1 << 18
"""Number of characters after which a batch ends early. Larger batches would block the writes of other programs
for too long."""
MAX_TITLE_CHARS = 160
INDEX_TIMEOUT_S = 0.2
"""Maximum time in seconds that a search spends on indexing. After that, it searches what has been indexed so far, and
the rest is indexed in the background."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class IndexGap:
    """What could not be searched because it is not indexed yet."""

    message_count: int
    session_count: int
    """Number of sessions that are not fully indexed."""
    total_session_count: int
    is_being_indexed: bool
    """Whether a process indexes the rest. Otherwise, the next search continues."""

    @property
    def note(self) -> str:
        """What the user and the model are told about the gap."""
        searchable_count = self.total_session_count - self.session_count
        rest = "the rest is being indexed" if self.is_being_indexed else "the next search continues with the rest"
        if searchable_count <= 0:
            return f"{self.message_count:,} older messages are not searchable yet; {rest}"
        return f"{searchable_count:,} of {self.total_session_count:,} sessions are searchable so far; {rest}"


@dataclass(frozen=True, slots=True)
class PendingCalls:
    """The last reply's calls, by id, and the number of outputs before the current message."""

    calls: Mapping[str, ToolCall]
    output_count: int = 0


class Indexer:
    """Updates the search index from messages. Raises `StoreFailed`."""

    def __init__(self, thread: StoreThread, store: SessionStore, model: str | None = None) -> None:
        """`model`: the folder of the model for search by meaning."""
        self._thread = thread
        self._store = store
        self._model = model
        self.index = SearchIndex(store)
        self.repair_count = 0
        """Number of times that a damaged index was rebuilt."""
        self.gap: IndexGap | None = None
        """What the last update left unindexed; None if nothing."""

    async def catch_up(
        self,
        sessions: Sequence[str] = (),
        *,
        project: str | None = None,
        is_limited: bool = False,
        seconds: float = inf,
    ) -> None:
        """Index new messages for up to `seconds`: of these sessions, then of others, those of `project` and the newest
        first. If another process is indexing, only these sessions are indexed. What is left is indexed by a process in
        the background, and `gap` describes it. `is_limited`: leave other sessions out. Other tasks can use the store
        between batches. A damaged index is rebuilt."""
        await self.retry_after_repair(lambda: self._catch_up(sessions, project, is_limited, seconds))

    async def index_everything(self, lock: IndexLock) -> None:
        """Index everything, including what is stored meanwhile, and record that in the lock's file. Pauses as long as
        it works, so that other processes can write, and half of a processor stays free."""
        await self.retry_after_repair(lambda: self._index_everything(lock))

    async def find(self, query: SearchQuery) -> tuple[SearchMatch, ...]:
        """Search the index. If it is damaged, rebuild it first."""
        return await self.retry_after_repair(lambda: self._thread.run(self.index.find, query))

    async def retry_after_repair(self, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Run `work` and return its result. If it fails because the index is damaged, rebuild the index, within the
        time limit of a search, and run it again."""
        try:
            return await work()
        except StoreFailed as error:
            if error.reason not in ("corrupt", "unreadable"):
                raise
            self.repair_count += 1
            await self._thread.run(self.index.clear)
            await self._catch_up((), None, False, INDEX_TIMEOUT_S)
            return await work()

    async def index_in_background(self) -> bool:
        """Start a process that indexes the rest, unless one is running. Return whether one is running now."""
        lock = await self._thread.run(IndexLock.acquire, self._store.shared_path)
        if lock is None:
            return True
        with closing(lock):
            return await self._thread.run(start_index_process, self._store, lock, self._model)

    async def _catch_up(self, sessions: Sequence[str], project: str | None, is_limited: bool, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        await self._thread.run(self._store.switch_to_copy)
        last_message = await self._thread.run(self._store.last_message_id)
        unfinished = await self._thread.run(self.index.unfinished_sessions)
        first = [progress for progress in unfinished if progress.session in sessions]
        others = [] if is_limited else [progress for progress in unfinished if progress.session not in sessions]
        others.sort(key=lambda progress: progress.project != project)
        missing, is_complete, is_being_indexed = await self._index_sessions(first, deadline), False, True
        lock = await self._thread.run(IndexLock.acquire, self._store.shared_path)
        if lock is None:
            missing += others
        else:
            with closing(lock):
                missing += await self._index_sessions(others, deadline)
                is_complete = not missing and await self._add_word_parts(deadline)
                if is_complete and not is_limited:
                    await self._thread.run(lock.record, last_message)
            is_being_indexed = not is_complete and await self.index_in_background()
        scope = [progress for progress in missing if is_limited or project in (None, progress.project)]
        self.gap = None
        if scope:
            message_count = sum(progress.pending_messages for progress in scope)
            total_count = len(sessions) if is_limited else await self._thread.run(self.index.session_count, project)
            self.gap = IndexGap(message_count, len(scope), total_count, is_being_indexed)

    async def _index_everything(self, lock: IndexLock) -> None:
        previous: Sequence[IndexProgress] | None = None
        await self._thread.run(self.index.index_large_documents)
        while True:
            last_message = await self._thread.run(self._store.last_message_id)
            unfinished = await self._thread.run(self.index.unfinished_sessions)
            if not unfinished and await self._add_word_parts(inf, pauses=True):
                return await self._thread.run(lock.record, last_message)
            if unfinished == previous:
                return None
            previous = unfinished
            await self._index_sessions(unfinished, inf, pauses=True)

    async def _index_sessions(
        self, sessions: Sequence[IndexProgress], deadline: float, *, pauses: bool = False
    ) -> list[IndexProgress]:
        """Index sessions until a deadline, but at least as much as one batch. Return the progress of those that are
        unfinished."""
        batch_count = 0.0
        for index, progress in enumerate(sessions):
            while progress.is_unfinished:
                start_time = time.monotonic()
                progress, batch_share = await self._thread.run(self._index_next_batch, progress)
                end_time, batch_count = time.monotonic(), batch_count + batch_share
                if end_time >= deadline and batch_count >= 1:
                    return [*([progress] if progress.is_unfinished else []), *sessions[index + 1 :]]
                await asyncio.sleep(end_time - start_time if pauses else 0)
        return []

    async def _add_word_parts(self, deadline: float, *, pauses: bool = False) -> bool:
        """Complete the index of word parts, until a deadline. Return whether it is complete."""
        while True:
            start_time = time.monotonic()
            if await self._thread.run(self.index.add_word_parts):
                return True
            end_time = time.monotonic()
            if end_time >= deadline:
                return False
            await asyncio.sleep(end_time - start_time if pauses else 0)

    def _index_next_batch(self, progress: IndexProgress) -> tuple[IndexProgress, float]:
        """Index the next messages of a session, or its summaries if no messages are left. Return the new progress, and
        which share of the largest batch this was."""
        start = progress.indexed_messages
        rows = self.index.messages(progress.session, max(start - 1, 0), MESSAGES_PER_BATCH + 1)
        if not rows or rows[-1].position < start:
            new_progress = replace(
                progress,
                pending_messages=0,
                indexed_summaries=progress.indexed_summaries + progress.pending_summaries,
                pending_summaries=0,
            )
            self.index.add_documents(new_progress, self._summary_documents(progress), start)
            return new_progress, 1 / MESSAGES_PER_BATCH
        documents = list[SearchDocument]()
        calls = PendingCalls({}, progress.indexed_outputs)
        end = start
        batch_chars = 0
        for row in rows:
            row_documents, calls = self._row_documents(row, calls, is_new=row.position >= start)
            documents += row_documents
            end = row.position + 1
            batch_chars += sum(len(document.text) for document in row_documents)
            if batch_chars >= MAX_BATCH_CHARS and end > start:
                break
        new_progress = replace(
            progress,
            indexed_messages=end,
            indexed_outputs=calls.output_count,
            pending_messages=max(progress.pending_messages - (end - start), 0),
        )
        self.index.add_documents(new_progress, documents, start)
        return new_progress, max((end - start) / MESSAGES_PER_BATCH, batch_chars / MAX_BATCH_CHARS)

    def _row_documents(
        self, row: MessageRow, pending_calls: PendingCalls, *, is_new: bool
    ) -> tuple[list[SearchDocument], PendingCalls]:
        try:
            message = decode_message(row)
        except StoreFailed:  # loading the session reports the damage; the other messages can still be found
            return [], pending_calls
        if isinstance(message, Assistant):
            new_calls = replace(pending_calls, calls={call.id: call for call in message.calls})
        elif is_new:
            new_calls = replace(pending_calls, output_count=pending_calls.output_count + len(message.outputs))
        else:
            return [], pending_calls
        return (
            list(build_message_documents(message, row, pending_calls, self._read_full_text)) if is_new else []
        ), new_calls

    def _read_full_text(self, output: ToolOutput) -> tuple[str, int]:
        """Return the beginning of an output's full text, and its size in bytes."""
        stored, blobs = output.stored, self._store.blobs
        if stored is not None and blobs is not None:
            # If the stored output cannot be read, the text in the message is indexed.
            with suppress(StoreError), closing(blobs.open(stored.digest)) as reader:
                beginning = _as_text(reader.read(0, MAX_INDEXED_OUTPUT_BYTES - len(output.frame)))
                parts = (beginning, "" if beginning.endswith(output.frame) else output.frame)
                return "\n".join(part for part in parts if part), reader.size
        data = output.text.encode("utf-8", "replace")
        return _as_text(data[:MAX_INDEXED_OUTPUT_BYTES]), len(data)

    def _summary_documents(self, progress: IndexProgress) -> Iterator[SearchDocument]:
        for row in ArchiveStore(self._store).summaries(progress.session):
            with suppress(StoreFailed):  # damage is reported when the session itself is read
                text = decode_summary_row(row).text
                yield SearchDocument(
                    row.position, row.number, "summary", "", text, size=_utf8_size(text), created=row.created
                )


def build_message_documents(
    message: Message,
    row: MessageRow,
    pending_calls: PendingCalls,
    read_full_text: Callable[[ToolOutput], tuple[str, int]],
) -> Iterator[SearchDocument]:
    """Yield the documents of a message: one for its text, and one for each output. Notes from the program are skipped.
    So are lookup calls and their outputs, because they only repeat text that is already indexed. `pending_calls`: calls
    made before this message."""
    if isinstance(message, Assistant):
        searchable = replace(message, parts=tuple(part for part in message.parts if not _is_lookup_call(part)))
        text, paths = message_text(searchable), _named_paths(searchable.calls)
        if text:
            yield SearchDocument(
                row.position, 0, "assistant", "", text, path=paths, size=_utf8_size(text), created=row.created
            )
        return
    text = message_text(User(tuple(part for part in message.parts if _is_user_text(part))))[:MAX_INDEXED_MESSAGE_CHARS]
    if text:
        yield SearchDocument(row.position, 0, "user", "", text, size=_utf8_size(text), created=row.created)
    for number, output in enumerate(message.outputs, pending_calls.output_count + 1):
        call = pending_calls.calls.get(output.call_id, ToolCall(output.call_id, "tool", {}))
        if reads_archive(call.name) and role_of(call.name) != "ask_question":
            continue
        full_text, size = read_full_text(output)
        title = one_line(outcome_line(call, output), MAX_TITLE_CHARS)
        yield SearchDocument(
            row.position,
            number,
            "output",
            title,
            full_text,
            call.name,
            _named_paths([executed_call(call, output)]),
            size,
            row.created,
        )


def _is_user_text(part: UserPart) -> bool:
    return isinstance(part, Text | Image) or (isinstance(part, Note) and part.kind in ("pasted", "piped"))


def _is_lookup_call(part: AssistantPart) -> bool:
    """Whether the part is a lookup call. Lookup calls are not indexed, because their arguments repeat the words
    searched for."""
    return isinstance(part, ToolCall) and reads_archive(part.name) and role_of(part.name) != "ask_question"


def _named_paths(calls: Sequence[ToolCall]) -> str:
    paths = [path for call in calls for path in (call.arguments.get("path"), *patched_paths(call))]
    return "\n".join(dict.fromkeys(path for path in paths if isinstance(path, str) and path))


def _utf8_size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _as_text(data: bytes) -> str:
    """Return the bytes as text; empty if they are binary."""
    return "" if b"\0" in data else data.decode("utf-8", "replace")
