"""The database schema as a list of migrations, one function per version. `PRAGMA user_version` counts the migrations
that have been run."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from ebbtide.store.search_tables import create_tables

SQLITE_VERSION = sqlite3.sqlite_version
"""Version of the SQLite library."""


def _create_sessions(db: sqlite3.Connection) -> None:
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


def _create_situation(db: sqlite3.Connection) -> None:
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
    # A covering index, so that a session's usage can be read from the index alone.
    db.execute("drop index usage_by_session")
    db.execute("create index usage_by_session on usage (session, input, cache_read, cache_write, output, cost)")


def _create_calibrations(db: sqlite3.Connection) -> None:
    db.execute("create table calibrations (model text primary key, body text not null, updated real not null)")


def _create_outputs(db: sqlite3.Connection) -> None:
    db.execute(
        """create table outputs (
            session text not null references sessions (id) on delete cascade, number integer not null,
            part integer not null, position integer not null, call text not null, tool text not null,
            size integer not null, lines integer not null, media_type text not null, digest text,
            created real not null, accesses integer not null default 0, accessed real, removed real,
            primary key (session, number, part)) without rowid"""
    )
    db.execute("create index outputs_by_digest on outputs (digest) where digest is not null")
    db.execute(
        """create table summaries (
            session text not null references sessions (id) on delete cascade, number integer not null,
            position integer not null, body text not null, created real not null,
            primary key (session, number)) without rowid"""
    )
    _number_earlier_outputs(db)
    for session, position, body, created in db.execute("select session, position, body, created from snapshots"):
        summary = _parse_body(body).get("summary")
        if summary and (isinstance(summary, str) or any(summary.values())):
            text = json.dumps(summary)
            db.execute("insert into summaries values (?, 1, ?, ?, ?)", (session, position, text, created))


def _number_earlier_outputs(db: sqlite3.Connection) -> None:
    """Insert a row for each output in existing messages."""
    last_session, number, tool_names = "", 0, dict[str, str]()
    rows = db.execute("select session, position, body, created from messages order by session, position")
    for session, position, body, created in rows:
        if session != last_session:
            last_session, number, tool_names = session, 0, {}
        parts = [part for part in _parse_body(body).get("parts", ()) if isinstance(part, dict)]
        tool_names.update({str(part.get("id")): str(part.get("name")) for part in parts if part.get("type") == "call"})
        for part in parts:
            if part.get("type") != "output":
                continue
            number += 1
            call = str(part.get("call_id"))
            for index, (size, lines, media_type) in enumerate(_part_descriptions(part)):
                db.execute(
                    "insert into outputs (session, number, part, position, call, tool, size, lines, media_type, "
                    "created) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        session,
                        number,
                        index,
                        position,
                        call,
                        tool_names.get(call, ""),
                        size,
                        lines,
                        media_type,
                        created,
                    ),
                )


def _part_descriptions(output: dict[str, Any]) -> Iterator[tuple[int, int, str]]:
    """Yield the size, line count and media type of an output's text, then of each of its images."""
    text = str(output.get("text", ""))
    size = len(text.encode("utf-8", "surrogatepass"))
    yield size, text.count("\n") + (not text.endswith("\n") and size > 0), "text/plain"
    for image in output.get("images", ()):
        data = str(image.get("data", ""))
        yield len(data) * 3 // 4 - data.count("=", -2), 0, str(image.get("media_type", ""))


def _parse_body(body: str) -> dict[str, Any]:
    """Parse a message's JSON body. Invalid JSON gives an empty dictionary; the error is reported when the message is
    loaded."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _create_tool_uses(db: sqlite3.Connection) -> None:
    db.execute(
        """create table tool_uses (
            project text not null, tool text not null, used real not null, primary key (project, tool)) without rowid"""
    )


def _create_search_index(db: sqlite3.Connection) -> None:
    create_tables(db)
    db.execute(
        """create table accesses (
            session text not null references sessions (id) on delete cascade, ref text not null,
            count integer not null, last real not null, primary key (session, ref)) without rowid"""
    )


def _add_message_refs(db: sqlite3.Connection) -> None:
    # The column is null in older rows until code that can compute references fills it in.
    db.execute("alter table messages add column ref text")
    db.execute("create index messages_by_ref on messages (session, ref)")


def _add_forks(db: sqlite3.Connection) -> None:
    db.execute("alter table sessions add column parent text references sessions (id) on delete set null")
    db.execute("alter table sessions add column forked integer")
    db.execute("alter table sessions add column family text")
    db.execute("alter table sessions add column draft integer not null default 0")
    db.execute("create index sessions_by_family on sessions (family) where family is not null")
    db.execute("create index sessions_by_parent on sessions (parent) where parent is not null")
    db.execute("create index sessions_by_time on sessions (updated)")
    db.execute(
        """create table views (
            session text not null references sessions (id) on delete cascade, number integer not null,
            position integer not null, body text not null, created real not null,
            primary key (session, number)) without rowid"""
    )


def _add_message_digests(db: sqlite3.Connection) -> None:
    # The column stays null in older rows: their original content is unknown.
    db.execute("alter table messages add column digest text")


def _add_agents(db: sqlite3.Connection) -> None:
    db.execute("alter table sessions add column owner text references sessions (id) on delete cascade")
    db.execute("alter table sessions add column agent text")
    db.execute("create index sessions_by_owner on sessions (owner) where owner is not null")


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _create_sessions,
    _create_calibrations,
    _create_situation,
    _create_outputs,
    _create_tool_uses,
    _create_search_index,
    _add_message_refs,
    _add_forks,
    _add_message_digests,
    _add_agents,
)
