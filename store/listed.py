"""Which sessions a list shows, and what becomes of forks whose parent goes."""

import sqlite3

IS_LISTED = """exists (
    select 1 from messages where session = s.id and position >= case when s.draft then coalesce(s.forked, 0) else 0 end
)"""
"""Of a session `s`: something was said in it, and it is no draft that nobody needs."""


def hand_over(db: sqlite3.Connection, session: str) -> None:
    """What was forked from a session that is going to be deleted counts as forked from where that came from."""
    (parent, forked) = db.execute("select parent, forked from sessions where id = ?", (session,)).fetchone() or (0, 0)
    if parent:
        db.execute(
            "update sessions set parent = ?, forked = min(coalesce(forked, 0), ?) where parent = ?",
            (parent, forked or 0, session),
        )
