"""Replies that call tools, across the sessions of a project. It knows rows, not what they mean."""

from store.sessions import MessageRow, SessionStore


def replies_with_calls(store: SessionStore, project: str, session: str, limit: int) -> tuple[MessageRow, ...]:
    """The newest replies that hold calls, the newest first. `session`: its last reply is left out."""
    rows = store.query(
        "select m.position, m.role, m.body, m.created from messages m join sessions s on s.id = m.session "
        "where s.project = ? and m.role = 'assistant' and instr(m.body, '\"type\":\"call\"') > 0 "
        "and not (m.session = ? and m.position = "
        "(select max(position) from messages where session = ? and role = 'assistant')) "
        "order by m.id desc limit ?",
        project,
        session,
        session,
        limit,
    )
    return tuple(MessageRow(*row) for row in rows)
