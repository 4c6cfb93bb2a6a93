"""The rows of a session: the session itself, its messages, facts, outputs, summaries, usage, rewrites and earlier
views. The caller numbers outputs and summaries."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

SESSION_ID = r"[0-9a-f]{12}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""A regular expression for session ids: those created by this program, and UUIDs chosen by the user."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    id: str
    project: str
    """Resolved path of the project's root folder."""
    title: str
    model: str
    mode: str
    created: float
    """Creation time in Unix seconds."""
    updated: float
    messages: int = 0
    """Number of messages. Computed when the row is read, as the last position plus one."""
    parent: str | None = None
    """The session that this one was forked from. None if it is not a fork or that session was deleted."""
    forked: int | None = None
    """Number of messages that a fork shares with its parent."""
    family: str | None = None
    """The root of the fork tree that a fork belongs to."""
    draft: bool = False
    """Whether this is a fork that may be deleted as long as it has no messages of its own."""
    owner: str | None = None
    """For a sub-agent, the session that started it. Deleting that session deletes this one too."""
    agent: str | None = None
    """Name of the sub-agent."""

    @property
    def is_unused(self) -> bool:
        """Whether it is a draft without messages of its own."""
        return self.draft and self.messages <= (self.forked or 0)


SESSION_COLUMNS = (
    "id", "project", "title", "model", "mode", "created", "updated", "parent", "forked", "family", "draft",
    "owner", "agent",
)  # fmt: skip


class MessageRow(NamedTuple):
    position: int
    """Position in the session, from 0 and without gaps."""
    role: str
    body: str
    created: float = 0.0
    ref: str | None = None
    """The message's reference. It is written with the message but not read back with it."""
    is_changed: bool = False
    """Whether the message has been damaged since it was written."""


class FactRow(NamedTuple):
    """A fact about a session that is not part of its messages. Each kind and key has one body."""

    kind: str
    key: str
    body: str


class SnapshotRow(NamedTuple):
    position: int
    """Number of messages that the snapshot covers."""
    body: str


class OutputRow(NamedTuple):
    """One part of an output: its text or an image."""

    number: int
    """Number in the session, from 1, in the order of calls."""
    part: int
    """0 for the text, 1 and up for images."""
    position: int
    """Position of the message that contains it."""
    call: str
    tool: str
    size: int
    """Full size in bytes. The message may show less."""
    lines: int
    media_type: str
    digest: str | None = None
    """Digest of the stored bytes. None if the message contains them itself."""
    created: float = 0.0
    accesses: int = 0
    accessed: float | None = None
    removed: float | None = None
    """Time in Unix seconds at which the bytes were removed because of their age or size. None if they were not
    removed."""


class SummaryRow(NamedTuple):
    """A summary that replaces the messages before a position."""

    number: int
    """Number in the session, from 1."""
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
    """Cost in US dollars; None if the cost of any request is unknown."""


class RewriteRow(NamedTuple):
    """A change to content that had already been sent to the model."""

    position: int
    """Number of messages at that time."""
    reason: str
    strategies: str
    before: int
    after: int
    cost: float | None
    created: float = 0.0
    requests: int = 0
    """Number of requests at that time, including any request for a summary. Computed when the row is written."""


MAX_STORED_VIEWS = 20
"""Maximum number of views stored per session."""


class ViewRow(NamedTuple):
    """A snapshot from just before a rewrite."""

    position: int
    """Number of messages at that time."""
    body: str
    created: float = 0.0
    number: int = 0
    """Number in the session, from 1. Assigned when the row is written."""


def insert_rows(
    db: sqlite3.Connection,
    table: str,
    session: str,
    rows: Sequence[OutputRow | SummaryRow | UsageRow | RewriteRow | ViewRow],
    now: float,
) -> None:
    """Insert rows whose fields have the names of the table's columns. Rows with the same key are replaced."""
    if rows:  # if there is nothing to insert, a damaged or missing table must not cause an error
        columns = rows[0]._fields
        db.executemany(
            f"insert or replace into {table} (session, {', '.join(columns)}) values (?{', ?' * len(columns)})",
            [(session, *row._replace(created=row.created or now)) for row in rows],
        )


def insert_rewrites(db: sqlite3.Connection, session: str, rows: Sequence[RewriteRow], now: float) -> None:
    """Insert rewrites, each with the number of requests that the session has made by then."""
    count_sql = "select count(*) from usage where session = ? and created <= ?"
    for row in rows:
        (requests,) = db.execute(count_sql, (session, row.created or now)).fetchone()
        insert_rows(db, "rewrites", session, [row._replace(requests=requests)], now)


def insert_view(db: sqlite3.Connection, session: str, row: ViewRow, now: float) -> None:
    """Insert a view as the newest, and delete the oldest views above the limit."""
    (number,) = db.execute("select coalesce(max(number), 0) + 1 from views where session = ?", (session,)).fetchone()
    insert_rows(db, "views", session, [row._replace(number=number)], now)
    db.execute("delete from views where session = ? and number <= ?", (session, number - MAX_STORED_VIEWS))


def remove_views(db: sqlite3.Connection, session: str, first_number: int) -> None:
    """Delete a view and all later ones, because the session has gone back to that view."""
    db.execute("delete from views where session = ? and number >= ?", (session, first_number))


def insert_session(db: sqlite3.Connection, row: SessionRow) -> None:
    names, values = ", ".join(SESSION_COLUMNS), [getattr(row, name) for name in SESSION_COLUMNS]
    db.execute(f"insert into sessions ({names}) values ({', '.join('?' * len(values))})", values)
