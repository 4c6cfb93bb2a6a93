"""The rows of a session: itself, its messages, what holds besides them, outputs, summaries, what requests took, what
rewrites changed, and views as they were before. The store numbers no outputs and summaries: whoever writes them down
does."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

SESSION_ID = r"[0-9a-f]{12}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""What the id of a session is, as a regular expression: one of ours, or a UUID that its user has chosen."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    id: str
    project: str
    """The real path of the project's top folder."""
    title: str
    model: str
    mode: str
    created: float
    """Unix seconds."""
    updated: float
    messages: int = 0
    """How many messages the session has: its last position and one, not stored."""
    parent: str | None = None
    """The session that this one was forked from, while it is there."""
    forked: int | None = None
    """How many messages a fork has taken from its parent."""
    family: str | None = None
    """The first session of all that were forked from each other."""
    draft: bool = False
    """A fork that nobody needs until something is said in it."""
    owner: str | None = None
    """The session whose agent has it; it goes with that one."""
    agent: str | None = None
    """What that agent is called."""

    @property
    def is_unused(self) -> bool:
        """Whether it is a draft in which nothing was said yet."""
        return self.draft and self.messages <= (self.forked or 0)


SESSION_COLUMNS = (
    "id", "project", "title", "model", "mode", "created", "updated", "parent", "forked", "family", "draft",
    "owner", "agent",
)  # fmt: skip


class MessageRow(NamedTuple):
    position: int
    """Counts from 0 in each session, without gaps."""
    role: str
    body: str
    created: float = 0.0
    ref: str | None = None
    """What it is referred to by. Written, and not read with the message."""
    is_changed: bool = False
    """Whether it is not what was written: it was damaged."""


class FactRow(NamedTuple):
    """Something that holds in a session besides its messages. It has one body for each kind and key."""

    kind: str
    key: str
    body: str


class SnapshotRow(NamedTuple):
    position: int
    """How many messages of the session the snapshot has seen."""
    body: str


class OutputRow(NamedTuple):
    """A part of an output: its text, or one of its pictures."""

    number: int
    """Counts from 1 in each session, in the order of calls."""
    part: int
    """0 is the text."""
    position: int
    """Of the message that holds it."""
    call: str
    tool: str
    size: int
    """Bytes of what the call gave back, which may be more than the message shows."""
    lines: int
    media_type: str
    digest: str | None = None
    """Where the bytes are; None when they stand in the message."""
    created: float = 0.0
    accesses: int = 0
    accessed: float | None = None
    removed: float | None = None
    """When the bytes were removed for their age or size."""


class SummaryRow(NamedTuple):
    """What stood for the messages before a position."""

    number: int
    """Counts from 1 in each session."""
    position: int
    body: str
    created: float = 0.0


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


MAX_VIEWS = 20
"""Views of a session that are kept, the newest."""


class ViewRow(NamedTuple):
    """What a snapshot would have held right before a rewrite."""

    position: int
    """How many messages the session had."""
    body: str
    created: float = 0.0
    number: int = 0
    """Counts from 1 in each session; given when the row is written."""


def insert_rows(
    db: sqlite3.Connection,
    table: str,
    session: str,
    rows: Sequence[OutputRow | SummaryRow | UsageRow | RewriteRow | ViewRow],
    now: float,
) -> None:
    """Adds rows, whose fields are called as the columns of their table are, or puts them in the place of those with the
    same key."""
    if rows:  # a table that is damaged or missing then stops nothing else
        columns = rows[0]._fields
        db.executemany(
            f"insert or replace into {table} (session, {', '.join(columns)}) values (?{', ?' * len(columns)})",
            [(session, *row._replace(created=row.created or now)) for row in rows],
        )


def insert_rewrites(db: sqlite3.Connection, session: str, rows: Sequence[RewriteRow], now: float) -> None:
    """Each with the number of requests that the session had made by then."""
    count = "select count(*) from usage where session = ? and created <= ?"
    for row in rows:
        (requests,) = db.execute(count, (session, row.created or now)).fetchone()
        insert_rows(db, "rewrites", session, [row._replace(requests=requests)], now)


def insert_view(db: sqlite3.Connection, session: str, row: ViewRow, now: float) -> None:
    """Adds the newest view, and lets the oldest go when there are too many."""
    (number,) = db.execute("select coalesce(max(number), 0) + 1 from views where session = ?", (session,)).fetchone()
    insert_rows(db, "views", session, [row._replace(number=number)], now)
    db.execute("delete from views where session = ? and number <= ?", (session, number - MAX_VIEWS))


def remove_views(db: sqlite3.Connection, session: str, first: int) -> None:
    """Forgets a view and those after it: the session shows it again."""
    db.execute("delete from views where session = ? and number >= ?", (session, first))


def insert_session(db: sqlite3.Connection, row: SessionRow) -> None:
    names, values = ", ".join(SESSION_COLUMNS), [getattr(row, name) for name in SESSION_COLUMNS]
    db.execute(f"insert into sessions ({names}) values ({', '.join('?' * len(values))})", values)
