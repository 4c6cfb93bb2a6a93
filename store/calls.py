"""Calls across the sessions of a project: the replies that hold them, and when tools were used last. It knows rows, not
what they mean."""

from collections.abc import Mapping

from ebbtide.store.session_rows import MessageRow
from ebbtide.store.sessions import SessionStore

MAX_SESSIONS = 100
"""Sessions that are looked at, those that were changed last: however many there are, somebody waits for this."""


def replies_with_calls(store: SessionStore, project: str, session: str, limit: int) -> tuple[MessageRow, ...]:
    """The newest replies that hold calls of the sessions that were changed last, the newest first. `session`: its last
    reply is left out."""
    rows: list[MessageRow] = []
    newest = store.query(
        "select id from sessions where project = ? order by updated desc limit ?", project, MAX_SESSIONS
    )
    for (id,) in newest:
        found = store.query(
            "select position, role, body, created from messages where session = ?1 and role = 'assistant' "
            'and instr(body, \'"type":"call"\') > 0 and (?1 <> ?2 or position < '
            "(select max(position) from messages where session = ?2 and role = 'assistant')) "
            "order by position desc limit ?3",
            id,
            session,
            limit - len(rows),
        )
        rows += [MessageRow(*row) for row in found]
        if len(rows) >= limit:
            break
    return tuple(rows)


def tool_uses(store: SessionStore, project: str) -> dict[str, float]:
    """Unix seconds of the last use of each tool in a project. Raises `StoreError`."""
    found = store.query("select tool, used from tool_uses where project = ? and typeof(used) = 'real'", project)
    return {str(tool): used for tool, used in found}


def save_tool_uses(store: SessionStore, project: str, uses: Mapping[str, float]) -> None:
    """Keeps uses, each unless a later one is known. Raises `StoreError`."""
    with store.transaction() as db:
        db.executemany(
            "insert into tool_uses (project, tool, used) values (?, ?, ?) "
            "on conflict (project, tool) do update set used = max(used, excluded.used)",
            [(project, tool, used) for tool, used in uses.items()],
        )
