"""Stores sessions in a database, as rows and text. It does not interpret their content."""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ebbtide.store.blobs import BlobStore
from ebbtide.store.connection import (
    back_up,
    ensure_database_file,
    matches_digest,
    open_connection,
    open_copy,
    open_read_only,
)
from ebbtide.store.errors import StoreError, is_disk_full, translate_sqlite_errors
from ebbtide.store.migrations import MIGRATIONS
from ebbtide.store.open_databases import opening_lock
from ebbtide.store.session_rows import (
    FactRow,
    MessageRow,
    OutputRow,
    RewriteRow,
    SessionRow,
    SnapshotRow,
    SummaryRow,
    UsageRow,
    UsageTotal,
    ViewRow,
    insert_rewrites,
    insert_rows,
    insert_session,
    insert_view,
    remove_views,
)
from ebbtide.store.write_ahead import enable_wal, sync_log

IS_LISTED_SQL = """exists (
    select 1 from messages where session = s.id and position >= case when s.draft then coalesce(s.forked, 0) else 0 end
)"""
"""SQL condition for a session `s` to be listed: it has messages and is not an unused draft."""


def _message_rows(rows: Iterable[tuple[Any, ...]]) -> tuple[MessageRow, ...]:
    return tuple(
        MessageRow(position, role, body, created, is_changed=not matches_digest(role, body, digest))
        for position, role, body, created, digest in rows
    )


def _reparent_forks(db: sqlite3.Connection, session: str) -> None:
    """Attach a session's forks to its parent before the session is deleted."""
    (parent, forked) = db.execute("select parent, forked from sessions where id = ?", (session,)).fetchone() or (0, 0)
    if parent:
        db.execute(
            "update sessions set parent = ?, forked = min(coalesce(forked, 0), ?) where parent = ?",
            (parent, forked or 0, session),
        )


class SessionStore:
    """The session database. Any method may raise `StoreError`. Call methods only from the thread that opened the
    database.

    Commits made during a turn survive if the process is killed. After `end_turn`, they also survive a power failure.
    """

    def __init__(self, path: Path | str, *, blobs: BlobStore | None = None, busy_timeout: float = 5.0) -> None:
        """Open the database, creating it if necessary; `:memory:` creates it in memory. `blobs`: where large content is
        stored. `busy_timeout`: how long to wait for other processes' transactions, in seconds."""
        self.path = path
        self.blobs = blobs
        self.is_read_only = False
        """Whether neither the database nor the files next to it can be written."""
        self.read_only_reason = "it is read-only"
        self._is_temporary_copy = False
        self._busy_timeout_ms = round(busy_timeout * 1000)
        self.notice: str = ""
        """A message for the user about what happened while opening the database."""
        self._db = self._open_connection(busy_timeout)
        try:
            with translate_sqlite_errors(path):
                self._set_up()
        except BaseException as error:
            self._db.close()
            if not is_disk_full(error):
                raise
            self.is_read_only, self.read_only_reason = True, "the disk is full"
            self._db = open_read_only(Path(path), busy_timeout)
            with translate_sqlite_errors(path):
                self._set_up()

    def _open_connection(self, busy_timeout: float) -> sqlite3.Connection:
        with opening_lock:
            self.is_read_only = isinstance(self.path, Path) and not ensure_database_file(self.path)
            if isinstance(self.path, Path) and self.is_read_only:
                return open_read_only(self.path, busy_timeout)
            with translate_sqlite_errors(self.path):
                return open_connection(self.path, busy_timeout)

    def _set_up(self) -> None:
        version: int = self._db.execute("pragma user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            raise StoreError(
                "newer", f"the session database `{self.path}` was created by a newer version; update this program"
            )
        if not self.is_read_only:
            enable_wal(self._db, self._busy_timeout_ms / 1000)
        self._db.execute("pragma foreign_keys = on")
        if version < len(MIGRATIONS):
            if version and isinstance(self.path, Path) and not self.is_read_only:
                self.notice = back_up(self._db, self.path, version)
            self._migrate()
        if self.is_read_only:
            self._db.execute("pragma query_only = on")

    def _migrate(self) -> None:
        with self.transaction():
            version: int = self._db.execute("pragma user_version").fetchone()[0]
            for migrate in MIGRATIONS[version:]:
                migrate(self._db)
            self._db.execute(f"pragma user_version = {len(MIGRATIONS)}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a write transaction. Only one process at a time can have one."""
        # Use BEGIN IMMEDIATE: a deferred transaction that begins to write while another process is writing fails
        # without waiting.
        begin_sql = "begin" if self.is_read_only else "begin immediate"
        with translate_sqlite_errors(self.path):
            self._db.execute(begin_sql)
            try:
                yield self._db
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise

    def create(self, row: SessionRow) -> None:
        with self.transaction():
            insert_session(self._db, row)

    def write(
        self,
        session: str,
        messages: Iterable[MessageRow] = (),
        usage: Sequence[UsageRow] = (),
        snapshot: SnapshotRow | None = None,
        facts: Sequence[FactRow] = (),
        deleted_facts: Sequence[tuple[str, str]] = (),
        rewrites: Sequence[RewriteRow] = (),
        outputs: Sequence[OutputRow] = (),
        summaries: Sequence[SummaryRow] = (),
        previous_view: ViewRow | None = None,
        restored_view: int = 0,
    ) -> None:
        """Write everything in one transaction. `deleted_facts`: kinds and keys of the facts to delete. `previous_view`:
        the view that the snapshot replaces. `restored_view`: the number of the view that the snapshot restores. Blobs
        that were put for the session become permanent if outputs use them."""
        now = time.time()
        with self.transaction():
            self._db.executemany(
                "insert into messages (session, position, role, body, created, ref, digest) "
                "values (?1, ?2, ?3, ?4, ?5, ?6, message_digest(?3, ?4))",
                [(session, row.position, row.role, row.body, row.created or now, row.ref) for row in messages],
            )
            insert_rows(self._db, "usage", session, usage, now)
            if snapshot is not None:
                self._db.execute(
                    "insert or replace into snapshots (session, position, body, created) values (?, ?, ?, ?)",
                    (session, snapshot.position, snapshot.body, now),
                )
            # Skip empty lists, so that a damaged or missing table causes no error unless it is needed.
            if deleted_facts:
                self._db.executemany(
                    "delete from situation where session = ? and kind = ? and key = ?",
                    [(session, kind, key) for kind, key in deleted_facts],
                )
            if facts:
                self._db.executemany(
                    "insert or replace into situation (session, kind, key, body) values (?, ?, ?, ?)",
                    [(session, fact.kind, fact.key, fact.body) for fact in facts],
                )
            insert_rewrites(self._db, session, rewrites, now)
            if restored_view:
                remove_views(self._db, session, restored_view)
            if previous_view is not None:
                insert_view(self._db, session, previous_view, now)
            insert_rows(self._db, "outputs", session, outputs, now)
            insert_rows(self._db, "summaries", session, summaries, now)
            for digest in {row.digest for row in outputs if row.digest is not None}:
                if self.blobs is not None:
                    self.blobs.commit(digest, session)

    def update(self, session: str, *, model: str, mode: str) -> None:
        with self.transaction():
            self._db.execute(
                "update sessions set model = ?, mode = ?, updated = ? where id = ?",
                (model, mode, time.time(), session),
            )

    def rename(self, session: str, title: str) -> None:
        with self.transaction():
            self._db.execute("update sessions set title = ? where id = ?", (title, session))

    def end_turn(self, session: str) -> None:
        """Make everything written so far survive a power failure. Other processes can write while this waits for the
        disk."""
        with self.transaction():
            self._db.execute("update sessions set updated = ? where id = ?", (time.time(), session))
        if isinstance(self.path, Path):
            sync_log(self.path)
        with suppress(StoreError), self.without_waiting(), translate_sqlite_errors(self.path):
            # The passive checkpoint copies as much of the log to the database as readers allow. The second one blocks
            # writers, but has little left to copy.
            self._db.execute("pragma wal_checkpoint(passive)").fetchall()
            self._db.execute("pragma wal_checkpoint(truncate)").fetchall()

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Inside this context, fail at once instead of waiting for other processes' transactions."""
        self._db.execute("pragma busy_timeout = 0")
        try:
            yield
        finally:
            self._db.execute(f"pragma busy_timeout = {self._busy_timeout_ms}")

    @property
    def shared_path(self) -> Path | None:
        """The database file, if other processes can write the same database; otherwise None."""
        return self.path if isinstance(self.path, Path) and not self.is_read_only else None

    def last_message_id(self) -> int:
        """Return the row id of the newest message of all sessions; 0 if there is none. Ids may be reused after the
        newest messages were deleted."""
        ((last_id,),) = self.query("select coalesce(max(id), 0) from messages")
        return int(last_id)

    def session(self, session: str) -> SessionRow | None:
        rows = self._sessions("where s.id = ?", session)
        return rows[0] if rows else None

    def sessions_with_prefix(self, prefix: str, project: str | None = None) -> tuple[SessionRow, ...]:
        """Find sessions whose id starts with `prefix`, newest first. `project`: None for all projects."""
        clause, values = "where substr(s.id, 1, ?) = ?", [len(prefix), prefix]
        if project is not None:
            clause += " and s.project = ?"
            values.append(project)
        return self._sessions(clause, *values)

    def recent_sessions(self, project: str | None = None, limit: int = 100) -> tuple[SessionRow, ...]:
        """Get sessions with at least one message, newest first, without sub-agents. `project`: None for all
        projects."""
        has_messages = f"where {IS_LISTED_SQL} and s.owner is null"
        if project is None:
            return self._sessions(has_messages, limit=limit)
        return self._sessions(has_messages + " and s.project = ?", project, limit=limit)

    def _sessions(self, clause: str, *values: object, limit: int = 1000) -> tuple[SessionRow, ...]:
        with translate_sqlite_errors(self.path):
            rows = self._db.execute(
                "select s.id, s.project, s.title, s.model, s.mode, s.created, s.updated, "
                "(select coalesce(max(position) + 1, 0) from messages where session = s.id), "
                "s.parent, s.forked, s.family, s.draft, s.owner, s.agent "
                f"from sessions s {clause} "
                "order by s.updated desc, s.rowid desc limit ?",
                (*values, limit),
            ).fetchall()
        return tuple(SessionRow(*row) for row in rows)

    def messages(self, session: str, start: int = 0, limit: int = -1) -> tuple[MessageRow, ...]:
        """Get messages in order, starting at a position. A negative `limit` means all."""
        return _message_rows(
            self.query(
                "select position, role, body, created, digest from messages where session = ? and position >= ? "
                "order by position limit ?",
                session,
                start,
                limit,
            )
        )

    def message_count(self, session: str, start: int = 0) -> int:
        """Count the messages from a position on."""
        ((count,),) = self.query("select count(*) from messages where session = ? and position >= ?", session, start)
        return int(count)

    def messages_before(self, session: str, position: int, limit: int) -> tuple[MessageRow, ...]:
        """Get the last `limit` messages before a position, in order."""
        rows = self.query(
            "select position, role, body, created, digest from messages where session = ? and position < ? "
            "order by position desc limit ?",
            session,
            position,
            limit,
        )
        return _message_rows(rows[::-1])

    def snapshot(self, session: str) -> SnapshotRow | None:
        rows = self.query("select position, body from snapshots where session = ?", session)
        return SnapshotRow(*rows[0]) if rows else None

    def views(self, session: str) -> tuple[ViewRow, ...]:
        """Return the earlier views, newest first."""
        sql = "select position, body, created, number from views where session = ? order by number desc"
        return tuple(ViewRow(*row) for row in self.query(sql, session))

    def usage(self, session: str) -> tuple[UsageRow, ...]:
        """Return the usage of each request, oldest first."""
        with translate_sqlite_errors(self.path):
            rows = self._db.execute(
                "select model, purpose, input, cache_read, cache_write, output, cost, created from usage "
                "where session = ? order by id",
                (session,),
            ).fetchall()
        return tuple(UsageRow(*row) for row in rows)

    def recent_prompt_sizes(self, provider: str, count: int) -> tuple[tuple[str, float, int], ...]:
        """Get the newest `count` requests that answered the user, to any of a provider's models. Returns the session,
        time and prompt tokens of each."""
        sql = (
            "select session, created, input + cache_read + cache_write from usage "
            "where purpose = 'step' and model >= ?1 || '/' and model < ?1 || '0' order by id desc limit ?2"
        )
        return tuple((str(session), float(at), int(tokens)) for session, at, tokens in self.query(sql, provider, count))

    def reply_times(self, session: str) -> tuple[tuple[int, float], ...]:
        """Get the position and time of each reply."""
        sql = "select position, created from messages where session = ? and role = 'assistant' order by position"
        return tuple((int(position), float(created)) for position, created in self.query(sql, session))

    def usage_total(self, session: str) -> UsageTotal:
        """Sum the usage of all requests, including those of sub-agents."""
        with translate_sqlite_errors(self.path):
            row = self._db.execute(
                "select coalesce(sum(input), 0), coalesce(sum(cache_read), 0), coalesce(sum(cache_write), 0), "
                "coalesce(sum(output), 0), case when count(*) = count(cost) then total(cost) end "
                "from usage where session = ?1 or session in (select id from sessions where owner = ?1)",
                (session,),
            ).fetchone()
        return UsageTotal(*row)

    def rewrites(self, session: str) -> tuple[RewriteRow, ...]:
        """Return the rewrites, oldest first."""
        rows = self.query(
            "select position, reason, strategies, before, after, cost, created, requests from rewrites "
            "where session = ? order by id",
            session,
        )
        return tuple(RewriteRow(*row) for row in rows)

    def all_facts(self, session: str) -> tuple[FactRow, ...]:
        rows = self.query("select kind, key, body from situation where session = ? order by kind, key", session)
        return tuple(FactRow(*row) for row in rows)

    def facts(self, session: str, kind: str) -> tuple[FactRow, ...]:
        """Return the facts of one kind."""
        sql = "select kind, key, body from situation where session = ? and kind = ? order by key"
        return tuple(FactRow(*row) for row in self.query(sql, session, kind))

    def calibration(self, model: str) -> str | None:
        """Get the stored calibration of a model. All sessions share it."""
        rows = self.query("select body from calibrations where model = ?", model)
        return str(rows[0][0]) if rows else None

    def save_calibration(self, model: str, body: str) -> None:
        with self.transaction():
            self._db.execute(
                "insert or replace into calibrations (model, body, updated) values (?, ?, ?)",
                (model, body, time.time()),
            )

    def delete(self, session: str) -> None:
        """Delete a session. Its forks are attached to its parent."""
        with self.transaction():
            _reparent_forks(self._db, session)
            self._db.execute("delete from sessions where id = ?", (session,))

    def agent_sessions(self, session: str) -> tuple[str, ...]:
        """Get the session ids of a session's sub-agents, oldest first."""
        rows = self.query("select id from sessions where owner = ? order by created, rowid", session)
        return tuple(str(session_id) for (session_id,) in rows)

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with translate_sqlite_errors(self.path):
            return self._db.execute(sql, values).fetchall()

    def switch_to_copy(self) -> None:
        """If the database is read-only, switch to a temporary copy so that search indexes can be built. The copy is
        deleted when the store is closed."""
        if self.is_read_only and isinstance(self.path, Path) and not self._is_temporary_copy:
            self._db.close()
            self._db, self._is_temporary_copy = open_copy(self.path, self._busy_timeout_ms / 1000), True

    def close(self) -> None:
        with translate_sqlite_errors(self.path):
            self._db.close()
