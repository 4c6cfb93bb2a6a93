"""What files of a project held before they were changed: bytes by their digests, what a walk of its folder found last,
and the points to which it can be taken back. It knows rows and bytes, not what they mean."""

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
from ebbtide.store.frames import DECOMPRESS_ERRORS, FrameWriter, pack, unpack
from ebbtide.store.open_databases import OpenDatabase, is_open_here, opening
from ebbtide.store.write_ahead import synchronise, use_log

MIN_FREE_BYTES = 1 << 20
"""Bytes of the disk that are left to the session, whose own rows matter more."""
_MAX_DEAD_SHARE = 0.5
"""Share of a frame that nobody needs from which on the rest of it is written anew."""
_THREADS = max(2, min(4, os.cpu_count() or 1))
"""Threads that compress: more of them would wait for the one that reads."""
VERSION = 2
"""Since 2, frames are compressed by Zstandard; those of 1 by deflate stay as they are."""


class FolderRow(NamedTuple):
    path: bytes
    body: bytes


class PointRow(NamedTuple):
    id: int
    session: str
    position: int
    """How many messages the session had when the turn began."""
    at: float
    """Unix seconds."""
    kind: str
    state: str
    title: str
    others: tuple[int, ...]
    """Other points that it is about."""


class PathRow(NamedTuple):
    path: bytes
    before: str
    after: str
    told: str


class CheckpointStore:
    """The checkpoints of one project. Every method raises `StoreError`; all are called from one thread, which opened
    it. Other processes may have it open, too."""

    def __init__(self, path: Path, *, busy_timeout: float = 10.0) -> None:
        self.path = path
        self._patience = busy_timeout
        with translate_os_errors(path.parent):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.chmod(0o700)
        with opening:
            if not is_open_here(path):
                with translate_os_errors(path.parent):
                    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            with self._translate_errors():
                self._db = sqlite3.connect(path, isolation_level=None, timeout=busy_timeout, factory=OpenDatabase)
                self._db.note(path)
        with self._translate_errors():
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    def _prepare(self) -> None:
        self._db.execute("pragma auto_vacuum = incremental")
        use_log(self._db, self._patience)
        ((version,),) = self._db.execute("pragma user_version").fetchall()
        if version > VERSION:
            raise StoreError("newer", f"`{self.path}` was written by a newer version of the program")
        if version == VERSION:
            return
        with self.transaction():
            for statement in () if version else _SCHEMA:
                self._db.execute(statement)
            self._db.execute(f"pragma user_version = {VERSION}")

    def _translate_errors(self) -> AbstractContextManager[None]:
        return translate_sqlite_errors(
            self.path, "database of checkpoints", "it is set aside for a new one when it is opened next"
        )

    def close(self) -> None:
        with self._translate_errors():
            self._db.close()

    def is_whole(self) -> bool:
        """Whether SQLite finds no damage."""
        try:
            with self._translate_errors():
                return self._db.execute("pragma quick_check(1)").fetchall() == [("ok",)]
        except StoreError:
            return False

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """All or nothing; inside another one, with that. `durable`: it survives a loss of power."""
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
        if durable:
            synchronise(self.path)

    # Bytes

    def lacks(self, digest: bytes) -> bool:
        with self._translate_errors():
            return self._db.execute("select 1 from contents where digest = ?", (digest,)).fetchone() is None

    def digests(self) -> set[bytes]:
        """Those of all that is kept."""
        with self._translate_errors():
            return {digest for (digest,) in self._db.execute("select digest from contents")}

    def put(self, contents: Sequence[tuple[bytes, bytes]], packed: tuple[int, bytes] | None = None) -> None:
        """Keeps bytes with their digests as one frame; what is there already stays where it is. To be called in a
        transaction. `packed`: what `pack` made of all of them."""
        how, data = packed or pack(b"".join(content for _, content in contents))
        frame = self._db.execute("insert into frames (packed, data) values (?, ?)", (how, data)).lastrowid
        at, rows = 0, []
        for digest, content in contents:
            rows.append((digest, frame, at, len(content)))
            at += len(content)
        self._db.executemany("insert or ignore into contents (digest, frame, start, size) values (?, ?, ?, ?)", rows)

    def require_disk_space(self, size: int) -> None:
        """Raises `StoreError`, "full", where so many bytes would leave no room on the disk for the session itself: they
        are written twice, into the log and from there into the database."""
        disk = os.statvfs(self.path.parent)
        if disk.f_blocks and disk.f_bavail * disk.f_frsize < 2 * size + MIN_FREE_BYTES:
            raise StoreError(
                "full", f"nothing more is kept in `{self.path.parent}`: the disk is as good as full; free some space"
            )

    @contextmanager
    def frame_writer(self) -> Iterator[Callable[[bytes, bytes], None]]:
        """What takes bytes with their digest; all of them are kept when this is left. Threads compress them, and
        other processes can write in between."""
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="checkpoint") as threads:
            keeper = FrameWriter(self, threads)
            yield keeper.take
            keeper.finish()

    def content(self, digest: bytes) -> bytes:
        """Raises `StoreError`, "missing" where it was not kept."""
        with self._translate_errors():
            row = self._db.execute(
                "select start, size, packed, data from contents join frames on frames.id = frame where digest = ?",
                (digest,),
            ).fetchone()
        if row is None:
            raise StoreError("missing", "what the file held is not kept any more")
        start, size, how, data = row
        try:
            whole = unpack(how, data)
        except DECOMPRESS_ERRORS as error:
            raise StoreError("corrupt", f"`{self.path}` is damaged: {error}") from error
        return bytes(whole[start : start + size])

    # What a walk found

    def folders(self) -> Iterator[FolderRow]:
        with self._translate_errors():
            for path, body in self._db.execute("select path, body from folders"):
                yield FolderRow(path, body)

    def put_folders(self, rows: Iterable[FolderRow], gone: Iterable[bytes]) -> None:
        """To be called in a transaction."""
        self._db.executemany("delete from folders where path = ?", [(path,) for path in gone])
        self._db.executemany("insert or replace into folders (path, body) values (?, ?)", rows)

    # Points

    def points(self, session: str | None = None) -> tuple[PointRow, ...]:
        """The oldest first."""
        where, values = ("where session = ?", (session,)) if session is not None else ("", ())
        with self._translate_errors():
            rows = self._db.execute(
                f"select id, session, position, at, kind, state, title, others from points {where} order by id", values
            ).fetchall()
        return tuple(
            PointRow(id, owner, position, at, kind, state, title, tuple(map(int, others.split())))
            for id, owner, position, at, kind, state, title, others in rows
        )

    def newest_point(self) -> int:
        """Its id; 0 where there is none."""
        with self._translate_errors():
            (newest,) = self._db.execute("select coalesce(max(id), 0) from points").fetchone()
            return int(newest)

    def sessions_since(self, point: int, session: str) -> set[str]:
        """Other sessions that have a newer point, or one that runs."""
        asked = "select distinct session from points where session != ? and (id > ? or state = 'running')"
        with self._translate_errors():
            return {other for (other,) in self._db.execute(asked, (session, point))}

    def add_point(
        self, session: str, position: int, kind: str, state: str, title: str, of: Sequence[int] = (), at: float = 0.0
    ) -> int:
        """The id of the new point. To be called in a transaction."""
        made = self._db.execute(
            "insert into points (session, position, at, kind, state, title, others) values (?, ?, ?, ?, ?, ?, ?)",
            (session, position, at or time.time(), kind, state, title, " ".join(map(str, of))),
        )
        assert made.lastrowid is not None
        return made.lastrowid

    def set_state(self, states: Mapping[int, str]) -> None:
        """To be called in a transaction."""
        self._db.executemany("update points set state = ? where id = ?", [(state, id) for id, state in states.items()])

    def paths(self, point: int) -> tuple[PathRow, ...]:
        with self._translate_errors():
            rows = self._db.execute("select path, before, after, told from paths where point = ? order by id", (point,))
            return tuple(PathRow(*row) for row in rows.fetchall())

    def add_paths(self, point: int, rows: Iterable[PathRow], digests: Iterable[bytes]) -> None:
        """`digests`: the bytes that stay as long as the point does. To be called in a transaction."""
        self._db.executemany(
            "insert into paths (point, path, before, after, told) values (?, ?, ?, ?, ?)",
            [(point, *row) for row in rows],
        )
        self._db.executemany(
            "insert or ignore into needed (point, digest) values (?, ?)", [(point, digest) for digest in digests]
        )

    # Garbage

    @property
    def size(self) -> int:
        """Bytes that it takes, without what could be given back."""
        with self._translate_errors():
            pages, free, page = (
                self._db.execute(f"pragma {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * page)

    def collect(self, most_bytes: int, found: Iterable[bytes]) -> int:
        """Removes the oldest points while it takes more, then all bytes that neither a point nor what a walk found
        last (`found`) needs. How many points went."""
        with self.transaction():
            self._db.execute("create temp table if not exists found (digest blob primary key) without rowid")
            self._db.execute("delete from found")
            self._db.executemany("insert or ignore into found values (?)", ((digest,) for digest in found))
        gone = 0
        self._sweep()
        while self.size > most_bytes:
            with self.transaction():
                oldest = self._db.execute(
                    "select id from points where state not in ('running', 'restoring') order by id limit 20"
                ).fetchall()
                if not oldest:
                    break
                for table, key in (("paths", "point"), ("needed", "point"), ("points", "id")):
                    self._db.executemany(f"delete from {table} where {key} = ?", oldest)
                gone += len(oldest)
            self._sweep()
        with self._translate_errors():
            self._db.executescript("pragma incremental_vacuum")  # `execute` takes one step, which frees one page
        return gone

    def _sweep(self) -> None:
        """Removes bytes that nobody needs, and frames of which most went."""
        with self.transaction():
            self._db.execute(
                "delete from contents where digest not in (select digest from needed)"
                " and digest not in (select digest from found)"
            )
            self._db.execute("delete from frames where id not in (select frame from contents)")
            sparse = self._db.execute(
                "select frame from contents group by frame"
                " having max(start + size) > 4096 and sum(size) < ? * max(start + size)",
                (_MAX_DEAD_SHARE,),
            ).fetchall()
            self._db.execute("create temp table if not exists sparse (frame integer primary key)")
            self._db.execute("delete from sparse")
            self._db.executemany("insert into sparse values (?)", sparse)
            rows = self._db.execute(
                "select digest, frame from contents where frame in (select frame from sparse) order by frame, start"
            ).fetchall()
            for frame, group in groupby(rows, key=itemgetter(1)):
                kept = [(digest, self.content(digest)) for digest, _ in group]
                self._db.executemany("delete from contents where digest = ?", [(digest,) for digest, _ in kept])
                self._db.execute("delete from frames where id = ?", (frame,))
                self.put(kept)


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
