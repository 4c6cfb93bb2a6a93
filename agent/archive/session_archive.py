"""Access to everything that one session has stored except its messages, for lookup, listing and tools."""

from dataclasses import replace
from typing import Self

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.listing import ArchiveListing
from ebbtide.agent.archive.recall import SessionRecall, create_fetch_function, create_search_function
from ebbtide.agent.archive.semantic_search import load_semantic_search
from ebbtide.agent.config.values import Config
from ebbtide.agent.logs.debug_log import DebugLog
from ebbtide.agent.records.file_history import FileHistory
from ebbtide.agent.records.garbage import pop_over_limit_note
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Workspace
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class SessionArchive:
    archive: Archive
    """Access to content that left the view."""
    recall: SessionRecall
    """Lookup across sessions."""
    listing: ArchiveListing
    """The list of everything that the session has stored."""
    file_history: FileHistory
    """Earlier content of files that the session changed."""
    problems: tuple[str, ...] = ()
    """Notices for the user, one sentence each."""

    @classmethod
    def open(
        cls,
        thread: StoreThread,
        store: SessionStore,
        recorder: Recorder,
        workspace: Workspace,
        config: Config,
        debug: DebugLog,
    ) -> Self:
        session_id, project = recorder.session_id, recorder.project
        model, model_problem, excess_note = config.recall_embedding_model, "", ""
        if model is not None:
            model_problem = load_semantic_search().find_model_problem(model)
        if store.blobs is not None and config.archive_max_bytes is not None:
            excess_note = pop_over_limit_note(store.blobs.folder, config.archive_max_bytes)
        archive = Archive(thread, store, session_id, project)
        return cls(
            archive,
            SessionRecall(
                thread,
                store,
                archive,
                session_id,
                project,
                config.recall_scope,
                debug,
                None if model_problem else model,
            ),
            ArchiveListing(thread, store, archive, session_id),
            FileHistory(thread, store, recorder, workspace.root),
            tuple(filter(None, (model_problem, excess_note))),
        )

    def with_recall(self, workspace: Workspace) -> Workspace:
        """Add functions to the workspace that let its tools look up stored content."""
        fetch = create_fetch_function(self.recall)
        return replace(
            workspace,
            get_stored_content=lambda ref: fetch(ref, None),
            fetch_stored_content=fetch,
            search_history=create_search_function(self.recall),
        )
