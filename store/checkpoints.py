"""Stores checkpoints of a project's files: file contents by digest, the result of the last folder scan, and the undo
points. It does not interpret the rows."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from ebbtide.store.errors import StoreError, translate_os_errors, translate_sqlite_errors
from ebbtide.store.frames import DECOMPRESS_ERRORS, MAX_HEAD_BYTES, FrameWriter, pack, unpack, unpacked_size
from ebbtide.store.open_databases import OpenDatabase, is_open_in_process, opening_lock
from ebbtide.store.write_ahead import enable_wal, sync_log

MIN_FREE_BYTES_FOR_SESSION = 1 << 20
"""Disk space, in bytes, that must stay free for the session's own rows."""
_MAX_UNUSED_SHARE = 0.5
"""If the unused share of a frame exceeds this, the contents still in use are moved to a new frame."""
_MAX_NEVER_REWRITTEN_FRAME_BYTES = 4096
"""Frames of up to this size, in bytes, are never rewritten."""
_COMPRESSION_THREADS = max(2, min(4, os.cpu_count() or 1))
"""Number of compression threads. Any more would only wait for the thread that reads files."""
SCHEMA_VERSION = 2
"""The schema version. Version 2 compresses new frames with Zstandard; deflate frames from version 1 can still be
read."""


class FolderRow(NamedTuple):
    path: bytes
    body: bytes


class PointRow(NamedTuple):
    id: int
    session: str
    position: int
    """Number of messages at the start of the turn."""
    at: float
    """Time in Unix seconds."""
    kind: str
    state: str
    title: str
    undone_points: tuple[int, ...]
    """Ids of the points that this point undoes."""


class PathRow(NamedTuple):
    path: bytes
    before: str
    after: str
    doubt: str


class CheckpointStore:
    """The checkpoints of one project. Any method may raise `StoreError`. Call methods only from the thread that opened
    the database. Other processes may also have it open."""

    def __init__(self, path: Path, *, busy_timeout: float = 10.0) -> None:
        self.path = path
        self._busy_timeout = busy_timeout
        with translate_os_errors(path.parent):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.chmod(0o700)
        with opening_lock:
            if not is_open_in_process(path):
                with translate_os_errors(path.parent):
                    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            with self._translate_errors():
                self._db = sqlite3.connect(path, isolation_level=None, timeout=busy_timeout, factory=OpenDatabase)
                self._db.register(path)
        with self._translate_errors():
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    def _prepare(self) -> None:
        self._db.execute("pragma auto_vacuum = incremental")
        enable_wal(self._db, self._busy_timeout)
        if self._version() == SCHEMA_VERSION:
            return
        with self.transaction():
            # Read the version again: another process may have created the tables in the meantime.
            for statement in () if self._version() else _SCHEMA:
                self._db.execute(statement)
            self._db.execute(f"pragma user_version = {SCHEMA_VERSION}")

    def _version(self) -> int:
        ((version,),) = self._db.execute("pragma user_version").fetchall()
        if version > SCHEMA_VERSION:
            raise StoreError("newer", f"`{self.path}` was written by a newer version of the program")
        return int(version)

    def _translate_errors(self) -> AbstractContextManager[None]:
        return translate_sqlite_errors(
            self.path, "database of checkpoints", "it will be replaced by a new one when it is next opened"
        )

    def close(self) -> None:
        with self._translate_errors():
            self._db.close()

    def is_intact(self) -> bool:
        """Whether SQLite finds no damage."""
        try:
            with self._translate_errors():
                return self._db.execute("pragma quick_check(1)").fetchall() == [("ok",)]
        except StoreError:
            return False

    @contextmanager
    def transaction(self, *, is_durable: bool = False) -> Iterator[None]:
        """Run a transaction. A nested one joins the outer one. With `is_durable`, the changes survive a power
        failure."""
        if self._db.in_transaction:
            yield
            return
        with self._translate_errors():
            self._db.execute("begin immediate")
            try:
                yield
                self._db.execute("commit")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("rollback")
                raise
        if is_durable:
            sync_log(self.path)

    # Contents

    def is_missing(self, digest: bytes) -> bool:
        with self._translate_errors():
            return self._db.execute("select 1 from contents where digest = ?", (digest,)).fetchone() is None

    def digests(self) -> set[bytes]:
        """Return the digests of all stored contents."""
        with self._translate_errors():
            return {digest for (digest,) in self._db.execute("select digest from contents")}

    def put(self, contents: Sequence[tuple[bytes, bytes]], packed: tuple[int, bytes] | None = None) -> None:
        """Store contents with their digests as one frame. Content that is already stored stays where it is. Call this
        in a transaction. `packed`: the result of `pack` for all the contents."""
        storage_format, data = packed or pack(b"".join(content for _, content in contents))
        frame_id = self._db.execute("insert into frames (packed, data) values (?, ?)", (storage_format, data)).lastrowid
        offset, rows = 0, []
        for digest, content in contents:
            rows.append((digest, frame_id, offset, len(content)))
            offset += len(content)
        self._db.executemany("insert or ignore into contents (digest, frame, start, size) values (?, ?, ?, ?)", rows)

    def require_disk_space(self, size: int) -> None:
        """Raise `StoreError` ("full") if writing this many bytes would leave too little disk space for the session. The
        bytes are written twice: to the log and to the database."""
        disk = os.statvfs(self.path.parent)
        if disk.f_blocks and disk.f_bavail * disk.f_frsize < 2 * size + MIN_FREE_BYTES_FOR_SESSION:
            raise StoreError(
                "full",
                f"no more checkpoints are stored in `{self.path.parent}`: the disk is almost full; free some space",
            )

    @contextmanager
    def frame_writer(self) -> Iterator[Callable[[bytes, bytes], None]]:
        """Yield a function that stores a digest and its content. It may buffer them, but everything is stored on exit.
        Contents are compressed in threads, and other processes can write in between."""
        with ThreadPoolExecutor(_COMPRESSION_THREADS, thread_name_prefix="checkpoint") as executor:
            writer = FrameWriter(self, executor)
            yield writer.add
            writer.finish()

    def content(self, digest: bytes) -> bytes:
        """Get the content with this digest. Raises `StoreError` ("missing") if it is not stored."""
        with self._translate_errors():
            row = self._db.execute(
                "select start, size, packed, data from contents join frames on frames.id = frame where digest = ?",
                (digest,),
            ).fetchone()
        if row is None:
            raise StoreError("missing", "the file's previous content is no longer stored")
        start, size, storage_format, data = row
        try:
            frame = unpack(storage_format, data)
        except DECOMPRESS_ERRORS as error:
            raise StoreError("corrupt", f"`{self.path}` is damaged: {error}") from error
        return bytes(frame[start : start + size])

    # Scan results

    def folders(self) -> Iterator[FolderRow]:
        with self._translate_errors():
            for path, body in self._db.execute("select path, body from folders"):
                yield FolderRow(path, body)

    def put_folders(self, rows: Iterable[FolderRow], deleted_paths: Iterable[bytes]) -> None:
        """Replace and delete folder rows. Call this in a transaction."""
        self._db.executemany("delete from folders where path = ?", [(path,) for path in deleted_paths])
        self._db.executemany("insert or replace into folders (path, body) values (?, ?)", rows)

    # Points

    def points(self, session: str | None = None) -> tuple[PointRow, ...]:
        """Get the undo points, oldest first."""
        where, values = ("where session = ?", (session,)) if session is not None else ("", ())
        with self._translate_errors():
            rows = self._db.execute(
                f"select id, session, position, at, kind, state, title, others from points {where} order by id", values
            ).fetchall()
        return tuple(
            PointRow(point_id, owner, position, at, kind, state, title, tuple(map(int, others.split())))
            for point_id, owner, position, at, kind, state, title, others in rows
        )

    def newest_point(self) -> int:
        """Get the id of the newest point; 0 if there is none."""
        with self._translate_errors():
            (newest,) = self._db.execute("select coalesce(max(id), 0) from points").fetchone()
            return int(newest)

    def sessions_since(self, point: int, session: str) -> set[str]:
        """Find the sessions that have a running point or a point newer than `point`. `session` itself is left out."""
        sql = "select distinct session from points where session != ? and (id > ? or state = 'running')"
        with self._translate_errors():
            return {session_id for (session_id,) in self._db.execute(sql, (session, point))}

    def add_point(
        self,
        session: str,
        position: int,
        kind: str,
        state: str,
        title: str,
        undone_points: Sequence[int] = (),
        at: float = 0.0,
    ) -> int:
        """Add a point and return its id. Call this in a transaction."""
        cursor = self._db.execute(
            "insert into points (session, position, at, kind, state, title, others) values (?, ?, ?, ?, ?, ?, ?)",
            (session, position, at or time.time(), kind, state, title, " ".join(map(str, undone_points))),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def set_states(self, states: Mapping[int, str]) -> None:
        """Update the states of points. Call this in a transaction."""
        self._db.executemany(
            "update points set state = ? where id = ?", [(state, point_id) for point_id, state in states.items()]
        )

    def paths(self, point: int) -> tuple[PathRow, ...]:
        with self._translate_errors():
            rows = self._db.execute("select path, before, after, told from paths where point = ? order by id", (point,))
            return tuple(PathRow(*row) for row in rows.fetchall())

    def add_paths(self, point: int, rows: Iterable[PathRow], digests: Iterable[bytes]) -> None:
        """Add paths to a point. The contents with these `digests` are kept as long as the point exists. Call this in a
        transaction."""
        self._db.executemany(
            "insert into paths (point, path, before, after, told) values (?, ?, ?, ?, ?)",
            [(point, *row) for row in rows],
        )
        self._db.executemany(
            "insert or ignore into needed (point, digest) values (?, ?)", [(point, digest) for digest in digests]
        )

    # Garbage collection

    @property
    def size(self) -> int:
        """Size of the database in bytes, excluding free pages."""
        with self._translate_errors():
            page_count, free_count, page_size = (
                self._db.execute(f"pragma {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((page_count - free_count) * page_size)

    def collect_garbage(self, max_bytes: int, scanned_digests: Iterable[bytes]) -> int:
        """Remove contents that are needed neither by a point nor by the last scan (`scanned_digests`). While the
        database is larger than `max_bytes`, remove the oldest points too. Returns how many points were removed."""
        with self.transaction():
            self._db.execute("create temp table if not exists found (digest blob primary key) without rowid")
            self._db.execute("delete from found")
            self._db.executemany("insert or ignore into found values (?)", ((digest,) for digest in scanned_digests))
        removed_count = 0
        self._sweep()
        while self.size > max_bytes:
            with self.transaction():
                oldest = self._db.execute(
                    "select id from points where state not in ('running', 'restoring') order by id limit 20"
                ).fetchall()
                if not oldest:
                    break
                for table, key in (("paths", "point"), ("needed", "point"), ("points", "id")):
                    self._db.executemany(f"delete from {table} where {key} = ?", oldest)
                removed_count += len(oldest)
            self._sweep()
        with self._translate_errors():
            self._db.executescript("pragma incremental_vacuum")  # `execute` would free only one page
        return removed_count

    def _sweep(self) -> None:
        """Remove unneeded contents, and rewrite frames that are mostly unused."""
        with self.transaction():
            self._db.execute(
                "delete from contents where digest not in (select digest from needed)"
                " and digest not in (select digest from found)"
            )
            self._db.execute("delete from frames where id not in (select frame from contents)")
            frame_rows = self._db.execute(
                "select frames.id, packed, length(data), sum(size), max(start + size)"
                " from contents join frames on frames.id = frame group by frames.id"
            ).fetchall()
            sparse = [
                (frame_id,)
                for frame_id, storage_format, length, used_bytes, end in frame_rows
                if (size := self._unpacked_size(frame_id, storage_format, length) or end)
                > _MAX_NEVER_REWRITTEN_FRAME_BYTES
                and used_bytes < _MAX_UNUSED_SHARE * size
            ]
            self._db.execute("create temp table if not exists sparse (frame integer primary key)")
            self._db.execute("delete from sparse")
            self._db.executemany("insert into sparse values (?)", sparse)
            rows = self._db.execute(
                "select digest, frame from contents where frame in (select frame from sparse) order by frame, start"
            ).fetchall()
            for frame_id, group in groupby(rows, key=itemgetter(1)):
                contents = [(digest, self.content(digest)) for digest, _ in group]
                self._db.executemany("delete from contents where digest = ?", [(digest,) for digest, _ in contents])
                self._db.execute("delete from frames where id = ?", (frame_id,))
                self.put(contents)

    def _unpacked_size(self, frame_id: int, storage_format: int, length: int) -> int | None:
        """Get the uncompressed size of a frame without reading all of it; None if unknown."""
        with self._db.blobopen("frames", "data", frame_id, readonly=True) as data:
            return unpacked_size(storage_format, data.read(MAX_HEAD_BYTES), length)


_SCHEMA = (
    "create table frames (id integer primary key, packed integer not null, data blob not null)",
    """create table contents (
        digest blob primary key, frame integer not null, start integer not null, size integer not null)
        without rowid""",
    "create table folders (path blob primary key, body blob not null)",
    """create table points (
        id integer primary key autoincrement, session text not null, position integer not null, at real not null,
        kind text not null, state text not null, title text not null, others text not null)""",
    "create index points_by_session on points (session)",
    """create table paths (
        id integer primary key, point integer not null, path blob not null, before text not null, after text not null,
        told text not null)""",
    "create index paths_by_point on paths (point)",
    "create table needed (point integer not null, digest blob not null, primary key (point, digest)) without rowid",
    "create index needed_by_digest on needed (digest)",
)
