"""Stored sessions as shown in lists, each with its sub-agents. This module imports little, because lists are shown
often."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from ebbtide.agent.config.values import Config
from ebbtide.agent.records.session_lookup import SessionInfo, project_name, session_info
from ebbtide.agent.records.store_access import open_store_briefly, remove_store_garbage
from ebbtide.store.catalogue import ListedSession, SessionCatalogue


def newest_sessions(
    config: Config, limit: int, *, in_all_projects: bool = False, tags: tuple[str, ...] = ()
) -> tuple[tuple[SessionInfo, ...], str]:
    """Return the newest sessions that have all of the tags, in the project or in all projects, and any notice from
    opening the store. Also collects garbage in the store when due. Raises `AgentError`."""
    with open_store_briefly(config.folders) as store:
        catalogue = SessionCatalogue(store)
        rows = catalogue.page(None if in_all_projects else project_name(config), limit, tags=tags)
        sessions = sessions_with_agents(catalogue, rows)
        remove_store_garbage(store, config)
        return sessions, store.notice


def sessions_with_agents(catalogue: SessionCatalogue, rows: Sequence[ListedSession]) -> tuple[SessionInfo, ...]:
    """Return each session with its sub-agents. Raises `StoreError`."""
    agents = agents_of_sessions(catalogue, tuple(row.session.id for row in rows))
    by_owner = {owner: tuple(group) for owner, group in groupby(agents, lambda agent: agent.owner)}
    return tuple(replace(session_info_from_row(row), agents=by_owner.get(row.session.id, ())) for row in rows)


def agents_of_sessions(catalogue: SessionCatalogue, ids: tuple[str, ...]) -> tuple[SessionInfo, ...]:
    """Return the sub-agents of these sessions, grouped by session, newest first."""
    return tuple(sorted(map(session_info_from_row, catalogue.agent_sessions(ids)), key=lambda agent: agent.owner))


def session_info_from_row(row: ListedSession) -> SessionInfo:
    return session_info(row.session, row.cost, row.row_order, row.origin, row.tags)
