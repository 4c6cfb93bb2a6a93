"""Finds where text occurs in a session, and whether the model sees it there. `ebbtide.agent.view.provenance` determines
the state of each occurrence."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from ebbtide.agent.archive.indexer import INDEX_TIMEOUT_S, Indexer
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import Assistant, Conversation
from ebbtide.agent.records.damage import decode_message_or_none
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.rows import decode_summary_row
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.view.provenance import (
    CoveringSummary,
    Occurrence,
    Occurrences,
    RemovedMessage,
    find_occurrence_of_ref,
    find_occurrences,
)
from ebbtide.agent.view.references import (
    CURRENT_SESSION,
    BadReference,
    MessageRef,
    OutputRef,
    Reference,
    ReferenceTarget,
    SummaryRef,
    parse_reference,
)
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.queries import SearchQuery
from ebbtide.store.search import SearchDocument
from ebbtide.store.sessions import SessionStore

MAX_EXAMINED_MATCHES = 200
"""Maximum number of search matches that are examined, per query."""

_WORD = re.compile(r"[^\W_]+")


class TextLocator:
    """Locates text in one session. Raises `StoreFailed`."""

    def __init__(self, thread: StoreThread, store: SessionStore, session: str) -> None:
        self._thread = thread
        self._store = store
        self._session = session
        self._indexer = Indexer(thread, store)

    async def locate_text(
        self,
        text: str,
        view: Conversation | None,
        get_unsearched_notes: Callable[[str, Collection[str]], Awaitable[list[str]]],
    ) -> Occurrences:
        """Find every place where the session contains the text, and whether the model sees it there. If the text is a
        reference, look up the output or message that it names. `view`: the conversation as the model sees it; None
        loads the stored view. `get_unsearched_notes`: called with advice for the user and the references that were
        found. It returns notes on outputs that were not fully searched and might also contain the text."""
        if not text.strip():
            return Occurrences()
        if view is None:
            row = await self._thread.run(self._store.session, self._session)
            view = (
                await Recorder(self._thread, self._store, row, is_new=False).read_conversation()
                if row
                else Conversation()
            )
        with suppress(BadReference):
            reference = parse_reference(text)
            if reference.session == CURRENT_SESSION and (matches := await self.find_reference(reference, view)):
                return Occurrences(matches)
        occurrences = await self.find_text(text, view)
        notes = await get_unsearched_notes(
            "`/archive` shows whole outputs", {occurrence.ref for occurrence in occurrences}
        )
        gap = self._indexer.gap
        return Occurrences(occurrences, (*([gap.note] if gap is not None else []), *notes))

    async def find_text(self, text: str, view: Conversation) -> tuple[Occurrence, ...]:
        """Find every place where the session contains the text, oldest first, ignoring case. In messages that left the
        view, text of one or two letters is found only as a whole word. `view`: the conversation as the model sees it,
        with all messages so far."""
        if not text.strip():
            return ()
        await self._indexer.catch_up((self._session,), is_limited=True, seconds=INDEX_TIMEOUT_S)
        documents = await self._documents_containing(text)
        newest = await self._thread.run(self._store.messages_before, self._session, 2**62, 1)
        view_start = (newest[-1].position + 1 if newest else 0) - len(view.messages)
        positions = sorted(
            {
                document.position
                for document in documents
                if document.kind != "summary" and document.position < view_start
            }
        )
        loaded = [await self._thread.run(self._read_removed_message, position) for position in positions]
        removed_messages = [message for message in loaded if message is not None]
        output_numbers = {document.number for document in documents if document.kind == "output"}
        summaries = await self._thread.run(self._summaries)
        return await asyncio.to_thread(
            find_occurrences, text, view, removed_messages, summaries, output_numbers
        )  # slow for long sessions

    async def find_reference(self, reference: Reference, view: Conversation) -> tuple[Occurrence, ...]:
        """Return the state of each output or message that matches a reference; empty if there is none."""
        newest = await self._thread.run(self._store.messages_before, self._session, 2**62, 1)
        view_start = (newest[-1].position + 1 if newest else 0) - len(view.messages)
        view = replace(view, messages_before=view_start)
        summaries, occurrences = await self._thread.run(self._summaries), list[Occurrence]()
        for ref, position in await self._thread.run(self._matching_references, reference.target):
            removed_message = (
                await self._thread.run(self._read_removed_message, position) if position < view_start else None
            )
            occurrence = await asyncio.to_thread(
                find_occurrence_of_ref, ref, position, view, removed_message, summaries
            )
            occurrences += [occurrence] if occurrence is not None else []
        return tuple(occurrences)

    def _matching_references(self, target: ReferenceTarget) -> Sequence[tuple[str, int]]:
        """Return the complete references that match a target, each with the position of its message."""
        archive_store = ArchiveStore(self._store)
        match target:
            case OutputRef(number=number):
                return [(str(target), row.position) for row in archive_store.output_parts(self._session, number)[:1]]
            case MessageRef(prefix=prefix):
                return [
                    (f"msg-{name}", position)
                    for position, name in archive_store.messages_with_ref_prefix(self._session, prefix)
                ]
            case SummaryRef():
                return ()

    async def _documents_containing(self, text: str) -> tuple[SearchDocument, ...]:
        """Return the indexed documents that contain the text."""
        needle, documents = text.lower(), dict[tuple[int, int], SearchDocument]()
        for query in search_queries(text):
            search_query = SearchQuery(query, sessions=(self._session,), limit=MAX_EXAMINED_MATCHES)
            matches = await self._indexer.find(search_query)
            documents |= await asyncio.to_thread(_filter_documents, needle, [match.document for match in matches])
        return tuple(documents.values())

    def _read_removed_message(self, position: int) -> RemovedMessage | None:
        """Return the message at a position; None if it was damaged after it was indexed. Loading the session reports
        such damage."""
        rows = self._store.messages_before(self._session, position + 1, 2)
        messages = [decode_message_or_none(row) for row in rows]
        if messages[-1] is None:
            return None
        previous = messages[0] if len(messages) > 1 else None
        calls = previous.calls if isinstance(previous, Assistant) else ()
        output_count = ArchiveStore(self._store).count_outputs_before(self._session, position)
        return RemovedMessage(position, messages[-1], calls, output_count)

    def _summaries(self) -> Sequence[CoveringSummary]:
        rows = ArchiveStore(self._store).summaries(self._session)
        summaries = list[CoveringSummary]()
        for row in rows:
            with suppress(StoreFailed):  # `recall` reports the damage when it reads the summary
                summaries.append(CoveringSummary(row.number, row.position, decode_summary_row(row)))
        return summaries


def _filter_documents(needle: str, documents: Sequence[SearchDocument]) -> dict[tuple[int, int], SearchDocument]:
    return {(document.position, document.number): document for document in documents if needle in document.text.lower()}


def search_queries(text: str) -> tuple[str, ...]:
    """Build search queries that together find every document containing the text. Since the text can begin and end
    inside a word, only its inner words are known to be complete. The first query is the phrase of all words. The second
    is the phrase of the inner words or, if there are at most two words, a search for them as parts of longer words."""
    words = _WORD.findall(text)
    queries = [f'"{" ".join(words)}"']
    if len(words) > 2:
        queries.append(f'"{" ".join(words[1:-1])}"')
    else:
        queries.append(" ".join(words))
    return tuple(query for query in queries if query.strip('" '))
