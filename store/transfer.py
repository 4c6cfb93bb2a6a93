"""Exports all rows of a session from a database and imports them into another. Knows columns and their types, not the
meaning of rows."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ebbtide.store.blobs import Blobs
from ebbtide.store.digests import message_digest
from ebbtide.store.session_rows import SessionRow, insert_session
from ebbtide.store.sessions import SessionStore

Cell: TypeAlias = str | int | float | None
TransferRow: TypeAlias = Mapping[str, Cell]
"""A row by column name, without the session id."""

ColumnKind: TypeAlias = Literal["text", "integer", "real", "text or null", "real or null"]

MESSAGES = "messages"
COLUMNS: Mapping[str, Mapping[str, ColumnKind]] = {
    MESSAGES: {"position": "integer", "role": "text", "body": "text", "created": "real", "ref": "text or null"},
    "usage": {
        "model": "text",
        "purpose": "text",
        "input": "integer",
        "cache_read": "integer",
        "cache_write": "integer",
        "output": "integer",
        "cost": "real or null",
        "created": "real",
    },
    "rewrites": {
        "position": "integer",
        "requests": "integer",
        "reason": "text",
        "strategies": "text",
        "before": "integer",
        "after": "integer",
        "cost": "real or null",
        "created": "real",
    },
    "snapshots": {"position": "integer", "body": "text", "created": "real"},
    "situation": {"kind": "text", "key": "text", "body": "text"},
    "outputs": {
        "number": "integer",
        "part": "integer",
        "position": "integer",
        "call": "text",
        "tool": "text",
        "size": "integer",
        "lines": "integer",
        "media_type": "text",
        "digest": "text or null",
        "created": "real",
        "accesses": "integer",
        "accessed": "real or null",
        "removed": "real or null",
    },
    "summaries": {"number": "integer", "position": "integer", "body": "text", "created": "real"},
    "accesses": {"ref": "text", "count": "integer", "last": "real"},
    "views": {"number": "integer", "position": "integer", "body": "text", "created": "real"},
}
"""The exported columns of each table. The search index is rebuilt."""

KEYS: Mapping[str, tuple[str, ...]] = {
    MESSAGES: ("position",),
    "snapshots": (),
    "situation": ("kind", "key"),
    "outputs": ("number", "part"),
    "summaries": ("number",),
    "accesses": ("ref",),
    "views": ("number",),
}
"""The columns that identify a row within a session, if any."""

PAGE = 200
"""Messages in memory at a time."""
_INTEGER_LIMIT = 1 << 63
_LATEST = 250e9
"""Upper limit for times in Unix seconds, and for other numbers such as prices."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A session at one moment."""

    session: SessionRow
    tables: Mapping[str, Sequence[TransferRow]]
    """All tables except messages, which may be too large for memory."""


def is_row_of(table: str, row: object) -> bool:
    """Whether a value is a valid row of the table."""
    columns = COLUMNS[table]
    return (
        isinstance(row, dict) and row.keys() == columns.keys() and all(_fits(columns[name], row[name]) for name in row)
    )


def _fits(kind: ColumnKind, value: object) -> bool:
    if value is None:
        return kind.endswith("null")
    if isinstance(value, str):
        return kind.startswith("text") and _is_encodable(value)
    if isinstance(value, bool):
        return False
    if kind.startswith("real"):
        return is_time(value)
    return isinstance(value, int) and kind == "integer" and 0 <= value < _INTEGER_LIMIT


def is_time(value: object) -> bool:
    """Whether a value is a valid time in Unix seconds, or another number in that range."""
    return isinstance(value, int | float) and 0 <= value <= _LATEST


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class TransferStore:
    """Reads and writes whole sessions. Raises `StoreError`; call it in the thread of the store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def read(self, session: str) -> Rows | None:
        """Read a session; None if it does not exist."""
        with self._store.transaction() as db:  # a consistent view of all tables
            row = self._store.session(session)
            if row is None:
                return None
            return Rows(row, {table: _read(db, table, session) for table in COLUMNS if table != MESSAGES})

    def messages(self, session: str, count: int) -> Iterator[TransferRow]:
        """Yield the first `count` messages of a session, read page by page."""
        names = ", ".join(COLUMNS[MESSAGES])
        for start in range(0, count, PAGE):
            found = self._store.query(
                f"select {names} from messages where session = ? and position >= ? and position < ? order by position",
                session,
                start,
                min(start + PAGE, count),
            )
            for row in found:
                yield dict(zip(COLUMNS[MESSAGES], row, strict=True))

    def sessions_with(self, kind: str, key: str) -> tuple[str, ...]:
        """Return the ids of the sessions with a fact of this kind and key."""
        return tuple(
            str(id)
            for (id,) in self._store.query("select session from situation where kind = ? and key = ?", kind, key)
        )

    def facts_of(self, kind: str) -> tuple[tuple[str, str, str], ...]:
        """Return the facts of a kind in all sessions, as session id, key and body."""
        rows = self._store.query("select session, key, body from situation where kind = ?", kind)
        return tuple((str(session), str(key), str(body)) for session, key, body in rows)

    def write(
        self,
        session: SessionRow,
        messages: Iterable[TransferRow],
        tables: Mapping[str, Iterable[TransferRow]],
        *,
        replaces: bool = False,
    ) -> None:
        """Add a new session, or with `replaces` replace the one with the same id, in one transaction. Blobs put for it
        and used by outputs are settled. The rows of `tables` are evaluated after all messages are written. Exceptions
        from the iterables propagate."""
        with self._store.transaction() as db:
            if replaces:
                db.execute("delete from sessions where id = ?", (session.id,))
            insert_session(db, session)
            _insert(db, MESSAGES, session.id, messages)
            for table, rows in tables.items():
                _insert(db, table, session.id, rows)
            if self._store.blobs is not None:
                _settle(self._store.blobs, session.id, tables.get("outputs", ()))


def _read(db: sqlite3.Connection, table: str, session: str) -> tuple[TransferRow, ...]:
    names = ", ".join(COLUMNS[table])
    order = ", ".join(KEYS.get(table, ("id",))) or "session"
    rows = db.execute(f"select {names} from {table} where session = ? order by {order}", (session,))
    return tuple(dict(zip(COLUMNS[table], row, strict=True)) for row in rows)


def _insert(db: sqlite3.Connection, table: str, session: str, rows: Iterable[TransferRow]) -> None:
    names = COLUMNS[table]
    if table == MESSAGES:  # the digest is computed from the written row
        marks = ", ".join("?" * (len(names) + 2))
        db.executemany(
            f"insert into {table} (session, {', '.join(names)}, digest) values ({marks})",
            (
                (session, *(row[name] for name in names), message_digest(str(row["role"]), str(row["body"])))
                for row in rows
            ),
        )
        return
    marks = ", ".join("?" * (len(names) + 1))
    db.executemany(
        f"insert into {table} (session, {', '.join(names)}) values ({marks})",
        ((session, *(row[name] for name in names)) for row in rows),
    )


def _settle(blobs: Blobs, session: str, outputs: Iterable[TransferRow]) -> None:
    for digest in {row["digest"] for row in outputs}:
        if isinstance(digest, str):
            blobs.settle(digest, session)
