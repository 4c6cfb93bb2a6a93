"""Selects stored sessions, and deletes them with everything they stored. Open sessions are skipped."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ebbtide.agent.archive.session_listing import agents_of_sessions, sessions_with_agents
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.records.session_lookup import SessionInfo, find_session, project_name
from ebbtide.agent.records.store_access import (
    delete_session_rows,
    lock_session,
    open_store_briefly,
    outputs_folder,
    reset_word_index,
)
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.catalogue import SessionCatalogue, SessionFilter
from ebbtide.store.locks import is_open
from ebbtide.store.sessions import SessionStore


@dataclass(frozen=True, slots=True)
class SkippedSession:
    """A session that was not deleted."""

    info: SessionInfo
    reason: str


SESSION_OPEN_REASON = "it is open"


def select_sessions(
    config: Config,
    *,
    project: str | None,
    updated_before: float | None = None,
    tags: tuple[str, ...] = (),
    is_untagged: bool = False,
    is_unanswered: bool = False,
) -> tuple[tuple[SessionInfo, ...], tuple[SkippedSession, ...]]:
    """Find the sessions that meet all criteria, newest first, in one project or in all of them. Sessions that are open,
    or that have open sub-agents, are skipped and returned separately. `updated_before`: select sessions that have not
    changed since this time, in Unix seconds. `is_unanswered`: select sessions without any reply from a model. Raises
    `AgentError`."""
    selection = SessionFilter(project, updated_before, tags, is_untagged, is_unanswered)
    with open_store_briefly(config.folders) as store:
        catalogue = SessionCatalogue(store)
        sessions = sessions_with_agents(catalogue, catalogue.matching_sessions(selection))
    locks = config.folders.data / "locks"
    open_ids = {
        info.id for info in sessions if any(is_open(locks, session_id) for session_id in _ids_with_agents(info))
    }
    deletable = tuple(info for info in sessions if info.id not in open_ids)
    return deletable, tuple(SkippedSession(info, SESSION_OPEN_REASON) for info in sessions if info.id in open_ids)


def sessions_by_prefix(config: Config, prefixes: Iterable[str]) -> tuple[SessionInfo, ...]:
    """Find the sessions whose ids start with these prefixes, without duplicates. Raises `AgentError`, for example if a
    prefix matches no session, or more than one."""
    with open_store_briefly(config.folders) as store:
        catalogue, project = SessionCatalogue(store), project_name(config)
        ids = tuple(dict.fromkeys(find_session(store, prefix, project).id for prefix in prefixes))
        return sessions_with_agents(catalogue, catalogue.sessions_by_id(ids))


def delete_sessions(
    config: Config, sessions: Sequence[SessionInfo], on_progress: Callable[[int], None]
) -> tuple[tuple[SessionInfo, ...], tuple[SkippedSession, ...]]:
    """Delete sessions with their outputs and sub-agents. Sessions that are open, or have changed since they were looked
    up, are skipped. Each session is deleted completely or not at all, even on an interrupt. `on_progress` is called
    with the number of sessions processed. Return the deleted and the skipped sessions. Raises `AgentError`."""
    deleted, skipped = list[SessionInfo](), list[SkippedSession]()
    with open_store_briefly(config.folders) as store:
        try:
            for processed_count, info in enumerate(sessions):
                on_progress(processed_count)
                outcome = _delete_session(config, store, info)
                if isinstance(outcome, SkippedSession):
                    skipped.append(outcome)
                else:
                    deleted.append(outcome)
        finally:
            if deleted:
                reset_word_index(store)
                ArchiveStore(store).collect_garbage(lambda session: is_open(config.folders.data / "locks", session))
    return tuple(deleted), tuple(skipped)


def _delete_session(config: Config, store: SessionStore, info: SessionInfo) -> SessionInfo | SkippedSession:
    with ExitStack() as exit_stack:
        try:
            exit_stack.callback(lock_session(config, info.id).release)
            current = store.session(info.id)
            if current is None:
                return SkippedSession(info, "it is already deleted")
            if current.updated != info.updated_at:
                return SkippedSession(info, "it has been used since it was listed")
            # Lock the session first: a locked session cannot start another sub-agent.
            agents = agents_of_sessions(SessionCatalogue(store), (info.id,))
            for agent in agents:
                exit_stack.callback(lock_session(config, agent.id).release)
        except StoreFailed as error:
            if error.reason != "in use":
                raise
            return SkippedSession(info, SESSION_OPEN_REASON)
        delete_session_rows(store, info.id)
        for session_id in (info.id, *(agent.id for agent in agents)):
            shutil.rmtree(outputs_folder(config, session_id), ignore_errors=True)
        return replace(info, agents=agents)


def _ids_with_agents(info: SessionInfo) -> tuple[str, ...]:
    return info.id, *(agent.id for agent in info.agents)
