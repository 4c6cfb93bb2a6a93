"""Reads the tables of opencode's session database."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ebbtide.store.errors import translate_sqlite_errors

_MAX_PART_CHARS = 12 << 20
"""Maximum length of a row that is read, in characters."""
_BYTE_LENGTH_FUNCTION = "octet_length" if sqlite3.sqlite_version_info >= (3, 43) else "length"
"""SQL function that returns the size of a string; `octet_length` is faster, because it does not read the string."""


class OpencodeDatabase:
    """Reads the database. Raises `StoreError`. Must be closed."""

    def __init__(self, path: Path) -> None:
        wal = path.with_name(f"{path.name}-wal")
        # Without a write-ahead log, `immutable` keeps SQLite from creating files next to the database.
        open_mode = "mode=ro" if wal.exists() and wal.stat().st_size else "mode=ro&immutable=1"
        self._path = path
        with translate_sqlite_errors(path):
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?{open_mode}", uri=True, timeout=5.0)
            self._connection.text_factory = lambda data: data.decode("utf-8", "replace")

    def sessions(self) -> list[tuple[str, str, str, int, int]]:
        """Return the id, parent id, folder, update time in milliseconds and content size of each session."""
        with translate_sqlite_errors(self._path):
            return self._connection.execute(
                "select id, coalesce(parent_id, ''), directory, time_updated, "
                f"(select coalesce(sum({_BYTE_LENGTH_FUNCTION}(data)), 0) from part where session_id = session.id) "
                "from session order by id"
            ).fetchall()

    def session(self, session_id: str) -> tuple[str, str, str, int] | None:
        """Return the title, version, revert information and creation time in milliseconds; None if not found."""
        with translate_sqlite_errors(self._path):
            row: tuple[str, str, str, int] | None = self._connection.execute(
                "select title, version, coalesce(revert, ''), time_created from session where id = ?", (session_id,)
            ).fetchone()
        return row

    def messages(self, session_id: str) -> Iterator[tuple[str, str]]:
        """Yield the id and JSON of each message of a session, in order."""
        with translate_sqlite_errors(self._path):
            yield from self._connection.execute(
                "select id, data from message where session_id = ? order by time_created, id", (session_id,)
            ).fetchall()

    def parts(self, message_id: str) -> Iterator[str]:
        """Yield the JSON of a message's parts, in order; an empty string for a part that is too long."""
        with translate_sqlite_errors(self._path):
            rows = self._connection.execute(
                "select case when length(data) <= ? then data else '' end from part where message_id = ? order by id",
                (_MAX_PART_CHARS, message_id),
            )
            yield from (data for (data,) in rows)

    def close(self) -> None:
        self._connection.close()
