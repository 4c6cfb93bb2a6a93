"""What was in files before a session changed them: a row for each file and turn, and the bytes. It knows digests and
keys, not what they mean."""

import json
import sqlite3
from typing import NamedTuple

from ebbtide.store.session_rows import FactRow
from ebbtide.store.sessions import SessionStore

KIND = "change"


class ChangeRow(NamedTuple):
    turn: int
    """How many messages the session had when the turn began."""
    path: str
    before: str | None
    """The digest of what was in the file; empty when there was no file, None when that was not kept."""
    after: str
    """The SHA-256 of what was put into it last in the turn; empty when it was removed."""
    at: float = 0.0
    """Unix seconds."""


def save_change(store: SessionStore, session: str, row: ChangeRow) -> None:
    """Adds the row, or puts it in the place of the one of that turn and file. Its bytes, which were put for the
    session, stay as long as it."""
    body = json.dumps({"before": row.before, "after": row.after, "at": row.at})
    with store.transaction() as db:
        db.execute(
            "insert or replace into situation (session, kind, key, body) values (?, ?, ?, ?)",
            (session, KIND, json.dumps([row.turn, row.path]), body),
        )
        if row.before and store.blobs is not None:
            store.blobs.settle(row.before, session)


def changes(store: SessionStore, session: str) -> tuple[ChangeRow, ...]:
    """In the order of turns. What cannot be read is left out."""
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
    """The rows of turns that began before a position, as another session can have them: bytes that both need stay as
    long as one of them does."""
    return tuple(fact for fact in store.facts(session, KIND) if _turn_of(fact) < position)


def _turn_of(fact: FactRow) -> int:
    try:
        return int(json.loads(fact.key)[0])
    except (ValueError, TypeError, LookupError):
        return 1 << 62


def version_digests(db: sqlite3.Connection) -> set[str]:
    """The digests that rows of any session need."""
    rows = db.execute(
        "select json_extract(body, '$.before') from situation where kind = ? and json_valid(body)", (KIND,)
    )
    return {str(row[0]) for row in rows if row[0]}
