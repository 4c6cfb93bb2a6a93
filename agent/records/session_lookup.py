"""Finds sessions by the beginning of their ids, and describes them."""

import re

from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.store.session_rows import SESSION_ID, SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session, as shown in a list."""

    id: str
    title: str
    model: str
    updated_at: float
    """Unix seconds."""
    messages: int
    project: str
    cost: float | None = 0.0
    """US dollars; None if a price is unknown."""
    parent: str = ""
    """The id of the session from which it was forked; empty if it is not a fork."""
    tie_breaker: int = 0
    """Sort key for sessions that were changed at the same moment."""
    origin: str = ""
    """For an imported session, the other program and its id for the session, as `claude:ID`; otherwise empty."""
    owner: str = ""
    """The id of the session that started this sub-agent; empty for other sessions."""
    agent: str = ""
    """The name of the sub-agent; empty for other sessions."""
    tags: tuple[str, ...] = ()
    agents: "tuple[SessionInfo, ...]" = ()
    """The sessions of its sub-agents, newest first; empty unless requested."""


def session_info(
    row: SessionRow, cost: float | None = 0.0, place: int = 0, origin: str = "", tags: tuple[str, ...] = ()
) -> SessionInfo:
    return SessionInfo(
        row.id, row.title, row.model, row.updated, row.messages, row.project, cost, row.parent or "", place, origin,
        row.owner or "", row.agent or "", tags,
    )  # fmt: skip


def project_name(config: Config) -> str:
    """Return the project's name as stored with sessions."""
    return str(config.project_folder).encode("utf-8", "backslashreplace").decode("utf-8")


def is_session_id(text: str) -> bool:
    """Whether the text has the form of a complete session id."""
    return re.fullmatch(SESSION_ID, text) is not None


def find_session(store: SessionStore, id_prefix: str, project: str) -> SessionRow:
    """Find the session whose id starts with `id_prefix`, or the project's newest session if the prefix is empty. Raises
    `UsageError` unless exactly one session matches. Must be called in the store's thread."""
    if not id_prefix:
        newest = store.recent_sessions(project, 1)
        if not newest:
            raise UsageError("no earlier session in this project; start one with a prompt")
        return newest[0]
    matches = store.sessions_with_prefix(id_prefix)
    if not matches:
        raise UsageError(f"there is no session `{id_prefix}`; `ebb sessions list` shows them")
    if len(matches) > 1:
        ids = ", ".join(f"`{row.id}`" for row in matches[:5])
        raise UsageError(f"`{id_prefix}` matches several sessions: {ids}; write more of the id")
    return matches[0]
