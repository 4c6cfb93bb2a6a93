"""Searches the content of sessions by words, filters or meaning, and reports what could not be searched."""

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.excerpt import MAX_EXCERPT_CHARS, make_excerpt
from ebbtide.agent.archive.indexer import INDEX_TIMEOUT_S, MAX_INDEXED_OUTPUT_BYTES, Indexer
from ebbtide.agent.archive.reference_parts import URI_ID_DIGITS, ResolvedReference
from ebbtide.agent.archive.semantic_search import EmbeddingFailed, SemanticIndex, load_semantic_search
from ebbtide.agent.errors import ReferenceFailed, StoreFailed
from ebbtide.agent.records.damage import decode_message_or_none
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.view.references import MessageRef, OutputRef, Reference, SummaryRef, message_digits
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.queries import SearchQuery, query_pieces
from ebbtide.store.search import SearchMatch, access_key
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.recall_results import RecalledItem, RecallQuery, RecallResult
from ebbtide.tools.outputs.recall_scope import RecallScope
from ebbtide.tools.search.word_search import ScanResult, scan_words

INDEX_REBUILT_NOTE = "the search index was damaged and has been rebuilt"

UNREADABLE_MESSAGE_NAME = "0" * 8
"""Used in place of the name of an unreadable message."""

MAX_BEGINNING_CHARS = 120
"""Maximum characters shown per result when a search has no words. The limit is low so that an answer can contain more
results."""

MAX_SCAN_SECONDS = 0.25
"""Maximum time in seconds for scanning outputs beyond their indexed part."""

MAX_SCANNED_OUTPUTS = 1000
"""Maximum number of outputs scanned beyond their indexed part, newest first."""

FULL_SEARCH_ADVICE = "`ref_id` with `search` searches a whole output"

MAX_NAMED_OUTPUTS = 5
"""Maximum number of outputs listed by name in a note about partly searched outputs."""

NEAR_MATCH_NOTE = "no exact match; these results are similar in meaning"

PARTIAL_MATCH_NOTE = "no result contains all of these words; these contain some"


class RecallSearch:
    """Searches on behalf of one session. Raises `ReferenceFailed` and `StoreFailed`."""

    def __init__(
        self,
        thread: StoreThread,
        store: SessionStore,
        archive: Archive,
        session: str,
        project: str,
        embedding_model: str | None,
    ) -> None:
        self._thread = thread
        self._store = store
        self._archive = archive
        self._session = session
        self._project = project
        self._embedding_model = embedding_model
        self._semantic_index: SemanticIndex | None = None
        self._indexer = Indexer(thread, store, embedding_model)

    async def search(self, recall_query: RecallQuery, scope: RecallScope) -> RecallResult:
        """Return the items that match the words and filters, best first."""
        repairs = self._indexer.repair_count
        own_sessions = (self._session, *await self._agent_sessions())
        await self._indexer.catch_up(
            own_sessions,
            project=None if scope == "all" else self._project,
            is_limited=scope == "session",
            seconds=INDEX_TIMEOUT_S,
        )
        query = SearchQuery(
            recall_query.query,
            recall_query.kinds,
            recall_query.tool,
            recall_query.path,
            recall_query.since,
            recall_query.until,
            sessions=own_sessions if scope == "session" else (),
            project=self._project if scope == "project" else None,
            limit=recall_query.limit,
        )
        matches, notes = await self._find_matches(query)
        scanned_items, scan_notes = await self._scan_long_outputs(query, matches)
        if scanned_items:
            matches = tuple(match for match in matches if match.method in ("words", "parts"))
        items = (*[await self._recalled_item(match, recall_query) for match in matches], *scanned_items)
        notes += [self._indexer.gap.note] if self._indexer.gap is not None else []
        notes += [INDEX_REBUILT_NOTE] if self._indexer.repair_count > repairs else []
        if any(match.method == "some" for match in matches):
            notes.append(PARTIAL_MATCH_NOTE)
        if recall_query.query and matches and all(match.method == "meaning" for match in matches):
            notes.append(NEAR_MATCH_NOTE)
        return RecallResult(items, (*notes, *scan_notes))

    async def _agent_sessions(self) -> tuple[str, ...]:
        """Return the session ids of this session's sub-agents, which are searched too."""
        return await self._thread.run(self._store.agent_sessions, self._session)

    async def _scan_long_outputs(
        self, query: SearchQuery, matches: Sequence[SearchMatch]
    ) -> tuple[list[RecalledItem], list[str]]:
        """Scan outputs beyond their indexed part, up to the time limit. Return new matches, and notes about outputs
        that were not fully searched."""
        words = query_pieces(query.words)
        if not words or query.kinds not in ((), ("output",)):
            return [], []
        long_outputs_query = replace(
            query, words="", kinds=("output",), larger_than=MAX_INDEXED_OUTPUT_BYTES, limit=MAX_SCANNED_OUTPUTS
        )
        found_keys = {(hit.session, hit.document.number) for hit in matches if hit.method in ("words", "parts")}
        items, scan_notes, deadline = list[RecalledItem](), list[str](), time.monotonic() + MAX_SCAN_SECONDS
        index = self._indexer.index
        remaining = await self._thread.run(self._indexer.index.rank_hits, long_outputs_query)
        while remaining and len(items) < query.limit - len(found_keys) and time.monotonic() < deadline:
            loaded = await self._thread.run(index.read, [remaining.pop(0)])
            if not loaded or (loaded[0].session, loaded[0].document.number) in found_keys:
                continue
            match, ref = loaded[0], str(await self._reference(loaded[0]))
            try:
                scan_result = await self._scan_output(ref, words, deadline)
            except (ReferenceFailed, StoreFailed) as error:
                scan_notes += [] if isinstance(error, ReferenceFailed) else [f"{ref} was not fully searched: {error}"]
                continue
            size = match.document.size
            if scan_result.has_found_all:
                matching_lines = "\n".join(f"{number}: {line}" for number, line in scan_result.lines)
                items.append(self._item_for(match, ref, matching_lines))
            elif scan_result.searched_bytes < size and time.monotonic() >= deadline:
                scan_notes.append(
                    f"only {scan_result.searched_bytes:,} of {size:,} bytes of {ref} were searched; "
                    f"{FULL_SEARCH_ADVICE}"
                )
        unscanned = await self._thread.run(index.read, remaining[: MAX_NAMED_OUTPUTS + len(found_keys)])
        unscanned = tuple(hit for hit in unscanned if (hit.session, hit.document.number) not in found_keys)
        refs = [str(await self._reference(hit)) for hit in unscanned]
        if refs:
            scan_notes.append(_partial_search_note(refs, FULL_SEARCH_ADVICE, max(len(remaining) - len(unscanned), 0)))
        return items, scan_notes

    async def _scan_output(self, ref: str, words: Sequence[str], deadline: float) -> ScanResult:
        content, is_cancelled = await self._archive.peek(await self._archive.resolve(ref)), Event()
        scan = asyncio.ensure_future(
            asyncio.to_thread(scan_words, content, words, lambda: is_cancelled.is_set() or time.monotonic() >= deadline)
        )
        try:
            return await asyncio.shield(scan)
        finally:
            is_cancelled.set()
            await asyncio.wait([scan])
            content.close()

    async def _find_matches(self, query: SearchQuery) -> tuple[tuple[SearchMatch, ...], list[str]]:
        """Return the matches, and notes. If search by meaning was requested but is unavailable, the first search adds a
        note about it."""
        if self._embedding_model is None or not query.words.strip() or '"' in query.words:
            return await self._indexer.find(query), []
        embedding_index = self._semantic_index
        try:
            if embedding_index is None:
                embedding_index = await self._thread.run(self._load_semantic_index, self._embedding_model)
        except EmbeddingFailed as error:
            self._embedding_model = None
            return await self._indexer.find(query), [str(error)]
        return await embedding_index.find(self._indexer, query, INDEX_TIMEOUT_S)

    def _load_semantic_index(self, model: str) -> SemanticIndex:
        if self._semantic_index is not None:
            return self._semantic_index
        self._semantic_index = load_semantic_search().open_index(self._thread, self._store, model)
        return self._semantic_index

    async def unsearched_outputs_notes(self, advice: str, found_refs: Collection[str] = ()) -> list[str]:
        """Return a note that lists this session's outputs that are too long to be searched fully. Empty if there are
        none. `advice`: the end of the note. `found_refs`: outputs not to list."""
        numbers = await self._thread.run(
            ArchiveStore(self._store).outputs_larger_than, self._session, MAX_INDEXED_OUTPUT_BYTES
        )
        refs = [ref for ref in (f"r{number}" for number in numbers) if ref not in found_refs]
        return [_partial_search_note(refs, advice)] if refs else []

    async def earlier_accesses(self, reference: ResolvedReference) -> tuple[int, float | None]:
        """Return how often a reference was looked up, and when it was last, in Unix seconds."""
        accesses = await self._thread.run(self._indexer.index.accesses, reference.session)
        return accesses.get(_reference_access_key(reference), (0, None))

    async def record_access(self, reference: ResolvedReference) -> None:
        """Record an access to an item. Frequently used items rank higher in searches."""
        await self._thread.run(self._indexer.index.record_access, reference.session, _reference_access_key(reference))

    async def _recalled_item(self, match: SearchMatch, query: RecallQuery) -> RecalledItem:
        document = match.document
        words = query_pieces(query.query)
        start, end = match.matched_range or (0, len(document.text))
        passage = make_excerpt(document.text[start:end], words, MAX_EXCERPT_CHARS if words else MAX_BEGINNING_CHARS)
        searched = min(document.size, MAX_INDEXED_OUTPUT_BYTES)
        return replace(
            self._item_for(match, str(await self._reference(match)), passage),
            searched=searched if document.size > searched else None,
            by_meaning=match.method == "meaning",
        )

    def _item_for(self, match: SearchMatch, ref: str, text: str) -> RecalledItem:
        document = match.document
        session_label = self._session_label(match)
        return RecalledItem(
            ref,
            document.kind,
            session_label,
            document.created,
            document.title,
            text,
            document.tool,
            document.path,
            size=document.size,
        )

    async def _reference(self, match: SearchMatch) -> Reference:
        document = match.document
        match document.kind:
            case "output":
                target: OutputRef | SummaryRef | MessageRef = OutputRef(document.number)
            case "summary":
                target = SummaryRef(document.number)
            case "user" | "assistant":
                target = MessageRef(await self._message_name(match.session, document.position))
        if match.session == self._session:
            return Reference(target)
        return Reference(target, None, match.session[:URI_ID_DIGITS], Path(match.project).name or match.project)

    async def _message_name(self, session: str, position: int) -> str:
        name = await self._thread.run(ArchiveStore(self._store).message_ref, session, position)
        if name:
            return name
        rows = await self._thread.run(self._store.messages_before, session, position + 1, 1)
        message = decode_message_or_none(rows[0]) if rows and rows[0].position == position else None
        return message_digits(message) if message is not None else UNREADABLE_MESSAGE_NAME

    def _session_label(self, match: SearchMatch) -> str:
        if match.session == self._session:
            return ""
        if match.project == self._project:
            return f"session {match.session[:URI_ID_DIGITS]}"
        return f"session {match.session[:URI_ID_DIGITS]} of {Path(match.project).name or match.project}"


def _partial_search_note(refs: Sequence[str], advice: str, unlisted_count: int = 0) -> str:
    """Format the note about partly searched outputs. `unlisted_count`: number of such outputs in addition to `refs`."""
    unnamed_count = max(len(refs) - MAX_NAMED_OUTPUTS, 0) + unlisted_count
    more_text = f" and {unnamed_count} more" if unnamed_count else ""
    names = ", ".join(refs[:MAX_NAMED_OUTPUTS])
    return f"only the first {MAX_INDEXED_OUTPUT_BYTES:,} bytes of {names}{more_text} are searched here; {advice}"


def _reference_access_key(reference: ResolvedReference) -> str:
    match reference.reference.target:
        case OutputRef(number=number):
            return access_key("output", 0, number)
        case SummaryRef(number=number):
            return access_key("summary", 0, number)
        case MessageRef():
            return access_key("user", reference.position, 0)
