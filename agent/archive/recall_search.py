"""Searches what was said in sessions by words, filters or meaning, and reports what could not be searched."""

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.embeddings import Embedder, EmbeddingFailed
from ebbtide.agent.archive.excerpt import MAX_EXCERPT_CHARS, excerpt
from ebbtide.agent.archive.indexer import INDEX_TIMEOUT_S, MOST_INDEXED, UNINDEXED_NOTE, Indexer
from ebbtide.agent.archive.reference_parts import URI_ID_DIGITS, ResolvedReference
from ebbtide.agent.context.references import MessageRef, OutputRef, Reference, SummaryRef, message_digits
from ebbtide.agent.errors import ReferenceFailed, StoreFailed
from ebbtide.agent.records.damage import try_decode_message
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.queries import SearchQuery, pieces_of
from ebbtide.store.search import SearchMatch, access_key
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.recall_scope import Scope
from ebbtide.tools.outputs.recalled import OnProgress, RecalledItem, RecallQuery, RecallResult, no_progress
from ebbtide.tools.search.words import ScanResult, scan_words

if TYPE_CHECKING:  # types only: few runs search by meaning
    from ebbtide.agent.archive.semantic_search import EmbeddingIndex

REBUILT = "the search index was damaged and has been rebuilt"

NO_NAME = "0" * 8
"""Replaces the name of an unreadable message."""

BEGINNING = 120
"""Characters shown of results without search words: more of them fit into one answer."""

SCAN_SECONDS = 10.0
"""Seconds that a search scans outputs beyond their indexed part."""

MOST_LONG = 1000
"""Newest such outputs that are considered."""

ALL_OF_ONE = "`ref_id` with `search` searches a whole output"

MOST_NAMED = 5
"""Outputs that are named as too long."""

NEAR_MATCH_NOTE = "no exact match; these results are similar in meaning"

PARTIAL_MATCH_NOTE = "no result contains all of these words; these contain some"


class RecallSearch:
    """Searches from one session. Raises `ReferenceFailed` and `StoreFailed`."""

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
        self._meanings: EmbeddingIndex | None = None
        self._indexer = Indexer(thread, store)

    async def search(self, asked: RecallQuery, scope: Scope, told: OnProgress = no_progress) -> RecallResult:
        """Everything that matches the words and filters, best first."""
        repairs = self._indexer.repairs
        await self._indexer.catch_up(told, first=self._session, seconds=INDEX_TIMEOUT_S)
        wanted = SearchQuery(
            asked.query,
            asked.kinds,
            asked.tool,
            asked.path,
            asked.since,
            asked.until,
            sessions=(self._session, *await self._agent_sessions()) if scope == "session" else (),
            project=self._project if scope == "project" else None,
            limit=asked.limit,
        )
        matches, notes = await self._find(wanted, told)
        scanned, limits = await self._scan(wanted, matches)
        if scanned:
            matches = tuple(match for match in matches if match.way in ("words", "parts"))
        found = (*[await self._recalled_item(match, asked) for match in matches], *scanned)
        notes += [UNINDEXED_NOTE.format(self._indexer.left)] if self._indexer.left else []
        notes += [REBUILT] if self._indexer.repairs > repairs else []
        if any(match.way == "some" for match in matches):
            notes.append(PARTIAL_MATCH_NOTE)
        if asked.query and matches and all(match.way == "meaning" for match in matches):
            notes.append(NEAR_MATCH_NOTE)
        return RecallResult(found, (*notes, *limits))

    async def _agent_sessions(self) -> tuple[str, ...]:
        """The sessions of its sub-agents, which belong to it."""
        return await self._thread.run(self._store.agent_sessions, self._session)

    async def _scan(self, wanted: SearchQuery, matches: Sequence[SearchMatch]) -> tuple[list[RecalledItem], list[str]]:
        """Scan outputs beyond their indexed part, as far as time permits. Return new matches, and notes about
        outputs not fully searched."""
        words = pieces_of(wanted.words)
        if not words or wanted.kinds not in ((), ("output",)):
            return [], []
        every = replace(wanted, words="", kinds=("output",), larger_than=MOST_INDEXED, limit=MOST_LONG)
        known = {(one.session, one.document.number) for one in matches if one.way in ("words", "parts")}
        found, limits, end = list[RecalledItem](), list[str](), time.monotonic() + SCAN_SECONDS
        index, left = self._indexer.index, await self._thread.run(self._indexer.index.ranked_hits, every)
        while left and len(found) < wanted.limit - len(known) and time.monotonic() < end:
            read = await self._thread.run(index.read, [left.pop(0)])
            if not read or (read[0].session, read[0].document.number) in known:
                continue
            match, ref = read[0], str(await self._reference(read[0]))
            try:
                scanned = await self._scan_output(ref, words, end)
            except (ReferenceFailed, StoreFailed) as error:
                limits += [] if isinstance(error, ReferenceFailed) else [f"{ref} was not fully searched: {error}"]
                continue
            size = match.document.size
            if scanned.is_found:
                shown = "\n".join(f"{number}: {line}" for number, line in scanned.lines)
                found.append(self._item_for(match, ref, shown))
            elif scanned.searched < size and time.monotonic() >= end:
                limits.append(f"of {ref} only {scanned.searched:,} of {size:,} bytes were searched; {ALL_OF_ONE}")
        rest = await self._thread.run(index.read, left[: MOST_NAMED + len(known)])
        rest = tuple(one for one in rest if (one.session, one.document.number) not in known)
        refs = [str(await self._reference(one)) for one in rest]
        if refs:
            limits.append(_partial_search_note(refs, ALL_OF_ONE, max(len(left) - len(rest), 0)))
        return found, limits

    async def _scan_output(self, ref: str, words: Sequence[str], end: float) -> ScanResult:
        content, is_left = await self._archive.peek(await self._archive.resolve(ref)), Event()
        scan = asyncio.ensure_future(
            asyncio.to_thread(scan_words, content, words, lambda: is_left.is_set() or time.monotonic() >= end)
        )
        try:
            return await asyncio.shield(scan)
        finally:
            is_left.set()
            await asyncio.wait([scan])
            content.close()

    async def _find(self, wanted: SearchQuery, told: OnProgress) -> tuple[tuple[SearchMatch, ...], list[str]]:
        """The matches, and a note, once, if search by meaning was requested but is unavailable."""
        if self._embedding_model is None or not wanted.words.strip() or '"' in wanted.words:
            return await self._indexer.find(wanted, told), []
        meanings = self._meanings
        try:
            if meanings is None:
                meanings = await self._thread.run(self._load_embedding_index, self._embedding_model)
        except EmbeddingFailed as error:
            self._embedding_model = None
            return await self._indexer.find(wanted, told), [str(error)]
        return await meanings.find(self._indexer, wanted, told), []

    def _load_embedding_index(self, model: str) -> "EmbeddingIndex":
        if self._meanings is not None:
            return self._meanings
        from ebbtide.agent.archive.semantic_search import EmbeddingIndex  # noqa: PLC0415  # deferred: numpy is slow to import

        self._meanings = EmbeddingIndex(self._thread, self._store, Embedder(model))
        return self._meanings

    async def unsearched_outputs(self, advice: str, found: Collection[str] = ()) -> list[str]:
        """A note about outputs of this session, other than those found, that are too long to be searched fully, with
        advice."""
        numbers = await self._thread.run(ArchiveStore(self._store).larger_than, self._session, MOST_INDEXED)
        refs = [ref for ref in (f"r{number}" for number in numbers) if ref not in found]
        return [_partial_search_note(refs, advice)] if refs else []

    async def count_look(self, located: ResolvedReference) -> None:
        """Count an access: often used results rank higher."""
        await self._thread.run(self._indexer.index.touch, located.session, _key(located))

    async def _recalled_item(self, match: SearchMatch, asked: RecallQuery) -> RecalledItem:
        document = match.document
        words = pieces_of(asked.query)
        start, end = match.part or (0, len(document.text))
        shown = excerpt(document.text[start:end], words, MAX_EXCERPT_CHARS if words else BEGINNING)
        searched = min(document.size, MOST_INDEXED)
        return replace(
            self._item_for(match, str(await self._reference(match)), shown),
            searched=searched if document.size > searched else None,
            by_meaning=match.way == "meaning",
        )

    def _item_for(self, match: SearchMatch, ref: str, shown: str) -> RecalledItem:
        one = match.document
        where = self._where(match)
        return RecalledItem(ref, one.kind, where, one.created, one.title, shown, one.tool, one.path, size=one.size)

    async def _reference(self, match: SearchMatch) -> Reference:
        document = match.document
        match document.kind:
            case "output":
                target: OutputRef | SummaryRef | MessageRef = OutputRef(document.number)
            case "summary":
                target = SummaryRef(document.number)
            case "user" | "assistant":
                target = MessageRef(await self._digits(match.session, document.position))
        if match.session == self._session:
            return Reference(target)
        return Reference(target, None, match.session[:URI_ID_DIGITS], Path(match.project).name or match.project)

    async def _digits(self, session: str, position: int) -> str:
        name = await self._thread.run(ArchiveStore(self._store).name_of, session, position)
        if name:
            return name
        rows = await self._thread.run(self._store.messages_before, session, position + 1, 1)
        message = try_decode_message(rows[0]) if rows and rows[0].position == position else None
        return message_digits(message) if message is not None else NO_NAME

    def _where(self, match: SearchMatch) -> str:
        if match.session == self._session:
            return ""
        if match.project == self._project:
            return f"session {match.session[:URI_ID_DIGITS]}"
        return f"session {match.session[:URI_ID_DIGITS]} of {Path(match.project).name or match.project}"


def _partial_search_note(refs: Sequence[str], advice: str, besides: int = 0) -> str:
    """The note about outputs that were searched in part. `besides`: number of further ones that are not listed."""
    unnamed = max(len(refs) - MOST_NAMED, 0) + besides
    more = f" and {unnamed} more" if unnamed else ""
    names = ", ".join(refs[:MOST_NAMED])
    return f"only the first {MOST_INDEXED:,} bytes of {names}{more} are searched here; {advice}"


def _key(located: ResolvedReference) -> str:
    match located.reference.target:
        case OutputRef(number=number):
            return access_key("output", 0, number)
        case SummaryRef(number=number):
            return access_key("summary", 0, number)
        case MessageRef():
            return access_key("user", located.position, 0)
