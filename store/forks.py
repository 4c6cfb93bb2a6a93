"""Creates forks of sessions by copying their rows without interpreting them."""

from collections.abc import Sequence

from ebbtide.store.session_rows import FactRow, SessionRow, SnapshotRow, insert_session
from ebbtide.store.sessions import IS_LISTED_SQL, SessionStore

_COPIED_COLUMNS = {
    "messages": "position, role, body, created, ref, digest",
    "outputs": "number, part, position, call, tool, size, lines, media_type, digest, created, accesses, accessed, "
    "removed",
}
"""Columns copied to a fork from rows before the fork point, by table."""
_COPIED_COLUMNS_UP_TO = {"summaries": "number, position, body, created", "views": "number, position, body, created"}
"""Columns copied to a fork from rows up to and including the fork point, by table."""

_COPY_ACCESSES_SQL = (
    "insert into accesses (session, ref, count, last) select ?1, ref, count, last from accesses "
    "where session = ?2 and ((ref glob 'm[0-9]*' and cast(substr(ref, 2) as integer) < ?3) or "
    "(ref glob 'r[0-9]*' and cast(substr(ref, 2) as integer) in (select number from outputs where session = ?1)) or "
    "(ref glob 'sum-[0-9]*' and cast(substr(ref, 5) as integer) in (select number from summaries where session = ?1)))"
)
"""Copies how often messages, outputs and summaries that the fork has were looked up; see `search.access_key`."""


class ForkStore:
    """Creates and finds forks. Raises `StoreError`; call it in the thread of the session store."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def fork(self, row: SessionRow, snapshot: SnapshotRow | None, facts: Sequence[FactRow]) -> None:
        """Add a session that starts with the first `row.forked` messages of `row.parent`. Outputs keep their numbers,
        and summaries, views and counts of lookups are copied up to that point. The stored bytes are shared with the
        parent."""
        with self._store.transaction() as db:
            insert_session(db, row)
            for comparison, tables in (("<", _COPIED_COLUMNS), ("<=", _COPIED_COLUMNS_UP_TO)):
                for table, columns in tables.items():
                    db.execute(
                        f"insert into {table} (session, {columns}) select ?, {columns} from {table} "
                        f"where session = ? and position {comparison} ?",
                        (row.id, row.parent, row.forked),
                    )
            db.execute(_COPY_ACCESSES_SQL, (row.id, row.parent, row.forked))
            if snapshot is not None:
                db.execute(
                    "insert into snapshots (session, position, body, created) values (?, ?, ?, ?)",
                    (row.id, snapshot.position, snapshot.body, row.created),
                )
            db.executemany(
                "insert into situation (session, kind, key, body) values (?, ?, ?, ?)",
                [(row.id, fact.kind, fact.key, fact.body) for fact in facts],
            )

    def unused_drafts(self) -> tuple[str, ...]:
        return tuple(
            str(session_id)
            for (session_id,) in self._store.query(f"select s.id from sessions s where s.draft and not {IS_LISTED_SQL}")
        )

    def ancestry(self, session: str) -> dict[str, int]:
        """Get the ids of a session and its ancestors, each with the number of messages it shares with the session."""
        shared_counts, ancestor_id, shared_count = {}, session, 1 << 62
        while ancestor_id and ancestor_id not in shared_counts:
            shared_counts[ancestor_id] = shared_count
            row = self._store.session(ancestor_id)
            ancestor_id, shared_count = (
                (row.parent or "", min(shared_count, row.forked or 0)) if row is not None else ("", 0)
            )
        return shared_counts

    def family(self, session: str) -> tuple[str, ...]:
        """Get the ids of a session and of all sessions related to it by forks, oldest first."""
        rows = self._store.query(
            "select id from sessions where id = ?1 or id = (select family from sessions where id = ?1) "
            "or family = coalesce((select family from sessions where id = ?1), ?1) order by created, rowid",
            session,
        )
        return tuple(str(session_id) for (session_id,) in rows)

    def messages_containing(
        self, session: str, role: str, text: str, start: int = 0
    ) -> tuple[tuple[int, str, float], ...]:
        """Find messages of a role, from position `start` on, whose body contains `text`. Returns their positions,
        bodies and times, in order."""
        rows = self._store.query(
            "select position, body, created from messages "
            "where session = ? and role = ? and position >= ? and instr(body, ?) order by position",
            session,
            role,
            start,
            text,
        )
        return tuple((int(position), str(body), float(created)) for position, body, created in rows)
