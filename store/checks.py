"""Checks the integrity of a session database and its blobs without changing them."""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ebbtide.store.blobs import BlobStore
from ebbtide.store.connection import matches_digest, open_copy, require_intact_log
from ebbtide.store.errors import StoreError, translate_sqlite_errors
from ebbtide.store.file_versions import version_digests
from ebbtide.store.migrations import MIGRATIONS
from ebbtide.store.sessions import SessionStore

MAX_LISTED_PROBLEMS = 20
_MESSAGES_PER_READ = 200
"""Number of messages read at a time."""
_STEPS_PER_TICK = 50_000
"""Number of SQLite virtual machine steps between calls to `on_tick`."""
_INDEX_TABLES = ("words", "parts", "fts5", "vectors")


@dataclass(frozen=True, slots=True)
class DatabaseReport:
    """The result of SQLite's integrity check."""

    version: int
    newest_schema_version: int
    """Newest schema version that this program supports."""
    size: int
    """Size of the file in bytes."""
    problems: tuple[str, ...]
    """Damage in tables that cannot be rebuilt."""
    index_problems: tuple[str, ...]
    """Damage in the search index, which can be rebuilt."""


def check_database(path: Path, on_tick: Callable[[], None]) -> DatabaseReport:
    """Check an existing database without migrating it. Raises `StoreError` if it cannot be read at all. `on_tick` is
    called repeatedly during the check."""

    def call_tick() -> int:
        on_tick()
        return 0

    require_intact_log(path)
    if path.exists() and not path.is_file():
        raise StoreError("unreadable", f"`{path}` is not a file; move it away")
    with translate_sqlite_errors(path):
        is_writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        # SQLite cannot check a full-text index in a read-only folder, so open a copy in that case.
        uri = f"{path.absolute().as_uri()}?mode=ro"
        db = sqlite3.connect(uri, uri=True, timeout=5.0) if is_writable else open_copy(path, 5.0)
        with closing(db):
            db.set_progress_handler(call_tick, _STEPS_PER_TICK)
            version = int(db.execute("pragma user_version").fetchone()[0])
            messages = [str(row[0]) for row in db.execute(f"pragma integrity_check({MAX_LISTED_PROBLEMS})")]
            messages += [
                f"a row of {table} refers to a row that does not exist"
                for (table,) in db.execute('select distinct "table" from pragma_foreign_key_check')
            ]
    problems = [problem for problem in messages if problem != "ok"]
    index_problems = [problem for problem in problems if any(name in problem for name in _INDEX_TABLES)]
    return DatabaseReport(
        version,
        len(MIGRATIONS),
        path.stat().st_size,
        tuple(problem for problem in problems if problem not in index_problems),
        tuple(index_problems),
    )


class ReferenceChecks:
    """Checks whether outputs and messages are intact. Raises `StoreError`."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def sessions(self) -> tuple[str, ...]:
        """Return the ids of all sessions, oldest first."""
        return tuple(str(row[0]) for row in self._store.query("select id from sessions order by created, id"))

    def referenced_blobs(self) -> Mapping[str, int]:
        """Get the digests and sizes of all blobs that outputs refer to."""
        rows = self._store.query("select digest, max(size) from outputs where digest is not null group by digest")
        return {str(digest): int(size) for digest, size in rows}

    def file_version_digests(self) -> frozenset[str]:
        """Get the digests of all stored file versions."""
        with self._store.transaction() as db:
            return frozenset(version_digests(db))

    def altered_messages(self, session: str) -> tuple[int, ...]:
        """Find the positions of messages that no longer match their digest."""
        positions, last_position = list[int](), -1
        while rows := self._store.query(
            "select position, role, body, digest from messages where session = ? and position > ? "
            "and typeof(position) = 'integer' order by position limit ?",
            session,
            last_position,
            _MESSAGES_PER_READ,
        ):
            # Digests are checked here because SQLite does not call SQL functions for invalid text.
            positions += [position for position, role, body, digest in rows if not matches_digest(role, body, digest)]
            if rows[-1][0] <= last_position:  # a damaged index may return rows repeatedly
                break
            last_position = rows[-1][0]
        return tuple(dict.fromkeys(positions))

    def orphaned_outputs(self, session: str) -> tuple[int, ...]:
        """Find the numbers of outputs whose message is missing."""
        rows = self._store.query(
            "select o.number from outputs o left join messages m on m.session = o.session and m.position = o.position "
            "where o.session = ? and o.digest is null and o.removed is null and m.id is null order by o.number",
            session,
        )
        return tuple(dict.fromkeys(int(row[0]) for row in rows))

    def has_gaps(self, session: str) -> bool:
        """Whether messages are missing between the first and the last one."""
        rows = self._store.query(
            "select count(*), coalesce(max(position) + 1, 0) from messages where session = ?", session
        )
        return bool(rows[0][0] != rows[0][1])


def unreadable_blobs(blobs: BlobStore, sizes: Mapping[str, int]) -> Iterator[str]:
    """Find blobs that cannot be opened or have the wrong size. Only the start and end of each file are read."""
    for digest, size in sizes.items():
        try:
            reader = blobs.open(digest)
        except StoreError:
            yield digest
            continue
        has_expected_size = reader.size == size
        reader.close()
        if not has_expected_size:
            yield digest


def damaged_blobs(blobs: BlobStore, digests: frozenset[str], on_progress: Callable[[int], None]) -> Iterator[str]:
    """Find blobs whose content does not match their digest. `on_progress` is called with the number of blobs read so
    far."""
    for read_count, digest in enumerate(sorted(digests)):
        on_progress(read_count)
        if not _is_intact(blobs, digest):
            yield digest


def _is_intact(blobs: BlobStore, digest: str) -> bool:
    hasher = hashlib.sha256()
    try:
        with closing(blobs.open(digest)) as reader:
            for chunk in reader.chunks():
                hasher.update(chunk)
    except StoreError as error:
        if error.reason not in ("corrupt", "missing", "unreadable"):
            raise
        return False
    return hasher.hexdigest() == digest
