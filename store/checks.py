"""Checks the integrity of a session database and its blobs. Changes nothing."""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ebbtide.store.blobs import Blobs
from ebbtide.store.connection import open_copy, refuse_damaged_log
from ebbtide.store.digests import is_as_written
from ebbtide.store.errors import StoreError, translate_sqlite_errors
from ebbtide.store.file_versions import version_digests
from ebbtide.store.migrations import MIGRATIONS
from ebbtide.store.sessions import SessionStore

MAX_PROBLEMS = 20
_MESSAGES = 200
"""Messages read at a time."""
_STEPS = 50_000
"""SQLite virtual machine steps between calls of `tick`."""
_INDEX_TABLES = ("words", "parts", "fts5", "vectors")


@dataclass(frozen=True, slots=True)
class DatabaseReport:
    """The result of SQLite's integrity check."""

    version: int
    newest: int
    """The schema version that this program writes."""
    size: int
    """Size of the file in bytes."""
    problems: tuple[str, ...]
    """Damage in tables that cannot be rebuilt."""
    index_problems: tuple[str, ...]
    """Damage in the search index, which can be rebuilt."""


def examine_database(path: Path, tick: Callable[[], None]) -> DatabaseReport:
    """Check an existing database without migrating it. Raises `StoreError` if it cannot be read at all. `tick` is
    called repeatedly during the check."""

    def ticking() -> int:
        tick()
        return 0

    refuse_damaged_log(path)
    if path.exists() and not path.is_file():
        raise StoreError("unreadable", f"`{path}` is not a file; move it away")
    with translate_sqlite_errors(path):
        is_writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        # In a read-only folder, SQLite cannot check a full-text index.
        uri = f"{path.absolute().as_uri()}?mode=ro"
        db = sqlite3.connect(uri, uri=True, timeout=5.0) if is_writable else open_copy(path, 5.0)
        with closing(db):
            db.set_progress_handler(ticking, _STEPS)
            version = int(db.execute("pragma user_version").fetchone()[0])
            found = [str(row[0]) for row in db.execute(f"pragma integrity_check({MAX_PROBLEMS})")]
            found += [
                f"a row of {table} refers to a row that does not exist"
                for (table,) in db.execute('select distinct "table" from pragma_foreign_key_check')
            ]
    problems = [problem for problem in found if problem != "ok"]
    of_index = [problem for problem in problems if any(name in problem for name in _INDEX_TABLES)]
    return DatabaseReport(
        version,
        len(MIGRATIONS),
        path.stat().st_size,
        tuple(problem for problem in problems if problem not in of_index),
        tuple(of_index),
    )


class ReferenceChecks:
    """Checks which outputs and messages are intact. Raises `StoreError`."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def sessions(self) -> tuple[str, ...]:
        """Return the ids of all sessions, oldest first."""
        return tuple(str(row[0]) for row in self._store.query("select id from sessions order by created, id"))

    def referenced_blobs(self) -> Mapping[str, int]:
        """Return the digests of all blobs referenced by outputs, with their sizes."""
        rows = self._store.query("select digest, max(size) from outputs where digest is not null group by digest")
        return {str(digest): int(size) for digest, size in rows}

    def file_version_digests(self) -> frozenset[str]:
        """Return the digests of all stored file versions."""
        with self._store.transaction() as db:
            return frozenset(version_digests(db))

    def altered_messages(self, session: str) -> tuple[int, ...]:
        """Return the positions of messages that differ from what was written."""
        found, start = list[int](), -1
        while rows := self._store.query(
            "select position, role, body, digest from messages where session = ? and position > ? "
            "and typeof(position) = 'integer' order by position limit ?",
            session,
            start,
            _MESSAGES,
        ):
            # Not done by an SQL function, since that is not called for invalid text.
            found += [position for position, role, body, digest in rows if not is_as_written(role, body, digest)]
            if rows[-1][0] <= start:  # a damaged index may return rows in any order and repeatedly
                break
            start = rows[-1][0]
        return tuple(dict.fromkeys(found))

    def orphaned_outputs(self, session: str) -> tuple[int, ...]:
        """Return the numbers of outputs whose message is missing."""
        rows = self._store.query(
            "select o.number from outputs o left join messages m on m.session = o.session and m.position = o.position "
            "where o.session = ? and o.digest is null and o.removed is null and m.id is null order by o.number",
            session,
        )
        return tuple(dict.fromkeys(int(row[0]) for row in rows))

    def gaps(self, session: str) -> bool:
        """Whether messages are missing between the first and the last."""
        rows = self._store.query(
            "select count(*), coalesce(max(position) + 1, 0) from messages where session = ?", session
        )
        return bool(rows[0][0] != rows[0][1])


def unsound_blobs(blobs: Blobs, sizes: Mapping[str, int]) -> Iterator[str]:
    """Yield the digests of blobs that cannot be opened or have the wrong size. Only the start and end of files are
    read."""
    for digest, size in sizes.items():
        try:
            reader = blobs.open(digest)
        except StoreError:
            yield digest
            continue
        is_sound = reader.size == size
        reader.close()
        if not is_sound:
            yield digest


def damaged_blobs(blobs: Blobs, digests: frozenset[str], tick: Callable[[int], None]) -> Iterator[str]:
    """Yield the digests of blobs whose content does not match. `tick` is called with the number read so far."""
    for number, digest in enumerate(sorted(digests)):
        tick(number)
        if not _is_whole(blobs, digest):
            yield digest


def _is_whole(blobs: Blobs, digest: str) -> bool:
    found = hashlib.sha256()
    try:
        with closing(blobs.open(digest)) as reader:
            for chunk in reader.chunks():
                found.update(chunk)
    except StoreError as error:
        if error.reason not in ("corrupt", "missing", "unreadable"):
            raise
        return False
    return found.hexdigest() == digest
