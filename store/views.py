"""The rows of views that were rewritten, as they were before. The store knows texts, not what they show."""

import sqlite3
from typing import NamedTuple

KEPT = 20
"""Views of a session that are kept, the newest."""


class ViewRow(NamedTuple):
    """What a snapshot would have held right before a rewrite."""

    position: int
    """How many messages the session had."""
    body: str
    created: float = 0.0
    number: int = 0
    """Counts from 1 in each session; given when the row is written."""


def insert_view(db: sqlite3.Connection, session: str, row: ViewRow, now: float) -> None:
    """Adds the newest view, and lets the oldest go when there are too many."""
    (number,) = db.execute("select coalesce(max(number), 0) + 1 from views where session = ?", (session,)).fetchone()
    db.execute(
        "insert into views (session, number, position, body, created) values (?, ?, ?, ?, ?)",
        (session, number, row.position, row.body, row.created or now),
    )
    db.execute("delete from views where session = ? and number <= ?", (session, number - KEPT))


def remove_views(db: sqlite3.Connection, session: str, first: int) -> None:
    """Forgets a view and those after it: the session shows it again."""
    db.execute("delete from views where session = ? and number >= ?", (session, first))
