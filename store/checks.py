"""Whether a session database and the bytes beside it are as they should be. It changes nothing, and knows no text."""

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
"""That are looked at at a time."""
_STEPS = 50_000
"""Of SQLite's machine, between two calls of `tick`."""
_INDEX_TABLES = ("words", "parts", "fts5", "vectors")


@dataclass(frozen=True, slots=True)
class DatabaseReport:
    """A database as SQLite finds it."""

    version: int
    newest: int
    """The version that this program writes."""
    size: int
    """Bytes of the file."""
    problems: tuple[str, ...]
    """What is damaged in the tables that cannot be made again."""
    index_problems: tuple[str, ...]
    """What is damaged in the search index, which can."""


def examine_database(path: Path, tick: Callable[[], None]) -> DatabaseReport:
    """What SQLite says of a database that is there, without bringing it to a newer version. Raises `StoreError` when it
    cannot be read at all. `tick` is called again and again meanwhile."""

    def ticking() -> int:
        tick()
        return 0

    refuse_damaged_log(path)
    if path.exists() and not path.is_file():
        raise StoreError("unreadable", f"`{path}` is no file; move it away")
    with translate_sqlite_errors(path):
        is_writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        # Where SQLite can write nothing beside it, it cannot check an index of words.
        uri = f"{path.absolute().as_uri()}?mode=ro"
        db = sqlite3.connect(uri, uri=True, timeout=5.0) if is_writable else open_copy(path, 5.0)
        with closing(db):
            db.set_progress_handler(ticking, _STEPS)
            version = int(db.execute("pragma user_version").fetchone()[0])
            found = [str(row[0]) for row in db.execute(f"pragma integrity_check({MAX_PROBLEMS})")]
            found += [
                f"a row of {table} belongs to nothing that is there"
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
    """Which outputs can be had. Raises `StoreError`."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def sessions(self) -> tuple[str, ...]:
        """The ids of all, the oldest first."""
        return tuple(str(row[0]) for row in self._store.query("select id from sessions order by created, id"))

    def referenced_blobs(self) -> Mapping[str, int]:
        """The digests of all bytes that outputs need, and how many bytes each stands for."""
        rows = self._store.query("select digest, max(size) from outputs where digest is not null group by digest")
        return {str(digest): int(size) for digest, size in rows}

    def file_version_digests(self) -> frozenset[str]:
        """The digests of what files held before sessions changed them."""
        with self._store.transaction() as db:
            return frozenset(version_digests(db))

    def altered_messages(self, session: str) -> tuple[int, ...]:
        """The positions of messages that are not what was written."""
        found, start = list[int](), -1
        while rows := self._store.query(
            "select position, role, body, digest from messages where session = ? and position > ? "
            "and typeof(position) = 'integer' order by position limit ?",
            session,
            start,
            _MESSAGES,
        ):
            # Not by a function in SQL: it is not called for bytes that are no text.
            found += [position for position, role, body, digest in rows if not is_as_written(role, body, digest)]
            if rows[-1][0] <= start:  # a damaged index gives them in any order, some again and again
                break
            start = rows[-1][0]
        return tuple(dict.fromkeys(found))

    def orphaned_outputs(self, session: str) -> tuple[int, ...]:
        """The numbers of outputs that should stand in a message that is not there."""
        rows = self._store.query(
            "select o.number from outputs o left join messages m on m.session = o.session and m.position = o.position "
            "where o.session = ? and o.digest is null and o.removed is null and m.id is null order by o.number",
            session,
        )
        return tuple(dict.fromkeys(int(row[0]) for row in rows))

    def gaps(self, session: str) -> bool:
        """Whether a message is missing between the first and the last."""
        rows = self._store.query(
            "select count(*), coalesce(max(position) + 1, 0) from messages where session = ?", session
        )
        return bool(rows[0][0] != rows[0][1])


def unsound_blobs(blobs: Blobs, sizes: Mapping[str, int]) -> Iterator[str]:
    """The digests whose files do not say that they hold so many bytes. Only the ends of files are read."""
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
    """The digests whose bytes are not what they say; `tick` is told how many have been read."""
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
