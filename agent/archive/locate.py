"""Finds where a text occurs in a session, and whether the model sees it there. `ebbtide.agent.context.provenance`
decides what became of each place."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from ebbtide.agent.archive.indexer import UNINDEXED_NOTE, Indexer
from ebbtide.agent.context.provenance import Covering, DepartedMessage, Occurrence, Trace, place_named, places_of
from ebbtide.agent.context.references import (
    CURRENT_SESSION,
    BadReference,
    MessageRef,
    OutputRef,
    Reference,
    ReferenceTarget,
    SummaryRef,
    parse_reference,
)
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import Assistant, Conversation
from ebbtide.agent.records.damage import try_decode_message
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.rows import read_summary
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.queries import SearchQuery
from ebbtide.store.search import SearchDocument
from ebbtide.store.sessions import SessionStore

MAX_PLACES = 200
"""Most places that are examined."""

_WORD = re.compile(r"[^\W_]+")


class Locator:
    """Locates texts in one session. Raises `StoreFailed`."""

    def __init__(self, thread: StoreThread, store: SessionStore, session: str) -> None:
        self._thread = thread
        self._store = store
        self._session = session
        self._indexer = Indexer(thread, store)

    @property
    def unsearched_count(self) -> int:
        """How many messages of the session could not be searched yet."""
        return self._indexer.left

    async def trace(
        self, text: str, view: Conversation | None, unsearched: Callable[[str, Collection[str]], Awaitable[list[str]]]
    ) -> Trace:
        """Every place where the session contains the text, and what became of it there. If the text is a reference,
        what became of its output or message. `view`: what the model is shown; None loads the stored view.
        `unsearched`: returns what else may contain the text, given some advice and the places found."""
        if not text.strip():
            return Trace()
        if view is None:
            row = await self._thread.run(self._store.session, self._session)
            view = await Recorder(self._thread, self._store, row, is_new=False).read() if row else Conversation()
        with suppress(BadReference):
            reference = parse_reference(text)
            if reference.session == CURRENT_SESSION and (named := await self.find_reference(reference, view)):
                return Trace(named)
        places = await self.of(text, view)
        told = await unsearched("`/archive` shows whole outputs", {place.ref for place in places})
        left = self._indexer.left
        return Trace(places, (*([UNINDEXED_NOTE.format(left)] if left else []), *told))

    async def of(self, text: str, view: Conversation) -> tuple[Occurrence, ...]:
        """Every place where the session contains the text, oldest first, ignoring case; empty if it never did. In
        messages that left the view, texts of one or two letters are found only as whole words. `view`: what the
        model is shown, with all messages so far."""
        if not text.strip():
            return ()
        await self._indexer.catch_up_with(self._session)
        documents = await self._holding(text)
        newest = await self._thread.run(self._store.messages_before, self._session, 2**62, 1)
        start = (newest[-1].position + 1 if newest else 0) - len(view.messages)
        positions = sorted({d.position for d in documents if d.kind != "summary" and d.position < start})
        read = [await self._thread.run(self._departed_message, position) for position in positions]
        left = [one for one in read if one is not None]
        holding = {document.number for document in documents if document.kind == "output"}
        summaries = await self._thread.run(self._summaries)
        return await asyncio.to_thread(places_of, text, view, left, summaries, holding)  # slow for a long session

    async def find_reference(self, reference: Reference, view: Conversation) -> tuple[Occurrence, ...]:
        """What became of each output or message that a reference may mean; empty if there is none."""
        newest = await self._thread.run(self._store.messages_before, self._session, 2**62, 1)
        start = (newest[-1].position + 1 if newest else 0) - len(view.messages)
        view = replace(view, messages_before=start)
        covering, found = await self._thread.run(self._summaries), list[Occurrence]()
        for ref, position in await self._thread.run(self._standing, reference.target):
            left = await self._thread.run(self._departed_message, position) if position < start else None
            place = await asyncio.to_thread(place_named, ref, position, view, left, covering)
            found += [place] if place is not None else []
        return tuple(found)

    def _standing(self, target: ReferenceTarget) -> Sequence[tuple[str, int]]:
        """The full references that are meant, each with the position of its message."""
        rows = ArchiveStore(self._store)
        match target:
            case OutputRef(number=number):
                return [(str(target), row.position) for row in rows.find(self._session, number)[:1]]
            case MessageRef(prefix=prefix):
                return [(f"msg-{name}", position) for position, name in rows.messages_called(self._session, prefix)]
            case SummaryRef():
                return ()

    async def _holding(self, text: str) -> tuple[SearchDocument, ...]:
        """The indexed documents that contain the text."""
        needle, found = text.lower(), dict[tuple[int, int], SearchDocument]()
        for query in queries_for(text):
            wanted = SearchQuery(query, sessions=(self._session,), limit=MAX_PLACES)
            matches = await self._indexer.find(wanted)
            found |= await asyncio.to_thread(_that_hold, needle, [match.document for match in matches])
        return tuple(found.values())

    def _departed_message(self, position: int) -> DepartedMessage | None:
        """The message; None if it was damaged after indexing, which readers of the session are told."""
        rows = self._store.messages_before(self._session, position + 1, 2)
        messages = [try_decode_message(row) for row in rows]
        if messages[-1] is None:
            return None
        before = messages[0] if len(messages) > 1 else None
        calls = before.calls if isinstance(before, Assistant) else ()
        count = ArchiveStore(self._store).count_before(self._session, position)
        return DepartedMessage(position, messages[-1], calls, count)

    def _summaries(self) -> Sequence[Covering]:
        rows = ArchiveStore(self._store).summaries(self._session)
        found = list[Covering]()
        for row in rows:
            with suppress(StoreFailed):  # as above
                found.append(Covering(row.number, row.position, read_summary(row)))
        return found


def _that_hold(needle: str, documents: Sequence[SearchDocument]) -> dict[tuple[int, int], SearchDocument]:
    return {(one.position, one.number): one for one in documents if needle in one.text.lower()}


def queries_for(text: str) -> tuple[str, ...]:
    """Queries of which one finds any document that contains a text, which may begin and end inside a word: its words
    as a phrase; the inner ones, which are always whole words; or for few words, its words as parts of others."""
    words = _WORD.findall(text)
    queries = [f'"{" ".join(words)}"']
    if len(words) > 2:
        queries.append(f'"{" ".join(words[1:-1])}"')
    else:
        queries.append(" ".join(words))
    return tuple(query for query in queries if query.strip('" '))
