"""Stores the content that files had before a session changed them: one row per file and turn, plus the bytes. It does
not interpret them."""

import json
import sqlite3
from typing import NamedTuple

from ebbtide.store.session_rows import FactRow
from ebbtide.store.sessions import SessionStore

CHANGE_FACT = "change"


class ChangeRow(NamedTuple):
    turn: int
    """Number of messages at the start of the turn."""
    path: str
    old_digest: str | None
    """Digest of the previous content; empty if the file did not exist, None if the content was not stored."""
    new_digest: str
    """SHA-256 of the content at the end of the turn; empty if the file was removed."""
    changed_at: float = 0.0
    """Time in Unix seconds."""


def save_change(store: SessionStore, session: str, row: ChangeRow) -> None:
    """Add a row, or replace the one for the same turn and file. The previous content must already have been put for the
    session. It is kept as long as the row exists."""
    body = json.dumps({"before": row.old_digest, "after": row.new_digest, "at": row.changed_at})
    with store.transaction() as db:
        db.execute(
            "insert or replace into situation (session, kind, key, body) values (?, ?, ?, ?)",
            (session, CHANGE_FACT, json.dumps([row.turn, row.path]), body),
        )
        if row.old_digest and store.blobs is not None:
            store.blobs.commit(row.old_digest, session)


def file_changes(store: SessionStore, session: str) -> tuple[ChangeRow, ...]:
    """Get the changes in turn order. Unreadable rows are skipped."""
    rows = []
    for fact in store.facts(session, CHANGE_FACT):
        try:
            (turn, path), body = json.loads(fact.key), json.loads(fact.body)
            row = ChangeRow(int(turn), str(path), body["before"], str(body["after"]), float(body["at"]))
        except (ValueError, KeyError, TypeError):
            continue
        rows.append(row)
    return tuple(sorted(rows, key=lambda row: row.turn))


def change_facts_before(store: SessionStore, session: str, position: int) -> tuple[FactRow, ...]:
    """Get the change rows of turns that began before a position, for copying to a fork. The stored bytes are shared and
    remain as long as any session needs them."""
    return tuple(fact for fact in store.facts(session, CHANGE_FACT) if _turn_of(fact) < position)


def _turn_of(fact: FactRow) -> int:
    try:
        return int(json.loads(fact.key)[0])
    except (ValueError, TypeError, LookupError):
        return 1 << 62


def version_digests(db: sqlite3.Connection) -> set[str]:
    """Get the digests that any session's rows need."""
    rows = db.execute(
        "select json_extract(body, '$.before') from situation where kind = ? and json_valid(body)", (CHANGE_FACT,)
    )
    return {str(row[0]) for row in rows if row[0]}
