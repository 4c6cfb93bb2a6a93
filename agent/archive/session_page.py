"""Stored sessions as a list shows them, each with its sub-agents. Imports little, since lists are shown often."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from ebbtide.agent.config.values import Config
from ebbtide.agent.records.session_lookup import SessionInfo, info_of, project_of
from ebbtide.agent.records.store_access import opened_store, tidy_store
from ebbtide.store.catalogue import Catalogue, ListedRow


def newest_sessions(
    config: Config, limit: int, *, everywhere: bool = False, tags: tuple[str, ...] = ()
) -> tuple[tuple[SessionInfo, ...], str]:
    """The newest sessions of the project, or of all, with all of the tags, and any notice from opening the store.
    Also removes garbage that is due. Raises `AgentError`."""
    with opened_store(config.folders) as store:
        catalogue = Catalogue(store)
        rows = catalogue.page(None if everywhere else project_of(config), limit, tags=tags)
        found = with_agents(catalogue, rows)
        tidy_store(store, config)
        return found, store.told


def with_agents(catalogue: Catalogue, rows: Sequence[ListedRow]) -> tuple[SessionInfo, ...]:
    """Each session with its sub-agents. Raises `StoreError`, as below."""
    agents = agents_of(catalogue, tuple(row.session.id for row in rows))
    by_owner = {owner: tuple(theirs) for owner, theirs in groupby(agents, lambda agent: agent.owner)}
    return tuple(replace(listed_info(row), agents=by_owner.get(row.session.id, ())) for row in rows)


def agents_of(catalogue: Catalogue, ids: tuple[str, ...]) -> tuple[SessionInfo, ...]:
    """The sub-agents of these sessions, grouped by session, newest first."""
    return tuple(sorted(map(listed_info, catalogue.agent_sessions(ids)), key=lambda agent: agent.owner))


def listed_info(row: ListedRow) -> SessionInfo:
    return info_of(row.session, row.cost, row.place, row.origin, row.tags)
