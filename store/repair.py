"""Copies the readable content of a damaged session database to a new one. The damaged database is renamed, never
deleted."""

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
from ebbtide.store.salvage import PAGE_SIZES, Bytes, FileBytes, SalvagedRow, is_log_damaged, rows_in_log, rows_in_pages
from ebbtide.store.sessions import SessionStore

SAVED_TABLES = (
    "sessions", "messages", "usage", "rewrites", "snapshots", "situation", "outputs", "summaries", "views",
    "calibrations", "tool_uses", "accesses",
)  # fmt: skip
"""Tables to save, sessions first. The search index is left out because it can be rebuilt."""

UNSALVAGED_TABLES = ("calibrations", "tool_uses", "accesses")
"""Tables that are copied only if SQLite can read them. They are not worth salvaging, because their data builds up
again."""

_ROWS_PER_BATCH = 500
_TEMP_PREFIX = "repair-"
"""Name prefix of temporary repair folders."""
_LOG_SUFFIX = "-wal"


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The result of a repair."""

    damaged_path: Path
    """Where the damaged database was moved."""
    saved_rows: Mapping[str, int]
    """Number of rows in the new database, by table."""
    lost: tuple[str, ...]
    """The known losses, each as a short phrase."""


def is_damaged(path: Path, problems: Iterable[str]) -> bool:
    """Whether the database needs repair. `problems`: the problems reported by SQLite."""
    log = path.with_name(f"{path.name}-wal")
    with translate_os_errors(path.parent):
        if not log.exists() or log.stat().st_size == 0:
            return any(problems)
        is_gone = not path.exists() or path.stat().st_size == 0
        with closing(FileBytes(log, written_size(log))) as data:
            return any(problems) or is_gone or is_log_damaged(data)


def repair_database(path: Path, on_tick: Callable[[], None] = lambda: None) -> RepairResult:
    """Replace a damaged database with a new one that contains everything readable. `on_tick` is called repeatedly. If
    this is impossible, for example because another program has the database open, nothing is changed and `StoreError`
    is raised."""
    with _repair_lock(path.parent):
        initial_states = _file_states(path)
        with translate_os_errors(path.parent):
            folder = Path(tempfile.mkdtemp(prefix=_TEMP_PREFIX, dir=path.parent))
        try:
            with translate_os_errors(path.parent):
                damaged_copy, new_path = folder / "damaged.db", folder / "sessions.db"
                for suffix in ("", _LOG_SUFFIX):
                    if path.with_name(path.name + suffix).is_file():  # reading a device might never end
                        copy_file(
                            path.with_name(path.name + suffix), damaged_copy.with_name(damaged_copy.name + suffix)
                        )
                damaged_copy.touch()
            saved, lost = _save_readable_rows(damaged_copy, new_path, on_tick)
            with translate_os_errors(path.parent):
                if _file_states(path) != initial_states or (path.exists() and is_open_elsewhere(path)):
                    raise StoreError(
                        "in use", f"another program is using the session database `{path}`; close it first"
                    )
                return RepairResult(_replace_database(path, new_path), saved, lost)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _repair_lock(folder: Path) -> Iterator[None]:
    """Prevent other repairs inside the context, and remove the temporary folders of repairs that were killed."""
    with translate_os_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError("in use", "the session database is being repaired by another program") from error
        for abandoned in folder.glob(f"{_TEMP_PREFIX}*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)


def _file_states(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """Get the sizes and modification times of the database and its log, which change with every write."""
    files = [path.with_name(path.name + suffix) for suffix in ("", _LOG_SUFFIX)]
    with translate_os_errors(path.parent):
        states = [file.stat() if file.exists() else None for file in files]
    return tuple((state.st_size, state.st_mtime_ns) if state else None for state in states)


def _replace_database(path: Path, new_path: Path) -> Path:
    """Rename the damaged database and move the new one to its path. Returns the damaged database's new path. The new
    name is first created as a hard link, so that a database exists at the original path even if the process is
    killed."""
    damaged = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    suffix_number = 1
    while damaged.exists():
        suffix_number += 1
        damaged = damaged.with_name(f"{damaged.name.partition('~')[0]}~{suffix_number}")
    with suppress(FileNotFoundError):
        _link(path, damaged)
    with suppress(FileNotFoundError):
        os.replace(path.with_name(path.name + _LOG_SUFFIX), damaged.with_name(damaged.name + _LOG_SUFFIX))
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)  # SQLite recreates it from the log
    os.replace(new_path, path)
    return damaged


def _link(path: Path, new_path: Path) -> None:
    try:
        os.link(path, new_path, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # the file system has no hard links
        os.replace(path, new_path)


def _save_readable_rows(
    damaged_copy: Path, new_path: Path, on_tick: Callable[[], None]
) -> tuple[Mapping[str, int], tuple[str, ...]]:
    log = damaged_copy.with_name(f"{damaged_copy.name}-wal")
    data: Bytes = b""
    if damaged_copy.stat().st_size:
        with damaged_copy.open("rb") as file:
            data = mmap(file.fileno(), 0, access=ACCESS_READ)
    with ExitStack() as stack:
        log_data: Bytes = b""
        if log.exists():  # the log must be opened before SQLite runs, which deletes a log without a database
            log_data = stack.enter_context(closing(FileBytes(log, written_size(log))))
        return _salvage_rows(damaged_copy, new_path, data, log_data, on_tick)


def _salvage_rows(
    damaged_copy: Path, new_path: Path, data: Bytes, log_data: Bytes, on_tick: Callable[[], None]
) -> tuple[Mapping[str, int], tuple[str, ...]]:
    with closing(SessionStore(new_path)) as store, translate_sqlite_errors(new_path):
        incomplete = _copy_rows(store, damaged_copy, on_tick)
        if incomplete or is_log_damaged(log_data):
            _insert_salvaged(store, rows_in_log(log_data, data), on_tick)
        if incomplete:
            for size in _page_sizes(data):
                _insert_salvaged(store, (row for row in rows_in_pages(data, size) if row.table in incomplete), on_tick)
        _restore_missing_sessions(store)
        store.query("pragma wal_checkpoint(truncate)")
        saved = {table: int(store.query(f"select count(*) from {table}")[0][0]) for table in SAVED_TABLES}
        notes = _missing_message_notes(store)
    unreadable = [f"some rows of `{table}`" for table in sorted(incomplete & set(UNSALVAGED_TABLES))]
    return saved, (*unreadable, *notes)


def _page_sizes(data: Bytes) -> tuple[int, ...]:
    """Get the page size from the header or, if that is invalid, the most likely page sizes."""
    size = int.from_bytes(data[16:18], "big") if data[:6] == b"SQLite" else 0
    size = 65536 if size == 1 else size
    return (size,) if size in PAGE_SIZES else PAGE_SIZES[:3]


def _copy_rows(store: SessionStore, damaged_copy: Path, on_tick: Callable[[], None]) -> frozenset[str]:
    """Copy the rows that SQLite can read. Returns the tables that could not be read completely."""
    incomplete = set[str]()
    try:
        source = open_connection(damaged_copy, 1.0)
    except sqlite3.Error:
        return frozenset(SAVED_TABLES)
    with closing(source):
        with suppress(sqlite3.Error):
            source.execute("pragma writable_schema = on")  # allows reading the intact part of a damaged schema
        for table in SAVED_TABLES:
            try:
                columns = _common_columns(source, store, table)
            except sqlite3.Error:
                columns = []
            if not columns or not _copy_table(store, source, table, columns, on_tick):
                incomplete.add(table)
    return frozenset(incomplete)


def _common_columns(source: sqlite3.Connection, store: SessionStore, table: str) -> list[str]:
    source_columns = {row[1] for row in source.execute(f"pragma table_info({table})")}
    return [row[1] for row in store.query(f"pragma table_info({table})") if row[1] in source_columns]


def _copy_table(
    store: SessionStore, source: sqlite3.Connection, table: str, columns: list[str], on_tick: Callable[[], None]
) -> bool:
    """Copy a table from its start and, if there is an error, also backwards from its end. Returns whether it was read
    completely."""
    column_names, placeholders = ", ".join(columns), ", ".join("?" * len(columns))
    sql = f"insert or ignore into {table} ({column_names}) values ({placeholders})"
    for order in ("", " order by 1 desc, 2 desc"):
        rows, is_complete = _read_batches(source, f"select {column_names} from {table} not indexed{order}")
        for batch in rows:
            _insert(store, sql, batch)
            on_tick()
        if is_complete():
            return not order
    return False


def _read_batches(
    source: sqlite3.Connection, sql: str
) -> tuple[Iterator[list[tuple[object, ...]]], Callable[[], bool]]:
    """Return an iterator over batches of rows that stops at the first error, and a function that tells whether it read
    everything."""
    errors = list[sqlite3.Error]()

    def batches() -> Iterator[list[tuple[object, ...]]]:
        batch: list[tuple[object, ...]] = []
        try:
            for row in source.execute(sql):
                batch.append(row)
                if len(batch) >= _ROWS_PER_BATCH:
                    yield batch
                    batch = []
        except sqlite3.Error as error:
            errors.append(error)
        yield batch

    return batches(), lambda: not errors


def _insert(store: SessionStore, sql: str, rows: Iterable[tuple[object, ...]]) -> None:
    """Insert rows, skipping those that the table rejects. Foreign keys are checked later."""
    store.query("pragma foreign_keys = off")
    with store.transaction() as db:
        for row in rows:
            with suppress(sqlite3.IntegrityError, sqlite3.InterfaceError, OverflowError):
                db.execute(sql, row)


def _insert_salvaged(store: SessionStore, rows: Iterator[SalvagedRow], on_tick: Callable[[], None]) -> None:
    columns = {table: [row[1] for row in store.query(f"pragma table_info({table})")] for table in SAVED_TABLES}
    for row in rows:
        names = columns[row.table][: len(row.values)]
        pairs = [pair for pair in zip(names, row.values, strict=True) if pair != ("id", None)]
        sql = (
            f"insert or ignore into {row.table} ({', '.join(name for name, _ in pairs)}) "
            f"values ({', '.join('?' * len(pairs))})"
        )
        _insert(store, sql, [tuple(value for _, value in pairs)])
        on_tick()


def _restore_missing_sessions(store: SessionStore) -> None:
    """Recreate lost sessions that still have messages, and remove rows that belong to no session."""
    with store.transaction() as db:
        lost = db.execute(
            "select session, min(created), max(created) from messages where session not in (select id from sessions) "
            "group by session"
        ).fetchall()
        for session, created, updated in lost:
            db.execute(
                "insert or ignore into sessions (id, project, title, model, mode, created, updated) "
                "values (?, coalesce((select project from sessions order by updated desc limit 1), ''), "
                "'(recovered)', '', 'ask', ?, ?)",
                (session, created, updated),
            )
        db.execute("update sessions set parent = null where parent not in (select id from sessions)")
        for table in SAVED_TABLES[2:9]:
            db.execute(f"delete from {table} where session not in (select id from sessions)")
        db.execute("delete from accesses where session not in (select id from sessions)")


def _missing_message_notes(store: SessionStore) -> tuple[str, ...]:
    """For each session with missing messages, say how many are missing. The number is worked out from the positions in
    all saved tables."""
    rows = store.query(
        "select s.id, (select count(*) from messages where session = s.id), "
        "max(coalesce((select max(position) + 1 from messages where session = s.id), 0), "
        "coalesce((select position from snapshots where session = s.id), 0), "
        "coalesce((select max(position) + 1 from outputs where session = s.id), 0)) from sessions s"
    )
    return tuple(
        f"{message_count - saved_count:,} of the {message_count:,} message{'' if message_count == 1 else 's'} "
        f"of session {session}"
        for session, saved_count, message_count in rows
        if message_count > saved_count
    )
