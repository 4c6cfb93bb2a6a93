"""The library of stored sessions: list, search, preview, rename, tag, fork and delete."""

import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

from ebbtide.agent.archive.excerpt import make_excerpt
from ebbtide.agent.archive.fork import fork_session
from ebbtide.agent.archive.indexer import INDEX_TIMEOUT_S, Indexer
from ebbtide.agent.archive.session_listing import agents_of_sessions, session_info_from_row, sessions_with_agents
from ebbtide.agent.archive.tags import MAX_TAGS
from ebbtide.agent.archive.tree import SessionTree, build_session_tree
from ebbtide.agent.errors import UsageError
from ebbtide.agent.messages import Message
from ebbtide.agent.records.damage import restore_messages
from ebbtide.agent.records.session_lookup import SessionInfo, find_session, session_info
from ebbtide.agent.records.store_access import delete_session
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.catalogue import TAG_FACT, SessionCatalogue
from ebbtide.store.forks import ForkStore
from ebbtide.store.queries import SearchQuery, query_pieces
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore

SESSIONS_PER_PAGE = 200
"""Sessions on one page."""
MAX_SEARCH_HITS, MAX_EXCERPT_CHARS = 400, 160
"""Maximum number of search hits examined, and of characters shown per hit."""
MAX_TITLE_CHARS = 200


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
        lock_session: Callable[[str], AbstractContextManager[object]],
        on_rename: Callable[[str, str], None],
        model: str | None = None,
    ) -> None:
        """`lock_session`: locks a session by id. If the session has been deleted, releasing the lock removes its files.
        `on_rename`: called with the id and the new title. `model`: the folder of the model for search by
        meaning."""
        self._thread = thread
        self._store = store
        self._project = project
        self._lock = lock_session
        self._on_rename = on_rename
        self._catalogue = SessionCatalogue(store)
        self._indexer = Indexer(thread, store, model)

    async def page(
        self,
        *,
        in_all_projects: bool = False,
        query: str = "",
        after: SessionInfo | None = None,
        limit: int = SESSIONS_PER_PAGE,
        tags: tuple[str, ...] = (),
    ) -> tuple[SessionInfo, ...]:
        """Return a page of sessions, newest first, starting after session `after`. `query`: parts of the title, or tag
        prefixes with `#`; all must match. `tags`: a session must have all of these. Sub-agents are listed under the
        session that started them."""
        project = None if in_all_projects else self._project
        cursor = None if after is None else (after.updated_at, after.tie_breaker)
        rows = await self._thread.run(self._catalogue.page, project, limit, cursor, tuple(query.split()), tags)
        return await self._thread.run(sessions_with_agents, self._catalogue, rows)

    async def session_agents(self, *ids: str) -> tuple[SessionInfo, ...]:
        """Return the sub-agents of these sessions, grouped by session, newest first."""
        return await self._thread.run(agents_of_sessions, self._catalogue, ids)

    async def search(self, query: str, *, in_all_projects: bool = False) -> tuple[tuple[SessionMatch, ...], str]:
        """Find the sessions that contain these words, best first. Also return a note about what is not searchable yet,
        empty if everything is."""
        if not query.strip():
            return (), ""
        project = None if in_all_projects else self._project
        await self._indexer.catch_up(project=project, seconds=INDEX_TIMEOUT_S)
        note = self._indexer.gap.note if self._indexer.gap is not None else ""
        kinds = ("user", "assistant", "summary")
        matches = await self._indexer.find(SearchQuery(query, kinds, project=project, limit=MAX_SEARCH_HITS))
        pieces, excerpts = query_pieces(query), dict[str, str]()
        for match in matches:
            excerpts.setdefault(match.session, make_excerpt(match.document.text, pieces, MAX_EXCERPT_CHARS))
        rows = await self._thread.run(self._catalogue.sessions_by_id, tuple(excerpts))
        found = tuple(
            SessionMatch(session_info_from_row(row), excerpts[row.session.id])
            for row in rows
            if not row.session.is_unused
        )
        return found, note

    async def last_messages(self, session_id: str, count: int) -> tuple[Message, ...]:
        """Return the last messages of a session, in order."""
        rows = await self._thread.run(self._store.messages_before, session_id, 1 << 62, count)
        return restore_messages(rows).messages

    async def rename(self, id_prefix: str, title: str) -> SessionInfo:
        row = await self._find_session(id_prefix)
        title = " ".join(title.encode("utf-8", "replace").decode("utf-8").split())[:MAX_TITLE_CHARS]
        if not title:
            raise UsageError("the title cannot be empty")
        await self._thread.run(self._store.rename, row.id, title)
        self._on_rename(row.id, title)
        return session_info(replace(row, title=title))

    async def change_tags(
        self, id_prefix: str, tags_to_add: tuple[str, ...] = (), tags_to_remove: tuple[str, ...] | None = ()
    ) -> SessionInfo:
        """Add and remove a session's tags; `tags_to_remove=None` removes all. Tags must be normalised with
        `normalise_tag`."""
        row = await self._find_session(id_prefix)

        def change_tags() -> SessionInfo:
            current_tags = tuple(fact.key for fact in self._store.facts(row.id, TAG_FACT))
            removed_tags = current_tags if tags_to_remove is None else tags_to_remove
            new_tags = sorted({*current_tags, *tags_to_add} - ({*removed_tags} - {*tags_to_add}))
            if len(new_tags) > MAX_TAGS:
                raise UsageError(f"a session has at most {MAX_TAGS} tags: `{row.id}` would have {len(new_tags)}")
            return session_info(row, tags=self._catalogue.change_tags(row.id, tags_to_add, removed_tags))

        return await self._thread.run(change_tags)

    async def tags(self) -> tuple[tuple[str, int], ...]:
        """Return every tag and the number of sessions that have it, across all projects."""
        return await self._thread.run(self._catalogue.count_tags)

    async def fork(self, id_prefix: str, message_count: int | None = None, *, is_draft: bool = False) -> SessionInfo:
        """Create a session from the first `message_count` messages of another session, or from all of them. If
        `is_draft`, reuse an existing unused draft of the same fork. Drafts that remain unused are deleted."""
        return session_info(await self._thread.run(self._fork, id_prefix, message_count, is_draft))

    def _fork(self, id_prefix: str, message_count: int | None, is_draft: bool) -> SessionRow:
        parent, forks = find_session(self._store, id_prefix, self._project), ForkStore(self._store)
        if is_draft:
            for session_id in forks.unused_drafts():
                row = self._store.session(session_id)
                if row is not None and (row.parent, row.forked) == (parent.id, message_count):
                    return row
        now = time.time()
        title = parent.title if is_draft else f"{parent.title} (fork)"
        new = SessionRow(secrets.token_hex(6), "", title, "", "", now, now, forked=message_count, draft=is_draft)
        return fork_session(self._store, parent, new)

    async def tree(self, session_id: str) -> SessionTree:
        """Return the tree of the user's messages in a session and in all sessions related to it by forks."""
        return await self._thread.run(build_session_tree, self._store, session_id)

    async def ancestry(self, session_id: str) -> dict[str, int]:
        """Map the ids of a session and its ancestors to the number of messages that each shares with the session."""
        return await self._thread.run(lambda: ForkStore(self._store).ancestry(session_id))

    async def delete(self, id_prefix: str) -> SessionInfo:
        """Delete a session with its outputs and sub-agents. If the session or one of its sub-agents is open elsewhere,
        delete nothing and raise an error."""
        row = await self._find_session(id_prefix)
        agents = await self.session_agents(row.id)
        with ExitStack() as exit_stack:
            for session_id in (row.id, *(agent.id for agent in agents)):
                exit_stack.enter_context(self._lock(session_id))
            await delete_session(self._thread, self._store, row.id)
            await self._thread.run(ArchiveStore(self._store).collect_garbage)
        return replace(session_info(row), agents=agents)

    async def has_session(self, session_id: str) -> bool:
        return await self._thread.run(self._store.session, session_id) is not None

    async def delete_unused_draft(self, session_id: str) -> None:
        row = await self._thread.run(self._store.session, session_id)
        if row is not None and row.is_unused:
            await delete_session(self._thread, self._store, session_id, is_copy=True)

    async def _find_session(self, id_prefix: str) -> SessionRow:
        return await self._thread.run(find_session, self._store, id_prefix, self._project)
