"""Stores the contents of files before a session changed them: one row per file and turn, and the bytes. Works on
digests and keys, independent of their meaning."""

import json
import sqlite3
from typing import NamedTuple

from ebbtide.store.session_rows import FactRow
from ebbtide.store.sessions import SessionStore

KIND = "change"


class ChangeRow(NamedTuple):
    turn: int
    """Number of messages when the turn began."""
    path: str
    before: str | None
    """Digest of the previous content; empty if there was no file, None if the content was not stored."""
    after: str
    """SHA-256 of the content at the end of the turn; empty if the file was removed."""
    at: float = 0.0
    """Unix seconds."""


def save_change(store: SessionStore, session: str, row: ChangeRow) -> None:
    """Add a row, or replace the one for the same turn and file. Its bytes, which were put for the session, are kept as
    long as the row."""
    body = json.dumps({"before": row.before, "after": row.after, "at": row.at})
    with store.transaction() as db:
        db.execute(
            "insert or replace into situation (session, kind, key, body) values (?, ?, ?, ?)",
            (session, KIND, json.dumps([row.turn, row.path]), body),
        )
        if row.before and store.blobs is not None:
            store.blobs.settle(row.before, session)


def changes(store: SessionStore, session: str) -> tuple[ChangeRow, ...]:
    """Return the changes in turn order; unreadable rows are skipped."""
    found = []
    for fact in store.facts(session, KIND):
        try:
            (turn, path), body = json.loads(fact.key), json.loads(fact.body)
            row = ChangeRow(int(turn), str(path), body["before"], str(body["after"]), float(body["at"]))
        except (ValueError, KeyError, TypeError):
            continue
        found.append(row)
    return tuple(sorted(found, key=lambda row: row.turn))


def facts_before(store: SessionStore, session: str, position: int) -> tuple[FactRow, ...]:
    """Return the rows of turns that began before a position, for a fork. Shared bytes are kept as long as one session
    needs them."""
    return tuple(fact for fact in store.facts(session, KIND) if _turn_of(fact) < position)


def _turn_of(fact: FactRow) -> int:
    try:
        return int(json.loads(fact.key)[0])
    except (ValueError, TypeError, LookupError):
        return 1 << 62


def version_digests(db: sqlite3.Connection) -> set[str]:
    """Return the digests needed by the rows of all sessions."""
    rows = db.execute(
        "select json_extract(body, '$.before') from situation where kind = ? and json_valid(body)", (KIND,)
    )
    return {str(row[0]) for row in rows if row[0]}
