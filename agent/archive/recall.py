"""Everything that sessions ever said, looked up: by reference or by words, as far as the user lets it be seen.

It knows what a reference stands for and what a search found; how that is shown whoever asks decides.
"""

import asyncio
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from agent.archive.archive import Archive
from agent.archive.excerpt import EXCERPT, excerpt
from agent.archive.reference_parts import SHOWN_DIGITS, Located
from agent.context.references import (
    CURRENT_SESSION,
    BadReference,
    MessageRef,
    OutputRef,
    Reference,
    SummaryRef,
    message_digits,
    parse_reference,
)
from agent.debug import Debug
from agent.errors import ReferenceFailed, StoreFailed
from agent.messages import Conversation
from agent.records.damage import read_if_sound
from agent.records.recorder import Recorder
from agent.records.store_thread import StoreThread
from store.archive import ArchiveStore
from store.sessions import SessionStore
from tools.base import ToolError
from tools.recalled import Fetch, LookUp, Memory, RecalledItem, RecallQuery
from tools.scope import SCOPES, Scope
from tools.stored_outputs import KeptContent

if TYPE_CHECKING:  # types only: most runs look nothing up
    from agent.archive.indexer import Indexer, Told
    from agent.archive.semantic_search import Meanings
    from agent.context.provenance import Trace
    from store.queries import Wanted
    from store.search import SearchMatch
    from tools.search.words import Scanned

REBUILT = "the search index was damaged and was made anew from the messages"

UNINDEXED = "{:,} older messages are not indexed yet, so they were not searched; the next search goes on with them"

NO_NAME = "0" * 8
"""Stands for the name of a message that cannot be read any more."""

BEGINNING = 120
"""Characters that are shown of what no word was looked for in: more of them fit into one answer."""

SCAN_SECONDS = 10.0
"""For which a search looks through outputs that are longer than what is indexed of them."""

MOST_LONG = 1000
"""Such outputs, the newest, that are thought of."""

ALL_OF_ONE = "`read_result` with a `pattern` searches all of one"

MOST_NAMED = 5
"""Outputs that are named as too long."""

MEANT = "nothing holds these words; this is near in meaning"

SOME = "nothing holds all of these words; this holds some of them"


class SessionRecall:
    """What one session may look up. Raises `ReferenceFailed` and `StoreFailed`."""

    def __init__(
        self,
        thread: StoreThread,
        store: SessionStore,
        archive: Archive,
        session: str,
        project: str,
        scope: Scope = "project",
        debug: Debug | None = None,
        embedding_model: str | None = None,
    ) -> None:
        """`project` is the real path of the session's project; `scope` the widest that may be seen; `embedding_model`
        the folder of the model by which also what is near in meaning is found."""
        self._thread = thread
        self._store = store
        self._archive = archive
        self._session = session
        self._project = project
        self._scope: Scope = scope
        self._debug = debug or Debug()
        self._embedding_model = embedding_model
        self._meanings: Meanings | None = None

    @cached_property
    def _indexer(self) -> "Indexer":
        from agent.archive.indexer import Indexer  # noqa: PLC0415  # deferred: most runs look nothing up

        return Indexer(self._thread, self._store)

    async def search(self, asked: RecallQuery, told: "Told | None" = None) -> Memory:
        """What holds the words and passes the filters, the best first."""
        from agent.archive.indexer import SECONDS, nobody  # noqa: PLC0415  # deferred: see `_indexer`
        from store.queries import Wanted  # noqa: PLC0415  # deferred: see `_indexer`

        told = told or nobody
        scope = self._allowed(asked.scope)
        repairs = self._indexer.repairs
        await self._indexer.catch_up(told, first=self._session, seconds=SECONDS)
        wanted = Wanted(
            asked.query,
            asked.kinds,
            asked.tool,
            asked.path,
            asked.since,
            asked.until,
            session=self._session if scope == "session" else None,
            project=self._project if scope == "project" else None,
            limit=asked.limit,
        )
        matches, notes = await self._find(wanted, told)
        scanned, limits = await self._scan(wanted, matches)
        if scanned:
            matches = tuple(match for match in matches if match.way in ("words", "parts"))
        found = (*[await self._remembered(match, asked) for match in matches], *scanned)
        self._debug.say("context/recall", query=asked.query, scope=scope, found=len(found))
        notes += [UNINDEXED.format(self._indexer.left)] if self._indexer.left else []
        notes += [REBUILT] if self._indexer.repairs > repairs else []
        if any(match.way == "some" for match in matches):
            notes.append(SOME)
        if asked.query and matches and all(match.way == "meaning" for match in matches):
            notes.append(MEANT)
        return Memory(found, (*notes, *limits))

    async def _scan(self, wanted: "Wanted", matches: "Sequence[SearchMatch]") -> tuple[list[RecalledItem], list[str]]:
        """Outputs of which more than what is indexed must be looked through to find the words, as many as there is time
        for, and which were not searched to their ends. Those that were found already are left out."""
        from agent.archive.indexer import MOST_INDEXED  # noqa: PLC0415  # deferred: see `_indexer`
        from store.queries import pieces_of  # noqa: PLC0415  # deferred: see `_indexer`

        words = pieces_of(wanted.words)
        if not words or wanted.kinds not in ((), ("output",)):
            return [], []
        every = replace(wanted, words="", kinds=("output",), larger_than=MOST_INDEXED, limit=MOST_LONG)
        known = {(one.session, one.document.number) for one in matches if one.way in ("words", "parts")}
        found, limits, end = list[RecalledItem](), list[str](), time.monotonic() + SCAN_SECONDS
        index, left = self._indexer.index, await self._thread.run(self._indexer.index.ranked, every)
        while left and len(found) < wanted.limit - len(known) and time.monotonic() < end:
            read = await self._thread.run(index.read, [left.pop(0)])
            if not read or (read[0].session, read[0].document.number) in known:
                continue
            match, ref = read[0], str(await self._reference(read[0]))
            try:
                scanned = await self._scanned(ref, words, end)
            except (ReferenceFailed, StoreFailed) as error:
                limits += [] if isinstance(error, ReferenceFailed) else [f"{ref} was not searched to its end: {error}"]
                continue
            size = match.document.size
            if scanned.is_found:
                shown = "\n".join(f"{number}: {line}" for number, line in scanned.lines)
                found.append(self._told_of(match, ref, shown))
            elif scanned.searched < size and time.monotonic() >= end:
                limits.append(f"of {ref} only {scanned.searched:,} of {size:,} bytes were searched; {ALL_OF_ONE}")
        rest = await self._thread.run(index.read, left[: MOST_NAMED + len(known)])
        rest = tuple(one for one in rest if (one.session, one.document.number) not in known)
        refs = [str(await self._reference(one)) for one in rest]
        if refs:
            limits.append(_limited(refs, ALL_OF_ONE, max(len(left) - len(rest), 0)))
        return found, limits

    async def _scanned(self, ref: str, words: Sequence[str], end: float) -> "Scanned":
        from tools.search.words import scan_words  # noqa: PLC0415  # deferred: see `_indexer`

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

    async def _find(self, wanted: "Wanted", told: "Told") -> "tuple[tuple[SearchMatch, ...], list[str]]":
        """What is found, and why not by its meaning where that was asked for, once."""
        if self._embedding_model is None or not wanted.words.strip() or '"' in wanted.words:
            return await self._indexer.find(wanted, told), []
        from agent.archive.embeddings import EmbeddingFailed  # noqa: PLC0415  # deferred: see `_indexer`

        meanings = self._meanings
        try:
            if meanings is None:
                meanings = await self._thread.run(self._load_meanings, self._embedding_model)
        except EmbeddingFailed as error:
            self._embedding_model = None
            return await self._indexer.find(wanted, told), [str(error)]
        return await meanings.find(self._indexer, wanted, told), []

    def _load_meanings(self, model: str) -> "Meanings":
        if self._meanings is not None:
            return self._meanings
        from agent.archive.embeddings import Embedder  # noqa: PLC0415  # deferred: see `_indexer`
        from agent.archive.semantic_search import Meanings  # noqa: PLC0415  # deferred: numpy takes a while

        self._meanings = Meanings(self._thread, self._store, Embedder(model))
        return self._meanings

    async def _unsearched(self, advice: str, found: Collection[str] = ()) -> list[str]:
        """Which outputs of this session, besides those found, are too long to be searched to their ends, and what to
        do then."""
        from agent.archive.indexer import MOST_INDEXED  # noqa: PLC0415  # deferred: see `_indexer`

        numbers = await self._thread.run(ArchiveStore(self._store).larger_than, self._session, MOST_INDEXED)
        refs = [ref for ref in (f"r{number}" for number in numbers) if ref not in found]
        return [_limited(refs, advice)] if refs else []

    async def fetch(self, ref: str, scope: Scope | None = None) -> KeptContent:
        """What a reference stands for, to be read in parts and closed. It is counted."""
        located = await self._archive.resolve(ref)
        allowed = self._allowed(scope)
        if not await self._may_see(located, allowed):
            raise ReferenceFailed(
                f"`{ref}` is beyond what may be recalled here: `recall.scope` is `{self._scope}`"
                + (f", and `scope` was `{allowed}`" if allowed != self._scope else "")
            )
        found = await self._archive.open(located)
        await self._thread.run(self._indexer.index.touch, located.session, _key(located))
        self._debug.say("context/recall", ref=located.uri, scope=allowed, found=1)
        return found

    async def why(self, text: str, view: Conversation | None = None) -> "Trace":
        """Every place where the session holds the text, and what has become of it there; what has become of an output
        or a message, when the text is its reference. `view`: what the model is
        shown; as it was written down when it is None."""
        from agent.archive.locate import Locator  # noqa: PLC0415  # deferred: see `_indexer`
        from agent.context.provenance import Trace  # noqa: PLC0415  # deferred: see `_indexer`

        if not text.strip():
            return Trace()
        if view is None:
            row = await self._thread.run(self._store.session, self._session)
            view = await Recorder(self._thread, self._store, row, is_new=False).read() if row else Conversation()
        whereabouts = Locator(self._thread, self._store, self._session)
        with suppress(BadReference):
            reference = parse_reference(text)
            if reference.session == CURRENT_SESSION and (named := await whereabouts.named(reference, view)):
                return Trace(named)
        places = await whereabouts.of(text, view)
        told = await self._unsearched("`/archive` shows all of one", {place.ref for place in places})
        return Trace(places, (*([UNINDEXED.format(whereabouts.left)] if whereabouts.left else []), *told))

    def _allowed(self, scope: Scope | None) -> Scope:
        if scope is None:
            return self._scope
        if SCOPES.index(scope) > SCOPES.index(self._scope):
            raise ReferenceFailed(
                f"the user lets you recall from this {self._scope} only (`recall.scope`): leave `scope` out"
            )
        return scope

    async def _may_see(self, located: Located, scope: Scope) -> bool:
        if located.session == self._session or scope == "all":
            return True
        row = await self._thread.run(self._store.session, located.session)
        return scope == "project" and row is not None and row.project == self._project

    async def _remembered(self, match: "SearchMatch", asked: RecallQuery) -> RecalledItem:
        from agent.archive.indexer import MOST_INDEXED  # noqa: PLC0415  # deferred: see `_indexer`
        from store.queries import pieces_of  # noqa: PLC0415  # deferred: see `_indexer`

        document = match.document
        words = pieces_of(asked.query)
        start, end = match.part or (0, len(document.text))
        shown = excerpt(document.text[start:end], words, EXCERPT if words else BEGINNING)
        searched = min(document.size, MOST_INDEXED)
        return replace(
            self._told_of(match, str(await self._reference(match)), shown),
            searched=searched if document.size > searched else None,
            by_meaning=match.way == "meaning",
        )

    def _told_of(self, match: "SearchMatch", ref: str, shown: str) -> RecalledItem:
        one = match.document
        where = self._where(match)
        return RecalledItem(ref, one.kind, where, one.created, one.title, shown, one.tool, one.path, size=one.size)

    async def _reference(self, match: "SearchMatch") -> Reference:
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
        return Reference(target, None, match.session[:SHOWN_DIGITS], Path(match.project).name or match.project)

    async def _digits(self, session: str, position: int) -> str:
        name = await self._thread.run(ArchiveStore(self._store).name_of, session, position)
        if name:
            return name
        rows = await self._thread.run(self._store.messages_before, session, position + 1, 1)
        message = read_if_sound(rows[0]) if rows and rows[0].position == position else None
        return message_digits(message) if message is not None else NO_NAME

    def _where(self, match: "SearchMatch") -> str:
        if match.session == self._session:
            return ""
        if match.project == self._project:
            return f"session {match.session[:SHOWN_DIGITS]}"
        return f"session {match.session[:SHOWN_DIGITS]} of {Path(match.project).name or match.project}"


def _limited(refs: Sequence[str], advice: str, besides: int = 0) -> str:
    """Which outputs were searched in part only. `besides`: how many there are that are not named."""
    from agent.archive.indexer import MOST_INDEXED  # noqa: PLC0415  # deferred: see `Recall._indexer`

    unnamed = max(len(refs) - MOST_NAMED, 0) + besides
    more = f" and {unnamed} more" if unnamed else ""
    names = ", ".join(refs[:MOST_NAMED])
    return f"only the first {MOST_INDEXED:,} bytes of {names}{more} are searched here; {advice}"


def _key(located: Located) -> str:
    from store.search import access_key  # noqa: PLC0415  # deferred: see `Recall._indexer`

    match located.reference.target:
        case OutputRef(number=number):
            return access_key("output", 0, number)
        case SummaryRef(number=number):
            return access_key("summary", 0, number)
        case MessageRef():
            return access_key("user", located.position, 0)


def fetching(recall: SessionRecall) -> Fetch:
    """Finds what references stand for, for tools."""

    async def fetch(ref: str, scope: Scope | None) -> KeptContent:
        try:
            return await recall.fetch(ref, scope)
        except (ReferenceFailed, StoreFailed) as error:
            raise ToolError(str(error)) from error

    return fetch


def looking_up(recall: SessionRecall) -> LookUp:
    """Searches, for tools."""

    async def look_up(asked: RecallQuery, told: "Told") -> Memory:
        try:
            return await recall.search(asked, told)
        except (ReferenceFailed, StoreFailed) as error:
            raise ToolError(str(error)) from error

    return look_up


def recall_of(
    thread: StoreThread,
    store: SessionStore,
    session: str,
    project: str,
    everywhere: bool,
    embedding_model: str | None = None,
) -> SessionRecall:
    """What the user may look up from a session, which need not be open."""
    scope: Scope = "all" if everywhere else "project"
    archive = Archive(thread, store, session, project)
    return SessionRecall(thread, store, archive, session, project, scope, embedding_model=embedding_model)
