"""Converts messages to searchable documents, and updates the search index."""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

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
from ebbtide.store.queries import SearchQuery
from ebbtide.store.search import IndexProgress, SearchDocument, SearchIndex, SearchMatch
from ebbtide.store.session_rows import MessageRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.recall_results import OnProgress, no_progress
from ebbtide.tools.tool_traits import role_of

MAX_INDEXED_OUTPUT_BYTES = 1 << 18
"""Maximum number of bytes indexed per output. Search results say if an output is longer."""
MAX_INDEXED_MESSAGE_CHARS = 1 << 22
"""Maximum number of characters indexed per user message, including pasted and piped text."""
MESSAGES_PER_BATCH = 200
"""Messages indexed in one batch. Between batches, other tasks can use the database."""
MAX_BATCH_CHARS = 1 << 21
"""Number of characters after which a batch ends early. Larger batches would use too much memory and block the store for
too long."""
MAX_TITLE_CHARS = 160
INDEX_TIMEOUT_S = 10.0
"""Maximum time in seconds that a search waits for indexing. After that, it searches what has been indexed so far."""

ResultT = TypeVar("ResultT")
UNINDEXED_NOTE = "{:,} older messages are not indexed yet and were not searched; the next search continues with them"


@dataclass(frozen=True, slots=True)
class PendingCalls:
    """The last reply's calls, by id, and the number of outputs before the current message."""

    calls: Mapping[str, ToolCall]
    output_count: int = 0


class Indexer:
    """Updates the search index from messages. Raises `StoreFailed`."""

    def __init__(self, thread: StoreThread, store: SessionStore) -> None:
        self._thread = thread
        self._store = store
        self.index = SearchIndex(store)
        self.repair_count = 0
        """Number of times that a damaged index was rebuilt."""
        self.unindexed_count = 0
        """Number of messages that the last update left unindexed."""

    async def catch_up(
        self, on_progress: OnProgress = no_progress, *, first_session: str = "", seconds: float = inf
    ) -> int:
        """Index new messages for up to `seconds`, starting with session `first_session` and continuing with the other
        sessions, newest first. Return how many messages remain unindexed. Other tasks can use the store between
        batches. A damaged index is rebuilt."""
        return await self.retry_after_repair(
            lambda: self._catch_up(on_progress, first_session, seconds), on_progress, first_session
        )

    async def catch_up_session(self, session: str) -> int:
        """Index the new messages of one session. Return how many remain unindexed."""
        return await self.retry_after_repair(
            lambda: self._catch_up(no_progress, session, INDEX_TIMEOUT_S, session), no_progress, session
        )

    async def find(self, query: SearchQuery, on_progress: OnProgress = no_progress) -> tuple[SearchMatch, ...]:
        """Search the index. If it is damaged, rebuild it first."""
        return await self.retry_after_repair(lambda: self._thread.run(self.index.find, query), on_progress)

    async def retry_after_repair(
        self, work: Callable[[], Awaitable[ResultT]], on_progress: OnProgress = no_progress, first_session: str = ""
    ) -> ResultT:
        """Run `work` and return its result. If it fails because the index is damaged, rebuild the index and run it
        again."""
        try:
            return await work()
        except StoreFailed as error:
            if error.reason not in ("corrupt", "unreadable"):
                raise
            await self.repair(on_progress, first_session)
            return await work()

    async def repair(self, on_progress: OnProgress = no_progress, first_session: str = "") -> None:
        """Rebuild the index from the messages, within the time limit of a search."""
        self.repair_count += 1
        await self._thread.run(self.index.clear)
        await self._catch_up(on_progress, first_session, INDEX_TIMEOUT_S)

    async def _catch_up(
        self, on_progress: OnProgress, first_session: str = "", seconds: float = inf, only_session: str = ""
    ) -> int:
        deadline = time.monotonic() + seconds
        await self._thread.run(self._store.switch_to_copy)
        unfinished = await self._thread.run(self.index.unfinished_sessions)
        chosen = [progress for progress in unfinished if only_session in ("", progress.session)]
        total_count, indexed_count, self.unindexed_count = sum(progress.pending_messages for progress in chosen), 0, 0
        for progress in sorted(chosen, key=lambda progress: progress.session != first_session):
            while progress.pending_messages > 0 or progress.pending_summaries > 0:
                previous_count = progress.pending_messages
                progress = await self._thread.run(self._index_next_batch, progress)
                indexed_count += previous_count - progress.pending_messages
                on_progress(indexed_count, total_count)
                if time.monotonic() >= deadline:
                    self.unindexed_count = total_count - indexed_count
                    return self.unindexed_count
        return 0

    def _index_next_batch(self, progress: IndexProgress) -> IndexProgress:
        """Index the next messages of a session, or its summaries if no messages are left. Return the new progress."""
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
            return new_progress
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
        return new_progress

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
