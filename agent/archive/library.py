"""The stored sessions: listed a page at a time, searched, looked into, renamed, forked and deleted. It opens none."""

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
"""Sessions that are listed at once."""
MAX_SEARCH_HITS, MAX_EXCERPT_CHARS = 400, 160
"""What a search looks through to find sessions, and characters that are shown of what was said."""
LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class SessionMatch:
    """A session in which something was said."""

    info: SessionInfo
    excerpt: str


class Library:
    """Of one database. Raises `AgentError`."""

    def __init__(
        self,
        thread: StoreThread,
        store: SessionStore,
        project: str,
        held: Callable[[str], AbstractContextManager[object]],
        renamed: Callable[[str, str], None],
    ) -> None:
        """`held` keeps a session, by its id, from being opened by others, and takes its files away if it is deleted;
        `renamed` is told of new titles."""
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
        """The sessions of this project, or of all, that come after one in the list, the newest first. `words`: parts of
        the title, or beginnings of tags behind `#`, of which all must be there; `tags`: all of which it must have.
        Those of agents stand in the session that sent them off."""
        project = None if everywhere else self._project
        place = None if after is None else (after.updated_at, after.place)
        rows = await self._thread.run(self._catalogue.page, project, limit, place, tuple(words.split()), tags)
        return await self._thread.run(with_agents, self._catalogue, rows)

    async def agents(self, *ids: str) -> tuple[SessionInfo, ...]:
        """The sessions that agents of these sessions have had, those of one after the other, the newest first."""
        return await self._thread.run(agents_of, self._catalogue, ids)

    async def search(
        self, words: str, *, everywhere: bool = False, told: OnProgress = no_progress
    ) -> tuple[SessionMatch, ...]:
        """The sessions in which this was said, the best first. After some seconds only what was looked through by then
        is found: `told` was told less than all, and the next search goes on."""
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
            raise UsageError("a session's title cannot be empty: write one")
        await self._thread.run(self._store.rename, row.id, title)
        self._renamed(row.id, title)
        return info_of(replace(row, title=title))

    async def tag(self, prefix: str, added: tuple[str, ...] = (), removed: tuple[str, ...] | None = ()) -> SessionInfo:
        """Gives a session tags, which are such as `tag_named` gives, and takes others from it; all for None."""
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
        """Every tag with how many sessions of all projects have it."""
        return await self._thread.run(self._catalogue.tags)

    async def fork(self, prefix: str, at: int | None = None, *, draft: bool = False) -> SessionInfo:
        """A new session with the first messages of another, or with all. A `draft` that nobody has used is used
        again, and is gone when nobody uses it."""
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
        """The user's messages of a session and of all that were forked from each other with it."""
        return await self._thread.run(tree_of, self._store, id)

    async def ancestors(self, id: str) -> dict[str, int]:
        """A session and those that it was forked from, each with how many of its messages are in it."""
        return await self._thread.run(lambda: Forks(self._store).ancestry(id))

    async def delete(self, prefix: str) -> SessionInfo:
        """Deletes a session with its outputs, and those of its agents; one that is open elsewhere stays, and so do all
        with an agent's that is."""
        row = await self._find(prefix)
        agents = await self.agents(row.id)
        with ExitStack() as held:
            for id in (row.id, *(agent.id for agent in agents)):
                held.enter_context(self._held(id))
            await forget(self._thread, self._store, row.id)
            await self._thread.run(ArchiveStore(self._store).collect)
        return replace(info_of(row), agents=agents)

    async def holds(self, id: str) -> bool:
        """Whether there is such a session."""
        return await self._thread.run(self._store.session, id) is not None

    async def drop_unused(self, id: str) -> None:
        """Lets a draft go in which nothing was said."""
        row = await self._thread.run(self._store.session, id)
        if row is not None and row.is_unused:
            await forget(self._thread, self._store, id, is_copy=True)

    async def _find(self, prefix: str) -> SessionRow:
        return await self._thread.run(find_session, self._store, prefix, self._project)
