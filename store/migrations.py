"""The schema, one function a version. `PRAGMA user_version` counts how many have run."""

import sqlite3
from collections.abc import Callable


def _sessions(db: sqlite3.Connection) -> None:
    db.execute(
        """create table sessions (
            id text primary key, project text not null, title text not null, model text not null, mode text not null,
            created real not null, updated real not null)"""
    )
    db.execute("create index sessions_by_project on sessions (project, updated desc)")
    db.execute(
        """create table messages (
            id integer primary key, session text not null references sessions (id) on delete cascade,
            position integer not null, role text not null, body text not null, created real not null,
            unique (session, position))"""
    )
    db.execute(
        """create table usage (
            id integer primary key, session text not null references sessions (id) on delete cascade,
            model text not null, purpose text not null, input integer not null, cache_read integer not null,
            cache_write integer not null, output integer not null, cost real, created real not null)"""
    )
    db.execute("create index usage_by_session on usage (session)")
    db.execute(
        """create table snapshots (
            session text primary key references sessions (id) on delete cascade, position integer not null,
            body text not null, created real not null)"""
    )


def _situation(db: sqlite3.Connection) -> None:
    db.execute(
        """create table situation (
            session text not null references sessions (id) on delete cascade, kind text not null, key text not null,
            body text not null, primary key (session, kind, key)) without rowid"""
    )
    db.execute(
        """create table rewrites (
            id integer primary key, session text not null references sessions (id) on delete cascade,
            position integer not null, requests integer not null, reason text not null, strategies text not null,
            before integer not null, after integer not null, cost real, created real not null)"""
    )
    db.execute("create index rewrites_by_session on rewrites (session)")
    # With the numbers in it, the index alone answers what a session has used.
    db.execute("drop index usage_by_session")
    db.execute("create index usage_by_session on usage (session, input, cache_read, cache_write, output, cost)")


def _calibrations(db: sqlite3.Connection) -> None:
    db.execute("create table calibrations (model text primary key, body text not null, updated real not null)")


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_sessions, _calibrations, _situation)
