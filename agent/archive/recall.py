"""Looks up the content of sessions, by reference or by words, within the scope that the user allows."""

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from ebbtide.agent import archive as agent_archive
from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.reference_parts import ResolvedReference
from ebbtide.agent.errors import ReferenceFailed, StoreFailed
from ebbtide.agent.logs.debug_log import DebugLog
from ebbtide.agent.messages import Conversation
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import ToolError
from ebbtide.tools.outputs.recall_results import (
    FetchStoredContent,
    RecallQuery,
    RecallResult,
    SearchHistory,
)
from ebbtide.tools.outputs.recall_scope import RECALL_SCOPES, RecallScope
from ebbtide.tools.outputs.stored_content import StoredContent

if TYPE_CHECKING:  # imported for types only, because most runs search nothing
    from ebbtide.agent.archive.recall_search import RecallSearch
    from ebbtide.agent.view.provenance import Occurrences


class SessionRecall:
    """Looks up stored content on behalf of one session. Raises `ReferenceFailed` and `StoreFailed`."""

    def __init__(
        self,
        thread: StoreThread,
        store: SessionStore,
        archive: Archive,
        session: str,
        project: str,
        scope: RecallScope = "project",
        debug: DebugLog | None = None,
        embedding_model: str | None = None,
    ) -> None:
        """`project` is the real path of the session's project; `scope` is the widest scope allowed; `embedding_model`
        is the folder of the model for search by meaning."""
        self._thread = thread
        self._store = store
        self._archive = archive
        self._session = session
        self._project = project
        self._scope: RecallScope = scope
        self._debug = debug or DebugLog()
        self._embedding_model = embedding_model

    @cached_property
    def _search(self) -> "RecallSearch":
        arguments = self._thread, self._store, self._archive, self._session, self._project
        return agent_archive.recall_search.RecallSearch(*arguments, self._embedding_model)

    async def search(self, query: RecallQuery) -> RecallResult:
        """Return the items that match the words and filters, best first."""
        scope = self._permitted_scope(query.scope)
        result = await self._search.search(query, scope)
        self._debug.log("context/recall", query=query.query, scope=scope, found=len(result.items))
        return result

    async def fetch(self, ref: str, scope: RecallScope | None = None) -> StoredContent:
        """Return the content of a reference, for reading in parts. The caller must close it. Counts as an access."""
        resolved = await self._archive.resolve(ref)
        allowed = self._permitted_scope(scope)
        if not await self._is_in_scope(resolved, allowed):
            raise ReferenceFailed(
                f"`{ref}` is outside the allowed scope: `recall.scope` is `{self._scope}`"
                + (f", and `scope` was `{allowed}`" if allowed != self._scope else "")
            )
        content = await self._archive.open(resolved)
        if resolved.output is None:  # an output has its own count
            count, last = await self._search.earlier_accesses(resolved)
            content = replace(content, access_count=count, last_accessed_at=last)
        await self._search.record_access(resolved)
        self._debug.log("context/recall", ref=resolved.uri, scope=allowed, found=1)
        return content

    async def locate_text(self, text: str, view: Conversation | None = None) -> "Occurrences":
        """Find every place where the session contains the text, and whether the model sees it there. If the text is a
        reference, look up the output or message that it names. `view`: the conversation as the model sees it; None
        loads the stored view."""
        return await agent_archive.locate.TextLocator(self._thread, self._store, self._session).locate_text(
            text, view, self._search.unsearched_outputs_notes
        )

    def _permitted_scope(self, scope: RecallScope | None) -> RecallScope:
        if scope is None:
            return self._scope
        if RECALL_SCOPES.index(scope) > RECALL_SCOPES.index(self._scope):
            raise ReferenceFailed(
                f"the user lets you recall from this {self._scope} only (`recall.scope`): leave `scope` out"
            )
        return scope

    async def _is_in_scope(self, reference: ResolvedReference, scope: RecallScope) -> bool:
        """Whether a reference is within the scope. A session can always see its sub-agents, and a sub-agent the session
        that started it."""
        if reference.session == self._session or scope == "all":
            return True
        row = await self._thread.run(self._store.session, reference.session)
        if row is None:
            return False
        own_row = await self._thread.run(self._store.session, self._session)
        is_related = row.owner == self._session or (own_row is not None and own_row.owner == row.id)
        return is_related or (scope == "project" and row.project == self._project)


def create_fetch_function(recall: SessionRecall) -> FetchStoredContent:
    """Return a function that tools call to fetch references."""

    async def fetch(ref: str, scope: RecallScope | None) -> StoredContent:
        try:
            return await recall.fetch(ref, scope)
        except (ReferenceFailed, StoreFailed) as error:
            raise ToolError(str(error)) from error

    return fetch


def create_search_function(recall: SessionRecall) -> SearchHistory:
    """Return a function that tools call to search."""

    async def search(query: RecallQuery) -> RecallResult:
        try:
            return await recall.search(query)
        except (ReferenceFailed, StoreFailed) as error:
            raise ToolError(str(error)) from error

    return search


def create_user_recall(
    thread: StoreThread,
    store: SessionStore,
    session: str,
    project: str,
    in_all_projects: bool,
    embedding_model: str | None = None,
) -> SessionRecall:
    """Create a `SessionRecall` for the user, starting from a session, which need not be open."""
    scope: RecallScope = "all" if in_all_projects else "project"
    archive = Archive(thread, store, session, project)
    return SessionRecall(thread, store, archive, session, project, scope, embedding_model=embedding_model)
