"""The database in which opencode keeps its sessions, only read. It knows its tables, not what they mean."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ebbtide.store.errors import translate_sqlite_errors

_MAX_PART_CHARS = 12 << 20
"""Characters of a row that is read."""
_SIZE = "octet_length" if sqlite3.sqlite_version_info >= (3, 43) else "length"
"""The first one reads no texts."""


class OpencodeDatabase:
    """Raises `StoreError`. To be closed in the end."""

    def __init__(self, path: Path) -> None:
        wal = path.with_name(f"{path.name}-wal")
        # Without a log nothing beside it is needed, and none is made there.
        how = "mode=ro" if wal.exists() and wal.stat().st_size else "mode=ro&immutable=1"
        self._path = path
        with translate_sqlite_errors(path):
            self._db = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=5.0)
            self._db.text_factory = lambda data: data.decode("utf-8", "replace")

    def sessions(self) -> list[tuple[str, str, str, int, int]]:
        """Id, the parent's id, folder, when it was changed in milliseconds, and how much was said in it, of each
        session."""
        with translate_sqlite_errors(self._path):
            return self._db.execute(
                "select id, coalesce(parent_id, ''), directory, time_updated, "
                f"(select coalesce(sum({_SIZE}(data)), 0) from part where session_id = session.id) "
                "from session order by id"
            ).fetchall()

    def session(self, id: str) -> tuple[str, str, str, int] | None:
        """Title, version, what was reverted, and when it was made in milliseconds."""
        with translate_sqlite_errors(self._path):
            found: tuple[str, str, str, int] | None = self._db.execute(
                "select title, version, coalesce(revert, ''), time_created from session where id = ?", (id,)
            ).fetchone()
        return found

    def messages(self, session: str) -> Iterator[tuple[str, str]]:
        """Id and JSON of its messages, in order."""
        with translate_sqlite_errors(self._path):
            yield from self._db.execute(
                "select id, data from message where session_id = ? order by time_created, id", (session,)
            ).fetchall()

    def parts(self, message: str) -> Iterator[str]:
        """The JSON of its parts, in order; an empty text for one that is too long."""
        with translate_sqlite_errors(self._path):
            rows = self._db.execute(
                "select case when length(data) <= ? then data else '' end from part where message_id = ? order by id",
                (_MAX_PART_CHARS, message),
            )
            yield from (data for (data,) in rows)

    def close(self) -> None:
        self._db.close()
