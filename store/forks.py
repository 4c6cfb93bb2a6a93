"""Forks of sessions. Copies rows, independent of their meaning."""

from collections.abc import Sequence

from ebbtide.store.session_rows import FactRow, SessionRow, SnapshotRow, insert_session
from ebbtide.store.sessions import IS_LISTED, SessionStore

_COPIED_COLUMNS = {
    "messages": "position, role, body, created, ref, digest",
    "outputs": "number, part, position, call, tool, size, lines, media_type, digest, created, accesses, accessed, "
    "removed",
}
"""Columns of the rows that a fork copies from before its position."""
_COPIED_COLUMNS_UP_TO = {"summaries": "number, position, body, created", "views": "number, position, body, created"}
"""Columns of the rows that a fork copies up to and including its position."""


class Forks:
    """Creates and finds forks. Raises `StoreError`; call it in the thread of the session store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def fork(self, row: SessionRow, snapshot: SnapshotRow | None, facts: Sequence[FactRow]) -> None:
        """Add a session with the first `row.forked` messages of `row.parent`, their outputs with the same numbers, and
        its summaries and views up to there. Stored bytes are shared."""
        with self._store.transaction() as db:
            insert_session(db, row)
            for bound, tables in (("<", _COPIED_COLUMNS), ("<=", _COPIED_COLUMNS_UP_TO)):
                for table, columns in tables.items():
                    db.execute(
                        f"insert into {table} (session, {columns}) select ?, {columns} from {table} "
                        f"where session = ? and position {bound} ?",
                        (row.id, row.parent, row.forked),
                    )
            if snapshot is not None:
                db.execute(
                    "insert into snapshots (session, position, body, created) values (?, ?, ?, ?)",
                    (row.id, snapshot.position, snapshot.body, row.created),
                )
            db.executemany(
                "insert into situation (session, kind, key, body) values (?, ?, ?, ?)",
                [(row.id, fact.kind, fact.key, fact.body) for fact in facts],
            )

    def drafts(self) -> tuple[str, ...]:
        """Return the unused drafts."""
        return tuple(
            str(id) for (id,) in self._store.query(f"select s.id from sessions s where s.draft and not {IS_LISTED}")
        )

    def ancestry(self, session: str) -> dict[str, int]:
        """Return a session and its ancestors, each with the number of its messages that the session contains: lower
        positions exist in all of them."""
        found, id, most = {}, session, 1 << 62
        while id and id not in found:
            found[id] = most
            row = self._store.session(id)
            id, most = (row.parent or "", min(most, row.forked or 0)) if row is not None else ("", 0)
        return found

    def family(self, session: str) -> tuple[str, ...]:
        """Return a session and all its relatives by forking, oldest first."""
        rows = self._store.query(
            "select id from sessions where id = ?1 or id = (select family from sessions where id = ?1) "
            "or family = coalesce((select family from sessions where id = ?1), ?1) order by created, rowid",
            session,
        )
        return tuple(str(id) for (id,) in rows)

    def holding(self, session: str, role: str, text: str, start: int = 0) -> tuple[tuple[int, str, float], ...]:
        """Return position, body and time of the messages of a role, from a position on, whose body contains a text, in
        order."""
        rows = self._store.query(
            "select position, body, created from messages "
            "where session = ? and role = ? and position >= ? and instr(body, ?) order by position",
            session,
            role,
            start,
            text,
        )
        return tuple((int(position), str(body), float(created)) for position, body, created in rows)
