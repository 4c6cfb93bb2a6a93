"""Saves what is readable in a damaged session database to a new one. The damaged one is moved aside, never deleted."""

import fcntl
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

from ebbtide.store.connection import copy_file, is_open_elsewhere, open_connection, written_size
from ebbtide.store.errors import StoreError, translate_os_errors, translate_sqlite_errors
from ebbtide.store.salvage import PAGE_SIZES, Bytes, BytesOnDisk, SalvagedRow, is_log_damaged, rows_in, rows_in_log
from ebbtide.store.sessions import SessionStore

TABLES = (
    "sessions", "messages", "usage", "rewrites", "snapshots", "situation", "outputs", "summaries", "views",
    "calibrations", "tool_uses", "accesses",
)  # fmt: skip
"""Tables that cannot be rebuilt, sessions first. The search index can."""

NOT_SALVAGED = ("calibrations", "tool_uses", "accesses")
"""Tables that are only copied through SQLite and not salvaged, since their data is learned again."""

_ROWS = 500
_TEMP_PREFIX = "repair-"
"""Name prefix of temporary repair folders."""
_LOG = "-wal"


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The result of a repair."""

    damaged_path: Path
    """Where the damaged database is now."""
    saved: Mapping[str, int]
    """Number of rows in the new database, by table."""
    lost: tuple[str, ...]
    """Known losses, one phrase each."""


def is_damaged(path: Path, problems: Iterable[str]) -> bool:
    """Whether the database needs repair. `problems` are those found by SQLite."""
    log = path.with_name(f"{path.name}-wal")
    with translate_os_errors(path.parent):
        if not log.exists() or log.stat().st_size == 0:
            return any(problems)
        is_gone = not path.exists() or path.stat().st_size == 0
        with closing(BytesOnDisk(log, written_size(log))) as data:
            return any(problems) or is_gone or is_log_damaged(data)


def repair_database(path: Path, tick: Callable[[], None] = lambda: None) -> RepairResult:
    """Replace a damaged database by a new one with everything that is readable. `tick` is called repeatedly. Raises
    `StoreError`, also if another program has the database open; in that case nothing is changed."""
    with _alone(path.parent):
        before = _state_of(path)
        with translate_os_errors(path.parent):
            folder = Path(tempfile.mkdtemp(prefix=_TEMP_PREFIX, dir=path.parent))
        try:
            with translate_os_errors(path.parent):
                copy, new = folder / "damaged.db", folder / "sessions.db"
                for ending in ("", _LOG):
                    if path.with_name(path.name + ending).is_file():  # a device could be read endlessly
                        copy_file(path.with_name(path.name + ending), copy.with_name(copy.name + ending))
                copy.touch()
            saved, lost = _save(copy, new, tick)
            with translate_os_errors(path.parent):
                if _state_of(path) != before or (path.exists() and is_open_elsewhere(path)):
                    raise StoreError(
                        "in use", f"another program is using the session database `{path}`; close it first"
                    )
                return RepairResult(_exchange(path, new), saved, lost)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Exclude other repairs, and remove what killed ones left behind."""
    with translate_os_errors(folder):
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError("in use", "the session database is being repaired by another program") from error
        for left in folder.glob(f"{_TEMP_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(handle)


def _state_of(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """Size and modification time of the database and its log, which change with every write."""
    files = [path.with_name(path.name + ending) for ending in ("", _LOG)]
    with translate_os_errors(path.parent):
        states = [file.stat() if file.exists() else None for file in files]
    return tuple((state.st_size, state.st_mtime_ns) if state else None for state in states)


def _exchange(path: Path, new: Path) -> Path:
    """Move the damaged database aside and the new one in its place; return the new path of the damaged one. It is
    linked under both names first, so that a database exists at the old path even if the process is killed."""
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    number = 1
    while aside.exists():
        number += 1
        aside = aside.with_name(f"{aside.name.partition('~')[0]}~{number}")
    with suppress(FileNotFoundError):
        _link(path, aside)
    with suppress(FileNotFoundError):
        os.replace(path.with_name(path.name + _LOG), aside.with_name(aside.name + _LOG))
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)  # recreated from the log
    os.replace(new, path)
    return aside


def _link(path: Path, name: Path) -> None:
    try:
        os.link(path, name, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without hard links
        os.replace(path, name)


def _save(copy: Path, new: Path, tick: Callable[[], None]) -> tuple[Mapping[str, int], tuple[str, ...]]:
    log = copy.with_name(f"{copy.name}-wal")
    data: Bytes = b""
    if copy.stat().st_size:
        with copy.open("rb") as file:
            data = mmap(file.fileno(), 0, access=ACCESS_READ)
    with ExitStack() as stack:
        log_data: Bytes = b""
        if log.exists():  # opened first, since SQLite deletes it if there is no database
            log_data = stack.enter_context(closing(BytesOnDisk(log, written_size(log))))
        return _salvage_rows(copy, new, data, log_data, tick)


def _salvage_rows(
    copy: Path, new: Path, data: Bytes, log_data: Bytes, tick: Callable[[], None]
) -> tuple[Mapping[str, int], tuple[str, ...]]:
    with closing(SessionStore(new)) as store, translate_sqlite_errors(new):
        unread = _copy_rows(store, copy, tick)
        if unread or is_log_damaged(log_data):
            _add(store, rows_in_log(log_data, data), tick)
        if unread:
            for size in _page_sizes(data):
                _add(store, (row for row in rows_in(data, size) if row.table in unread), tick)
        _add_sessions(store)
        store.query("pragma wal_checkpoint(truncate)")
        saved = {table: int(store.query(f"select count(*) from {table}")[0][0]) for table in TABLES}
        gaps = _gaps(store)
    unreadable = [f"some rows of `{table}`" for table in sorted(unread & set(NOT_SALVAGED))]
    return saved, (*unreadable, *gaps)


def _page_sizes(data: Bytes) -> tuple[int, ...]:
    """Return the page size in the header, or the most likely ones."""
    said = int.from_bytes(data[16:18], "big") if data[:6] == b"SQLite" else 0
    said = 65536 if said == 1 else said
    return (said,) if said in PAGE_SIZES else PAGE_SIZES[:3]


def _copy_rows(store: SessionStore, copy: Path, tick: Callable[[], None]) -> frozenset[str]:
    """Copy what SQLite can read; return the tables that were not read completely."""
    unread = set[str]()
    try:
        source = open_connection(copy, 1.0)
    except sqlite3.Error:
        return frozenset(TABLES)
    with closing(source):
        with suppress(sqlite3.Error):
            source.execute("pragma writable_schema = on")  # allows reading the intact part of a damaged schema
        for table in TABLES:
            try:
                columns = _common_columns(source, store, table)
            except sqlite3.Error:
                columns = []
            if not columns or not _copy_table(store, source, table, columns, tick):
                unread.add(table)
    return frozenset(unread)


def _common_columns(source: sqlite3.Connection, store: SessionStore, table: str) -> list[str]:
    theirs = {row[1] for row in source.execute(f"pragma table_info({table})")}
    return [row[1] for row in store.query(f"pragma table_info({table})") if row[1] in theirs]


def _copy_table(
    store: SessionStore, source: sqlite3.Connection, table: str, columns: list[str], tick: Callable[[], None]
) -> bool:
    """Copy a table from its start and, if that fails, from its end. Return whether it was read completely."""
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    insert = f"insert or ignore into {table} ({names}) values ({marks})"
    for order in ("", " order by 1 desc, 2 desc"):
        rows, is_whole = _read(source, f"select {names} from {table} not indexed{order}")
        for some in rows:
            _insert(store, insert, some)
            tick()
        if is_whole():
            return not order
    return False


def _read(source: sqlite3.Connection, sql: str) -> tuple[Iterator[list[tuple[object, ...]]], Callable[[], bool]]:
    """Return batches of rows up to the first error, and a function that returns whether there was none."""
    errors = list[sqlite3.Error]()

    def rows() -> Iterator[list[tuple[object, ...]]]:
        some: list[tuple[object, ...]] = []
        try:
            for row in source.execute(sql):
                some.append(row)
                if len(some) >= _ROWS:
                    yield some
                    some = []
        except sqlite3.Error as error:
            errors.append(error)
        yield some

    return rows(), lambda: not errors


def _insert(store: SessionStore, insert: str, rows: Iterable[tuple[object, ...]]) -> None:
    """Insert rows, skipping those that the table rejects. Foreign keys are checked later."""
    store.query("pragma foreign_keys = off")
    with store.transaction() as db:
        for row in rows:
            with suppress(sqlite3.IntegrityError, sqlite3.InterfaceError, OverflowError):
                db.execute(insert, row)


def _add(store: SessionStore, rows: Iterator[SalvagedRow], tick: Callable[[], None]) -> None:
    columns = {table: [row[1] for row in store.query(f"pragma table_info({table})")] for table in TABLES}
    for row in rows:
        names = columns[row.table][: len(row.values)]
        pairs = [pair for pair in zip(names, row.values, strict=True) if pair != ("id", None)]
        insert = (
            f"insert or ignore into {row.table} ({', '.join(name for name, _ in pairs)}) "
            f"values ({', '.join('?' * len(pairs))})"
        )
        _insert(store, insert, [tuple(value for _, value in pairs)])
        tick()


def _add_sessions(store: SessionStore) -> None:
    """Create sessions for messages whose session is lost, and remove rows that belong to no session."""
    with store.transaction() as db:
        lost = db.execute(
            "select session, min(created), max(created) from messages where session not in (select id from sessions) "
            "group by session"
        ).fetchall()
        for session, first, last in lost:
            db.execute(
                "insert or ignore into sessions (id, project, title, model, mode, created, updated) "
                "values (?, coalesce((select project from sessions order by updated desc limit 1), ''), "
                "'(recovered)', '', 'ask', ?, ?)",
                (session, first, last),
            )
        db.execute("update sessions set parent = null where parent not in (select id from sessions)")
        for table in TABLES[2:9]:
            db.execute(f"delete from {table} where session not in (select id from sessions)")
        db.execute("delete from accesses where session not in (select id from sessions)")


def _gaps(store: SessionStore) -> tuple[str, ...]:
    """Report missing messages, counting from positions recorded in any saved table."""
    found = store.query(
        "select s.id, (select count(*) from messages where session = s.id), "
        "max(coalesce((select max(position) + 1 from messages where session = s.id), 0), "
        "coalesce((select position from snapshots where session = s.id), 0), "
        "coalesce((select max(position) + 1 from outputs where session = s.id), 0)) from sessions s"
    )
    return tuple(
        f"{known - saved:,} of the {known:,} message{'' if known == 1 else 's'} of session {session}"
        for session, saved, known in found
        if known > saved
    )
