"""Which session is meant by the beginning of its id. It asks the store and opens nothing."""

import re

from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.store.session_rows import SESSION_ID, SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as a list shows it."""

    id: str
    title: str
    model: str
    updated_at: float
    """Unix seconds."""
    messages: int
    project: str
    cost: float | None = 0.0
    """US dollars; None when a price is not known."""
    parent: str = ""
    """The id of the session that it was forked from."""
    place: int = 0
    """Tells sessions apart that were changed at the same moment."""
    origin: str = ""
    """Whose it was before it was imported, and what it was called there, `claude:ID`; empty for one of ours."""
    owner: str = ""
    """The id of the session that sent off the agent whose session it is."""
    agent: str = ""
    """What that agent is called."""
    tags: tuple[str, ...] = ()
    agents: "tuple[SessionInfo, ...]" = ()
    """The sessions of the agents that it has sent off, the newest first, where they were asked for."""


def info_of(
    row: SessionRow, cost: float | None = 0.0, place: int = 0, origin: str = "", tags: tuple[str, ...] = ()
) -> SessionInfo:
    return SessionInfo(
        row.id, row.title, row.model, row.updated, row.messages, row.project, cost, row.parent or "", place, origin,
        row.owner or "", row.agent or "", tags,
    )  # fmt: skip


def project_of(config: Config) -> str:
    """The project as sessions name it."""
    return str(config.project).encode("utf-8", "backslashreplace").decode("utf-8")


def is_session_id(text: str) -> bool:
    """Whether it is the whole id of a session, were there one."""
    return re.fullmatch(SESSION_ID, text) is not None


def find_session(store: SessionStore, prefix: str, project: str) -> SessionRow:
    """The one session whose id starts so. An empty prefix is the newest session of the project. Raises `UsageError`; to
    be called in the thread of the store."""
    if not prefix:
        newest = store.recent(project, 1)
        if not newest:
            raise UsageError("there is no earlier session in this project; start one with a prompt")
        return newest[0]
    found = store.matching(prefix)
    if not found:
        raise UsageError(f"there is no session `{prefix}`; `ebb sessions list` shows them")
    if len(found) > 1:
        ids = ", ".join(f"`{row.id}`" for row in found[:5])
        raise UsageError(f"`{prefix}` is the beginning of several sessions: {ids}; write more of it")
    return found[0]
