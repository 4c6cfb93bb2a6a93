"""Sessions that were forked from others. The store copies rows and knows whose they were, not what they mean."""

from collections.abc import Sequence

from ebbtide.store.session_rows import FactRow, SessionRow, SnapshotRow, insert_session
from ebbtide.store.sessions import IS_LISTED, SessionStore

_COPIED_COLUMNS = {
    "messages": "position, role, body, created, ref, digest",
    "outputs": "number, part, position, call, tool, size, lines, media_type, digest, created, accesses, accessed, "
    "removed",
}
"""Columns of what a fork has in common with its parent before the position where it begins."""
_COPIED_COLUMNS_UP_TO = {"summaries": "number, position, body, created", "views": "number, position, body, created"}
"""The same of what was written when the session had no more messages than that."""


class Forks:
    """Forks sessions, and finds what was forked. Raises `StoreError`; to be called in the thread of the session
    store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def fork(self, row: SessionRow, snapshot: SnapshotRow | None, facts: Sequence[FactRow]) -> None:
        """Adds a session with the first `row.forked` messages of `row.parent`, their outputs under the same numbers,
        and the summaries and views of that time. Bytes that are kept apart are shared."""
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
        """The drafts in which nothing was said."""
        return tuple(
            str(id) for (id,) in self._store.query(f"select s.id from sessions s where s.draft and not {IS_LISTED}")
        )

    def ancestry(self, session: str) -> dict[str, int]:
        """The ids of a session and of those that it was forked from, each with how many of its messages are in it; a
        position below is in all of them."""
        found, id, most = {}, session, 1 << 62
        while id and id not in found:
            found[id] = most
            row = self._store.session(id)
            id, most = (row.parent or "", min(most, row.forked or 0)) if row is not None else ("", 0)
        return found

    def family(self, session: str) -> tuple[str, ...]:
        """The ids of a session and of all that were forked from each other with it, the oldest first."""
        rows = self._store.query(
            "select id from sessions where id = ?1 or id = (select family from sessions where id = ?1) "
            "or family = coalesce((select family from sessions where id = ?1), ?1) order by created, rowid",
            session,
        )
        return tuple(str(id) for (id,) in rows)

    def holding(self, session: str, role: str, text: str, start: int = 0) -> tuple[tuple[int, str, float], ...]:
        """Position, body and time of the messages of a role from a position on whose body holds a text, in order."""
        rows = self._store.query(
            "select position, body, created from messages "
            "where session = ? and role = ? and position >= ? and instr(body, ?) order by position",
            session,
            role,
            start,
            text,
        )
        return tuple((int(position), str(body), float(created)) for position, body, created in rows)
