"""Deletes many stored sessions: selects them, and deletes each that is not open, with everything it stored."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ebbtide.agent.archive.session_page import agents_of, with_agents
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.records.session_lookup import SessionInfo, find_session, project_of
from ebbtide.agent.records.store_access import forget_rows, forget_words, lock_session, opened_store, outputs_folder
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.catalogue import Catalogue, Selection
from ebbtide.store.locks import is_open
from ebbtide.store.sessions import SessionStore


@dataclass(frozen=True, slots=True)
class SkippedSession:
    """A session that is not deleted."""

    info: SessionInfo
    why: str


OPEN = "it is open"


def selected_sessions(
    config: Config,
    *,
    project: str | None,
    before: float | None = None,
    tags: tuple[str, ...] = (),
    untagged: bool = False,
    unanswered: bool = False,
) -> tuple[tuple[SessionInfo, ...], tuple[SkippedSession, ...]]:
    """Select the sessions of a project, or of all, that meet all criteria, newest first. Also return those that are
    skipped because they or their sub-agents are open. `before`: unchanged since then, in Unix seconds;
    `unanswered`: without any reply of a model. Raises `AgentError`."""
    wanted = Selection(project, before, tags, untagged, unanswered)
    with opened_store(config.folders) as store:
        catalogue = Catalogue(store)
        found = with_agents(catalogue, catalogue.matching_sessions(wanted))
    locks = config.folders.data / "locks"
    running = {info.id for info in found if any(is_open(locks, id) for id in _ids(info))}
    free = tuple(info for info in found if info.id not in running)
    return free, tuple(SkippedSession(info, OPEN) for info in found if info.id in running)


def named_sessions(config: Config, prefixes: Iterable[str]) -> tuple[SessionInfo, ...]:
    """The sessions whose ids start with these prefixes, each once. Raises `AgentError`, also if a prefix matches
    none or several."""
    with opened_store(config.folders) as store:
        catalogue, project = Catalogue(store), project_of(config)
        ids = tuple(dict.fromkeys(find_session(store, prefix, project).id for prefix in prefixes))
        return with_agents(catalogue, catalogue.sessions_by_id(ids))


def delete_sessions(
    config: Config, sessions: Sequence[SessionInfo], told: Callable[[int], None]
) -> tuple[tuple[SessionInfo, ...], tuple[SkippedSession, ...]]:
    """Delete sessions with their outputs and sub-agents. Skips those that are open, or that changed since they were
    looked up. Each is deleted completely or not at all, even on an interrupt. `told` is called with the number
    processed. Return the deleted and the skipped sessions. Raises `AgentError`."""
    deleted, kept = list[SessionInfo](), list[SkippedSession]()
    with opened_store(config.folders) as store:
        try:
            for number, info in enumerate(sessions):
                told(number)
                gone = _delete(config, store, info)
                if isinstance(gone, SkippedSession):
                    kept.append(gone)
                else:
                    deleted.append(gone)
        finally:
            if deleted:
                forget_words(store)
                ArchiveStore(store).collect(lambda session: is_open(config.folders.data / "locks", session))
    return tuple(deleted), tuple(kept)


def _delete(config: Config, store: SessionStore, info: SessionInfo) -> SessionInfo | SkippedSession:
    with ExitStack() as held:
        try:
            held.callback(lock_session(config, info.id).release)
            now = store.session(info.id)
            if now is None:
                return SkippedSession(info, "it is already deleted")
            if now.updated != info.updated_at:
                return SkippedSession(info, "it was used in the meantime")
            # A locked session cannot start another sub-agent.
            agents = agents_of(Catalogue(store), (info.id,))
            for agent in agents:
                held.callback(lock_session(config, agent.id).release)
        except StoreFailed as error:
            if error.reason != "in use":
                raise
            return SkippedSession(info, OPEN)
        forget_rows(store, info.id)
        for id in (info.id, *(agent.id for agent in agents)):
            shutil.rmtree(outputs_folder(config, id), ignore_errors=True)
        return replace(info, agents=agents)


def _ids(info: SessionInfo) -> tuple[str, ...]:
    return info.id, *(agent.id for agent in info.agents)
