"""Converts messages to searchable documents, and updates the search index."""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

from ebbtide.agent.context.mask import one_line, outcome_line, patched_paths
from ebbtide.agent.context.message_text import message_text
from ebbtide.agent.context.offload import is_recall_tool
from ebbtide.agent.context.tool_selection import executed_call
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
from ebbtide.agent.records.rows import read_summary
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.errors import StoreError
from ebbtide.store.queries import SearchQuery
from ebbtide.store.search import IndexProgress, SearchDocument, SearchIndex, SearchMatch
from ebbtide.store.session_rows import MessageRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.recalled import OnProgress, no_progress

MOST_INDEXED = 1 << 18
"""Bytes of one output that are indexed; search results mark longer outputs."""
MAX_MESSAGE_CHARS = 1 << 22
"""Characters of one user message that are indexed, including pasted and piped text."""
BATCH = 200
"""Messages that are indexed at once; in between, others can use the database."""
MOST_AT_ONCE = 1 << 21
"""Characters after which a batch ends early: long outputs would fill the memory and block the store."""
TITLE = 160
INDEX_TIMEOUT_S = 10.0
"""Seconds that a search waits for the index; after that, it uses what is there."""

ResultT = TypeVar("ResultT")
UNINDEXED_NOTE = "{:,} older messages are not indexed yet and were not searched; the next search continues with them"


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls that the next outputs answer, and the number of outputs so far."""

    calls: Mapping[str, ToolCall]
    outputs: int = 0


class Indexer:
    """Updates the search index from messages. Raises `StoreFailed`."""

    def __init__(self, thread: StoreThread, store: SessionStore) -> None:
        self._thread = thread
        self._store = store
        self.index = SearchIndex(store)
        self.repairs = 0
        """How often the index was damaged and rebuilt."""
        self.left = 0
        """How many messages were not indexed after the last update."""

    async def catch_up(self, told: OnProgress = no_progress, *, first: str = "", seconds: float = inf) -> int:
        """Index new messages, of session `first` and then of the newest ones, for up to `seconds`. Return how many
        are left. In between, others can use the store. A damaged index is rebuilt."""
        return await self.retry_after_repair(lambda: self._catch_up(told, first, seconds), told, first)

    async def catch_up_with(self, session: str) -> int:
        """Index the new messages of one session. Return how many are left."""
        return await self.retry_after_repair(
            lambda: self._catch_up(no_progress, session, INDEX_TIMEOUT_S, session), no_progress, session
        )

    async def find(self, wanted: SearchQuery, told: OnProgress = no_progress) -> tuple[SearchMatch, ...]:
        """Search the index."""
        return await self.retry_after_repair(lambda: self._thread.run(self.index.find, wanted), told)

    async def retry_after_repair(
        self, work: Callable[[], Awaitable[ResultT]], told: OnProgress = no_progress, first: str = ""
    ) -> ResultT:
        """Return the result of `work`. If it finds the index damaged, rebuild the index and run it again."""
        try:
            return await work()
        except StoreFailed as error:
            if error.reason not in ("corrupt", "unreadable"):
                raise
            await self.repair(told, first)
            return await work()

    async def repair(self, told: OnProgress = no_progress, first: str = "") -> None:
        """Rebuild the index from the messages, as far as possible in the time limit of a search."""
        self.repairs += 1
        await self._thread.run(self.index.rebuild)
        await self._catch_up(told, first, INDEX_TIMEOUT_S)

    async def _catch_up(self, told: OnProgress, first: str = "", seconds: float = inf, only: str = "") -> int:
        end = time.monotonic() + seconds
        await self._thread.run(self._store.use_copy)
        behind = await self._thread.run(self.index.behind)
        chosen = [progress for progress in behind if only in ("", progress.session)]
        total, done, self.left = sum(progress.messages for progress in chosen), 0, 0
        for progress in sorted(chosen, key=lambda one: one.session != first):
            while progress.messages > 0 or progress.waiting > 0:
                before = progress.messages
                progress = await self._thread.run(self._add, progress)
                done += before - progress.messages
                told(done, total)
                if time.monotonic() >= end:
                    self.left = total - done
                    return self.left
        return 0

    def _add(self, progress: IndexProgress) -> IndexProgress:
        """Index the next messages of a session, and after the last ones its summaries."""
        start = progress.position
        rows = self.index.messages(progress.session, max(start - 1, 0), BATCH + 1)
        if not rows or rows[-1].position < start:
            done = replace(progress, messages=0, summaries=progress.summaries + progress.waiting, waiting=0)
            self.index.add(done, self._summaries(progress), start)
            return done
        documents, calls, end, size = list[SearchDocument](), Calls({}, progress.outputs), start, 0
        for row in rows:
            found, calls = self._documents(row, calls, is_new=row.position >= start)
            documents += found
            end = row.position + 1
            size += sum(len(document.text) for document in found)
            if size >= MOST_AT_ONCE and end > start:
                break
        done = replace(
            progress, position=end, outputs=calls.outputs, messages=max(progress.messages - (end - start), 0)
        )
        self.index.add(done, documents, start)
        return done

    def _documents(self, row: MessageRow, calls: Calls, *, is_new: bool) -> tuple[list[SearchDocument], Calls]:
        try:
            message = decode_message(row)
        except StoreFailed:  # readers of the session are told; the rest can still be found
            return [], calls
        if isinstance(message, Assistant):
            after = replace(calls, calls={call.id: call for call in message.calls})
        elif is_new:
            after = replace(calls, outputs=calls.outputs + len(message.outputs))
        else:
            return [], calls
        return (list(documents_of(message, row, calls, self._whole)) if is_new else []), after

    def _whole(self, output: ToolOutput) -> tuple[str, int]:
        """The beginning of an output's full text, and its size in bytes."""
        stored, blobs = output.stored, self._store.blobs
        if stored is not None and blobs is not None:
            # If that fails, the text in the message is indexed.
            with suppress(StoreError), closing(blobs.open(stored.digest)) as reader:
                held = _as_text(reader.read(0, MOST_INDEXED - len(output.frame)))
                parts = (held, "" if held.endswith(output.frame) else output.frame)
                return "\n".join(part for part in parts if part), reader.size
        data = output.text.encode("utf-8", "replace")
        return _as_text(data[:MOST_INDEXED]), len(data)

    def _summaries(self, progress: IndexProgress) -> Iterator[SearchDocument]:
        for row in ArchiveStore(self._store).summaries(progress.session):
            with suppress(StoreFailed):  # readers of it are told
                text = read_summary(row).text
                yield SearchDocument(
                    row.position, row.number, "summary", "", text, size=_size(text), created=row.created
                )


def documents_of(
    message: Message, row: MessageRow, calls: Calls, whole: Callable[[ToolOutput], tuple[str, int]]
) -> Iterator[SearchDocument]:
    """The documents of a message: what was said, and each output. Text that was only looked up is found at its
    origin, and the program's notes are not indexed. `calls`: those before the message."""
    if isinstance(message, Assistant):
        said = replace(message, parts=tuple(part for part in message.parts if not _looks_up(part)))
        text, paths = message_text(said), _paths(said.calls)
        if text:
            yield SearchDocument(
                row.position, 0, "assistant", "", text, path=paths, size=_size(text), created=row.created
            )
        return
    text = message_text(User(tuple(part for part in message.parts if _is_user_text(part))))[:MAX_MESSAGE_CHARS]
    if text:
        yield SearchDocument(row.position, 0, "user", "", text, size=_size(text), created=row.created)
    for number, output in enumerate(message.outputs, calls.outputs + 1):
        call = calls.calls.get(output.call_id, ToolCall(output.call_id, "tool", {}))
        if is_recall_tool(call.name) and call.name != "ask_user":
            continue
        held, size = whole(output)
        title = one_line(outcome_line(call, output), TITLE)
        yield SearchDocument(
            row.position,
            number,
            "output",
            title,
            held,
            call.name,
            _paths([executed_call(call, output)]),
            size,
            row.created,
        )


def _is_user_text(part: UserPart) -> bool:
    return isinstance(part, Text | Image) or (isinstance(part, Note) and part.kind in ("pasted", "piped"))


def _looks_up(part: AssistantPart) -> bool:
    """Whether it is a lookup call, which would find itself: it contains the search words."""
    return isinstance(part, ToolCall) and is_recall_tool(part.name) and part.name != "ask_user"


def _paths(calls: Sequence[ToolCall]) -> str:
    named = [path for call in calls for path in (call.arguments.get("path"), *patched_paths(call))]
    return "\n".join(dict.fromkeys(path for path in named if isinstance(path, str) and path))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _as_text(data: bytes) -> str:
    """The bytes as text; empty if they are binary."""
    return "" if b"\0" in data else data.decode("utf-8", "replace")
