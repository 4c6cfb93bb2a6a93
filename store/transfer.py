"""Exports all rows of a session from one database and imports them into another. It checks column types but does not
interpret the rows."""

import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeGuard

from ebbtide.store.blobs import BlobStore
from ebbtide.store.connection import message_digest
from ebbtide.store.session_rows import SessionRow, insert_session
from ebbtide.store.sessions import SessionStore

Cell: TypeAlias = str | int | float | None
TransferRow: TypeAlias = Mapping[str, Cell]
"""A row without its session id: values by column name."""

ColumnKind: TypeAlias = Literal["text", "integer", "real", "text or null", "real or null"]

MESSAGES_TABLE = "messages"
COLUMNS: Mapping[str, Mapping[str, ColumnKind]] = {
    MESSAGES_TABLE: {"position": "integer", "role": "text", "body": "text", "created": "real", "ref": "text or null"},
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
"""The columns of each table that are exported. The search index is left out because it can be rebuilt."""

KEY_COLUMNS: Mapping[str, tuple[str, ...]] = {
    MESSAGES_TABLE: ("position",),
    "snapshots": (),
    "situation": ("kind", "key"),
    "outputs": ("number", "part"),
    "summaries": ("number",),
    "accesses": ("ref",),
    "views": ("number",),
}
"""The columns that identify a row within a session, by table."""

MESSAGES_PER_PAGE = 200
"""Maximum number of messages in memory at a time."""
_INTEGER_LIMIT = 1 << 63
_MAX_REAL = 250e9
"""Maximum for times in Unix seconds, and for other real numbers such as prices."""


@dataclass(frozen=True, slots=True)
class SessionRows:
    """All rows of a session, read at one moment."""

    session: SessionRow
    tables: Mapping[str, Sequence[TransferRow]]
    """Rows by table. Messages are not included, because they may be too large for memory."""


def is_valid_row(row: object, table: str) -> TypeGuard[TransferRow]:
    """Whether a value is a valid row of the table."""
    columns = COLUMNS[table]
    return (
        isinstance(row, dict)
        and row.keys() == columns.keys()
        and all(_is_valid_cell(columns[name], row[name]) for name in row)
    )


def _is_valid_cell(kind: ColumnKind, value: object) -> bool:
    if value is None:
        return kind.endswith("null")
    if isinstance(value, str):
        return kind.startswith("text") and _is_encodable(value)
    if isinstance(value, bool):
        return False
    if kind.startswith("real"):
        return is_valid_time(value)
    return isinstance(value, int) and kind == "integer" and 0 <= value < _INTEGER_LIMIT


def is_valid_time(value: object) -> bool:
    """Whether a value is a valid time in Unix seconds. Also used for other real numbers such as prices."""
    return isinstance(value, int | float) and 0 <= value <= _MAX_REAL


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

    def read_session(self, session: str) -> SessionRows | None:
        """Read a session; None if it does not exist."""
        with self._store.transaction() as db:  # a transaction gives a consistent view of all tables
            row = self._store.session(session)
            if row is None:
                return None
            return SessionRows(
                row, {table: _read_rows(db, table, session) for table in COLUMNS if table != MESSAGES_TABLE}
            )

    def messages(self, session: str, count: int) -> Iterator[TransferRow]:
        """Yield the first `count` messages of a session, reading them page by page."""
        column_names = ", ".join(COLUMNS[MESSAGES_TABLE])
        for start in range(0, count, MESSAGES_PER_PAGE):
            rows = self._store.query(
                f"select {column_names} from messages where session = ? and position >= ? and position < ? "
                "order by position",
                session,
                start,
                min(start + MESSAGES_PER_PAGE, count),
            )
            for row in rows:
                yield dict(zip(COLUMNS[MESSAGES_TABLE], row, strict=True))

    def unused_id(self) -> str:
        """Create a session id that is not in use."""
        while self._store.session(session_id := secrets.token_hex(6)) is not None:
            pass
        return session_id

    def sessions_with_fact(self, kind: str, key: str) -> tuple[str, ...]:
        """Find the ids of sessions that have a fact of this kind and key."""
        return tuple(
            str(session_id)
            for (session_id,) in self._store.query(
                "select session from situation where kind = ? and key = ?", kind, key
            )
        )

    def facts_of_kind(self, kind: str) -> tuple[tuple[str, str, str], ...]:
        """Get all sessions' facts of one kind, each as session id, key and body."""
        rows = self._store.query("select session, key, body from situation where kind = ?", kind)
        return tuple((str(session), str(key), str(body)) for session, key, body in rows)

    def write_session(
        self,
        session: SessionRow,
        messages: Iterable[TransferRow],
        tables: Mapping[str, Iterable[TransferRow]],
        *,
        should_replace: bool = False,
    ) -> None:
        """Add a new session in one transaction, replacing a session with the same id if `should_replace`. Blobs that
        were put for the session become permanent if outputs use them. The iterables are consumed as rows are written:
        messages first, then the tables in order. If one raises an exception, nothing is written and the exception
        propagates."""
        with self._store.transaction() as db:
            if should_replace:
                db.execute("delete from sessions where id = ?", (session.id,))
            insert_session(db, session)
            _insert_rows(
                db, MESSAGES_TABLE, session.id, map(_with_digest, messages), (*COLUMNS[MESSAGES_TABLE], "digest")
            )
            for table, rows in tables.items():
                _insert_rows(db, table, session.id, rows, tuple(COLUMNS[table]))
            if self._store.blobs is not None:
                _settle_blobs(db, self._store.blobs, session.id)


def _read_rows(db: sqlite3.Connection, table: str, session: str) -> tuple[TransferRow, ...]:
    column_names = ", ".join(COLUMNS[table])
    order = ", ".join(KEY_COLUMNS.get(table, ("id",))) or "session"
    rows = db.execute(f"select {column_names} from {table} where session = ? order by {order}", (session,))
    return tuple(dict(zip(COLUMNS[table], row, strict=True)) for row in rows)


def _with_digest(message: TransferRow) -> TransferRow:
    return {**message, "digest": message_digest(str(message["role"]), str(message["body"]))}


def _insert_rows(
    db: sqlite3.Connection, table: str, session: str, rows: Iterable[TransferRow], columns: Sequence[str]
) -> None:
    placeholders = ", ".join("?" * (len(columns) + 1))
    db.executemany(
        f"insert into {table} (session, {', '.join(columns)}) values ({placeholders})",
        ((session, *(row[name] for name in columns)) for row in rows),
    )


def _settle_blobs(db: sqlite3.Connection, blobs: BlobStore, session: str) -> None:
    sql = "select distinct digest from outputs where session = ? and digest is not null"
    for (digest,) in db.execute(sql, (session,)):
        blobs.commit(digest, session)
