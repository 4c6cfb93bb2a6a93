"""Looks up what was said in any session, by reference or by words, within the scope that the user allows."""

from functools import cached_property
from typing import TYPE_CHECKING

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.reference_parts import ResolvedReference
from ebbtide.agent.debug import Debug
from ebbtide.agent.errors import ReferenceFailed, StoreFailed
from ebbtide.agent.messages import Conversation
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import ToolError
from ebbtide.tools.outputs.recall_scope import SCOPES, Scope
from ebbtide.tools.outputs.recalled import Fetch, LookUp, OnProgress, RecallQuery, RecallResult, no_progress
from ebbtide.tools.outputs.stored import StoredContent

if TYPE_CHECKING:  # types only: most runs search nothing
    from ebbtide.agent.archive.recall_search import RecallSearch
    from ebbtide.agent.context.provenance import Trace


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
        """`project` is the real path of the session's project; `scope` the widest scope allowed; `embedding_model`
        the folder of the model for search by meaning."""
        self._thread = thread
        self._store = store
        self._archive = archive
        self._session = session
        self._project = project
        self._scope: Scope = scope
        self._debug = debug or Debug()
        self._embedding_model = embedding_model

    @cached_property
    def _search(self) -> "RecallSearch":
        from ebbtide.agent.archive.recall_search import RecallSearch  # noqa: PLC0415  # deferred: most runs search nothing

        parts = self._thread, self._store, self._archive, self._session, self._project
        return RecallSearch(*parts, self._embedding_model)

    async def search(self, asked: RecallQuery, told: OnProgress = no_progress) -> RecallResult:
        """Everything that matches the words and filters, best first."""
        scope = self._permitted_scope(asked.scope)
        found = await self._search.search(asked, scope, told)
        self._debug.log("context/recall", query=asked.query, scope=scope, found=len(found.found))
        return found

    async def fetch(self, ref: str, scope: Scope | None = None) -> StoredContent:
        """The content of a reference, for reading in parts; to be closed. Counts as an access."""
        located = await self._archive.resolve(ref)
        allowed = self._permitted_scope(scope)
        if not await self._may_see(located, allowed):
            raise ReferenceFailed(
                f"`{ref}` is beyond what may be recalled here: `recall.scope` is `{self._scope}`"
                + (f", and `scope` was `{allowed}`" if allowed != self._scope else "")
            )
        found = await self._archive.open(located)
        await self._search.count_look(located)
        self._debug.log("context/recall", ref=located.uri, scope=allowed, found=1)
        return found

    async def why(self, text: str, view: Conversation | None = None) -> "Trace":
        """Every place where the session contains the text, and what became of it there. If the text is a reference,
        what became of its output or message. `view`: what the model is shown; None loads the stored view."""
        from ebbtide.agent.archive.locate import Locator  # noqa: PLC0415  # deferred: most runs search nothing

        return await Locator(self._thread, self._store, self._session).trace(
            text, view, self._search.unsearched_outputs
        )

    def _permitted_scope(self, scope: Scope | None) -> Scope:
        if scope is None:
            return self._scope
        if SCOPES.index(scope) > SCOPES.index(self._scope):
            raise ReferenceFailed(
                f"the user lets you recall from this {self._scope} only (`recall.scope`): leave `scope` out"
            )
        return scope

    async def _may_see(self, located: ResolvedReference, scope: Scope) -> bool:
        """Whether a reference is within the scope. A session may see its sub-agents, and a sub-agent what its
        session names to it."""
        if located.session == self._session or scope == "all":
            return True
        row = await self._thread.run(self._store.session, located.session)
        if row is None:
            return False
        own = await self._thread.run(self._store.session, self._session)
        is_of_one = row.owner == self._session or (own is not None and own.owner == row.id)
        return is_of_one or (scope == "project" and row.project == self._project)


def fetch_for_tools(recall: SessionRecall) -> Fetch:
    """A function that fetches references for tools."""

    async def fetch(ref: str, scope: Scope | None) -> StoredContent:
        try:
            return await recall.fetch(ref, scope)
        except (ReferenceFailed, StoreFailed) as error:
            raise ToolError(str(error)) from error

    return fetch


def search_for_tools(recall: SessionRecall) -> LookUp:
    """A function that searches for tools."""

    async def look_up(asked: RecallQuery, told: OnProgress) -> RecallResult:
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
    """The recall of the user for a session, which need not be open."""
    scope: Scope = "all" if everywhere else "project"
    archive = Archive(thread, store, session, project)
    return SessionRecall(thread, store, archive, session, project, scope, embedding_model=embedding_model)
