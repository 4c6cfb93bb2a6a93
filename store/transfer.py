"""All rows of a session, out of one database and into another. It knows columns and their types, not what rows mean."""

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
"""A row by the names of its columns, without the session's id."""

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
"""What is kept of a session. What a search finds is made of it again."""

KEYS: Mapping[str, tuple[str, ...]] = {
    MESSAGES: ("position",),
    "snapshots": (),
    "situation": ("kind", "key"),
    "outputs": ("number", "part"),
    "summaries": ("number",),
    "accesses": ("ref",),
    "views": ("number",),
}
"""The columns that tell the rows of a session apart, where something does."""

PAGE = 200
"""Messages that are held at once."""
_INTEGER_LIMIT = 1 << 63
_LATEST = 250e9
"""Unix seconds of a time that no calendar goes far beyond. Prices are smaller, too."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A session as it was at one moment."""

    session: SessionRow
    tables: Mapping[str, Sequence[TransferRow]]
    """All but the messages, of which there may be too many to be held."""


def is_row_of(table: str, row: object) -> bool:
    """Whether a value is a row that the table takes."""
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
    """Whether a value is a moment in Unix seconds, or as plain a number as one."""
    return isinstance(value, int | float) and 0 <= value <= _LATEST


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class TransferStore:
    """Reads sessions whole and writes them whole. Raises `StoreError`; to be called in the thread of the store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def read(self, session: str) -> Rows | None:
        """None when there is no such session."""
        with self._store.transaction() as db:  # nothing is written between two tables
            row = self._store.session(session)
            if row is None:
                return None
            return Rows(row, {table: _read(db, table, session) for table in COLUMNS if table != MESSAGES})

    def messages(self, session: str, count: int) -> Iterator[TransferRow]:
        """The first messages of a session, a few at a time from the database."""
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
        """The ids of the sessions in which a fact of that kind and key holds."""
        return tuple(
            str(id)
            for (id,) in self._store.query("select session from situation where kind = ? and key = ?", kind, key)
        )

    def facts_of(self, kind: str) -> tuple[tuple[str, str, str], ...]:
        """The facts of a kind in all sessions: the session's id, key and body."""
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
        """Adds a session that is not there yet, or puts it in the place of the one with its id (`replaces`), all of it
        or nothing. What was put for it and an output needs is settled. The rows of `tables` are asked for when all
        messages are written. Errors of both pass through."""
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
    if table == MESSAGES:  # a digest is of what is written here
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
