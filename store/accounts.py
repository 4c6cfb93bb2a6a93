"""The rows of what requests took and of what rewrites changed."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class UsageRow(NamedTuple):
    model: str
    purpose: str
    input: int
    cache_read: int
    cache_write: int
    output: int
    cost: float | None
    created: float = 0.0


class UsageTotal(NamedTuple):
    input: int
    cache_read: int
    cache_write: int
    output: int
    cost: float | None
    """None when the cost of any request is not known."""


class RewriteRow(NamedTuple):
    """A change of what earlier requests had already sent."""

    position: int
    """How many messages the session had."""
    reason: str
    strategies: str
    before: int
    after: int
    cost: float | None
    created: float = 0.0
    requests: int = 0
    """How many requests the session had made by then, that for a summary included; counted when the row is written."""


def insert_usage(db: sqlite3.Connection, session: str, rows: Iterable[UsageRow], now: float) -> None:
    db.executemany(
        "insert into usage (session, model, purpose, input, cache_read, cache_write, output, cost, created) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (session, u.model, u.purpose, u.input, u.cache_read, u.cache_write, u.output, u.cost, u.created or now)
            for u in rows
        ],
    )


def insert_rewrites(db: sqlite3.Connection, session: str, rows: Sequence[RewriteRow], now: float) -> None:
    """Each with the number of requests that the session had made by then."""
    if rows:  # a table that is damaged or missing then stops nothing else
        db.executemany(
            "insert into rewrites (session, position, requests, reason, strategies, before, after, cost, created) "
            "values (?, ?, (select count(*) from usage where session = ? and created <= ?), ?, ?, ?, ?, ?, ?)",
            [
                (
                    session,
                    r.position,
                    session,
                    r.created or now,
                    r.reason,
                    r.strategies,
                    r.before,
                    r.after,
                    r.cost,
                    r.created or now,
                )
                for r in rows
            ],
        )
