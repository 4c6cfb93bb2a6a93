"""Tool calls in all sessions of a project: the replies that contain calls, and the last use of each tool. It does not
interpret the rows."""

from collections.abc import Mapping

from ebbtide.store.session_rows import MessageRow
from ebbtide.store.sessions import SessionStore

MAX_EXAMINED_SESSIONS = 100
"""Maximum number of sessions searched, most recently updated first, to keep the query fast."""


def replies_with_calls(store: SessionStore, project: str, session: str, limit: int) -> tuple[MessageRow, ...]:
    """Find the newest replies with calls in the most recently updated sessions, newest first. The last reply of
    `session` is skipped."""
    rows: list[MessageRow] = []
    newest = store.query(
        "select id from sessions where project = ? order by updated desc limit ?", project, MAX_EXAMINED_SESSIONS
    )
    for (session_id,) in newest:
        matching_rows = store.query(
            "select position, role, body, created from messages where session = ?1 and role = 'assistant' "
            'and instr(body, \'"type":"call"\') > 0 and (?1 <> ?2 or position < '
            "(select max(position) from messages where session = ?2 and role = 'assistant')) "
            "order by position desc limit ?3",
            session_id,
            session,
            limit - len(rows),
        )
        rows += [MessageRow(*row) for row in matching_rows]
        if len(rows) >= limit:
            break
    return tuple(rows)


def last_tool_uses(store: SessionStore, project: str) -> dict[str, float]:
    """Get the time each tool was last used in a project, in Unix seconds. Raises `StoreError`."""
    rows = store.query("select tool, used from tool_uses where project = ? and typeof(used) = 'real'", project)
    return {str(tool): used for tool, used in rows}


def save_tool_uses(store: SessionStore, project: str, uses: Mapping[str, float]) -> None:
    """Store when tools were last used. Later times that are already stored are kept. Raises `StoreError`."""
    with store.transaction() as db:
        db.executemany(
            "insert into tool_uses (project, tool, used) values (?, ?, ?) "
            "on conflict (project, tool) do update set used = max(used, excluded.used)",
            [(project, tool, used) for tool, used in uses.items()],
        )
