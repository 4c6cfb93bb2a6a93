"""The library of stored sessions: list, search, preview, rename, tag, fork and delete."""

import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

from ebbtide.agent.archive.excerpt import excerpt
from ebbtide.agent.archive.fork import fork_session
from ebbtide.agent.archive.indexer import INDEX_TIMEOUT_S, Indexer
from ebbtide.agent.archive.session_page import agents_of, listed_info, with_agents
from ebbtide.agent.archive.tags import MOST_TAGS
from ebbtide.agent.archive.tree import Tree, tree_of
from ebbtide.agent.errors import UsageError
from ebbtide.agent.messages import Message
from ebbtide.agent.records.damage import readable
from ebbtide.agent.records.session_lookup import SessionInfo, find_session, info_of
from ebbtide.agent.records.store_access import forget
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.catalogue import TAG, Catalogue
from ebbtide.store.forks import Forks
from ebbtide.store.queries import SearchQuery, pieces_of
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.recalled import OnProgress, no_progress

PAGE = 200
"""Sessions on one page."""
MAX_SEARCH_HITS, MAX_EXCERPT_CHARS = 400, 160
"""Search hits that are examined, and characters shown of each."""
LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class SessionMatch:
    """A session that matches a search."""

    info: SessionInfo
    excerpt: str


class Library:
    """The sessions of one database. Methods raise `AgentError`."""

    def __init__(
        self,
        thread: StoreThread,
        store: SessionStore,
        project: str,
        held: Callable[[str], AbstractContextManager[object]],
        renamed: Callable[[str, str], None],
    ) -> None:
        """`held` locks a session by id, and deletes its files if it is deleted; `renamed` is called with new titles."""
        self._thread = thread
        self._store = store
        self._project = project
        self._held = held
        self._renamed = renamed
        self._catalogue = Catalogue(store)
        self._indexer = Indexer(thread, store)

    async def page(
        self,
        *,
        everywhere: bool = False,
        words: str = "",
        after: SessionInfo | None = None,
        limit: int = PAGE,
        tags: tuple[str, ...] = (),
    ) -> tuple[SessionInfo, ...]:
        """The sessions of this project, or of all, after a given one in the list, newest first. `words`: parts of
        the title, or prefixes of tags with `#`, all of which must match; `tags`: all of which it must have.
        Sub-agents are listed with the session that started them."""
        project = None if everywhere else self._project
        place = None if after is None else (after.updated_at, after.place)
        rows = await self._thread.run(self._catalogue.page, project, limit, place, tuple(words.split()), tags)
        return await self._thread.run(with_agents, self._catalogue, rows)

    async def agents(self, *ids: str) -> tuple[SessionInfo, ...]:
        """The sub-agents of these sessions, grouped by session, newest first."""
        return await self._thread.run(agents_of, self._catalogue, ids)

    async def search(
        self, words: str, *, everywhere: bool = False, told: OnProgress = no_progress
    ) -> tuple[SessionMatch, ...]:
        """The sessions that contain these words, best first. After some seconds only what is indexed by then is
        searched: the last progress is below its total, and the next search continues."""
        if not words.strip():
            return ()
        await self._indexer.catch_up(told, seconds=INDEX_TIMEOUT_S)
        project = None if everywhere else self._project
        kinds = ("user", "assistant", "summary")
        matches = await self._indexer.find(SearchQuery(words, kinds, project=project, limit=MAX_SEARCH_HITS), told)
        pieces, said = pieces_of(words), dict[str, str]()
        for match in matches:
            said.setdefault(match.session, excerpt(match.document.text, pieces, MAX_EXCERPT_CHARS))
        rows = await self._thread.run(self._catalogue.sessions_by_id, tuple(said))
        return tuple(SessionMatch(listed_info(row), said[row.session.id]) for row in rows if not row.session.is_unused)

    async def last_messages(self, id: str, count: int) -> tuple[Message, ...]:
        """The last messages of a session, in order."""
        rows = await self._thread.run(self._store.messages_before, id, 1 << 62, count)
        return readable(rows).messages

    async def rename(self, prefix: str, title: str) -> SessionInfo:
        row = await self._find(prefix)
        title = " ".join(title.encode("utf-8", "replace").decode("utf-8").split())[:LONGEST_TITLE]
        if not title:
            raise UsageError("the title cannot be empty")
        await self._thread.run(self._store.rename, row.id, title)
        self._renamed(row.id, title)
        return info_of(replace(row, title=title))

    async def tag(self, prefix: str, added: tuple[str, ...] = (), removed: tuple[str, ...] | None = ()) -> SessionInfo:
        """Add and remove tags of a session; None removes all. Tags have the form returned by `tag_named`."""
        row = await self._find(prefix)

        def change() -> SessionInfo:
            before = tuple(fact.key for fact in self._store.facts(row.id, TAG))
            gone = before if removed is None else removed
            after = sorted({*before, *added} - ({*gone} - {*added}))
            if len(after) > MOST_TAGS:
                raise UsageError(f"a session has at most {MOST_TAGS} tags: `{row.id}` would have {len(after)}")
            return info_of(row, tags=self._catalogue.change_tags(row.id, added, gone))

        return await self._thread.run(change)

    async def tags(self) -> tuple[tuple[str, int], ...]:
        """Every tag, with the number of sessions in all projects that have it."""
        return await self._thread.run(self._catalogue.tags)

    async def fork(self, prefix: str, at: int | None = None, *, draft: bool = False) -> SessionInfo:
        """Create a session from the first `at` messages of another, or from all. An unused `draft` is reused, and
        deleted if it stays unused."""
        return info_of(await self._thread.run(self._fork, prefix, at, draft))

    def _fork(self, prefix: str, at: int | None, draft: bool) -> SessionRow:
        parent, branches = find_session(self._store, prefix, self._project), Forks(self._store)
        if draft:
            for id in branches.drafts():
                row = self._store.session(id)
                if row is not None and (row.parent, row.forked) == (parent.id, at):
                    return row
        now = time.time()
        title = parent.title if draft else f"{parent.title} (fork)"
        new = SessionRow(secrets.token_hex(6), "", title, "", "", now, now, forked=at, draft=draft)
        return fork_session(self._store, parent, new)

    async def tree(self, id: str) -> Tree:
        """The user's messages of a session and of all sessions related by forks."""
        return await self._thread.run(tree_of, self._store, id)

    async def ancestors(self, id: str) -> dict[str, int]:
        """A session and its ancestors, each with how many of its messages they share."""
        return await self._thread.run(lambda: Forks(self._store).ancestry(id))

    async def delete(self, prefix: str) -> SessionInfo:
        """Delete a session with its outputs and sub-agents. Nothing is deleted if it, or one of its sub-agents, is
        open elsewhere."""
        row = await self._find(prefix)
        agents = await self.agents(row.id)
        with ExitStack() as held:
            for id in (row.id, *(agent.id for agent in agents)):
                held.enter_context(self._held(id))
            await forget(self._thread, self._store, row.id)
            await self._thread.run(ArchiveStore(self._store).collect)
        return replace(info_of(row), agents=agents)

    async def holds(self, id: str) -> bool:
        """Whether the session exists."""
        return await self._thread.run(self._store.session, id) is not None

    async def drop_unused(self, id: str) -> None:
        """Delete an unused draft."""
        row = await self._thread.run(self._store.session, id)
        if row is not None and row.is_unused:
            await forget(self._thread, self._store, id, is_copy=True)

    async def _find(self, prefix: str) -> SessionRow:
        return await self._thread.run(find_session, self._store, prefix, self._project)
