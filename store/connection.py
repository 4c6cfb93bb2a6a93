"""Opens a session database for writing, or read-only if it cannot be written, and backs it up before migrations."""

import errno
import fcntl
import os
import shutil
import sqlite3
import sys
import tempfile
import time
import weakref
from contextlib import closing, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path

from ebbtide.store.errors import StoreError, translate_sqlite_errors
from ebbtide.store.migrations import MIGRATIONS
from ebbtide.store.open_databases import OpenDatabase, is_open_in_process


def message_digest(role: str, body: str) -> str:
    """Compute the digest of a message's role and body."""
    return blake2b(f"{role}\0{body}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def matches_digest(role: object, body: object, digest: object) -> bool:
    """Whether role and body are text and match the digest. Messages from earlier versions have no digest and always
    match."""
    if not isinstance(role, str) or not isinstance(body, str):
        return False
    return digest is None or message_digest(role, body) == digest


_LOG_HEADER_BYTES = 32
_SHARED_BYTES = (0x40000002, 510)
"""Offset and length of the byte range that every connection to an SQLite database locks in shared mode."""
_REPAIR_ADVICE = "`ebb doctor --repair` saves what can be read"

_COPY_CHUNK_BYTES = 1 << 20
"""Number of bytes copied at a time."""
_STALE_COPY_S = 300.0
"""Age, in seconds, at which an unfinished copy is considered abandoned."""
MAX_BACKUPS = 2
"""Maximum number of backups kept from before migrations."""


def open_connection(path: Path | str, timeout: float, *, uri: bool = False) -> OpenDatabase:
    """Open a connection. Invalid UTF-8 in text is replaced. Message digests reveal such damage."""
    db = sqlite3.connect(path, isolation_level=None, timeout=timeout, uri=uri, factory=OpenDatabase)
    if isinstance(path, Path):
        db.register(path)
    db.create_function("message_digest", 2, message_digest, deterministic=True)
    db.text_factory = partial(str, encoding="utf-8", errors="replace")
    return db


def ensure_database_file(path: Path) -> bool:
    """Create the database file if it does not exist, and return whether it can be written. A database that this process
    already has open is not opened again. Raises `StoreError` if the file can be neither created nor read, or if its log
    must be repaired first."""
    if is_open_in_process(path):
        return os.access(path.parent, os.W_OK)
    require_intact_log(path)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return os.access(path.parent, os.W_OK)  # SQLite creates files in this folder
    except OSError as error:
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) and os.access(path, os.R_OK):
            return False
        reason = error.strerror or str(error)
        raise StoreError("unreadable", f"cannot open the session database `{path}`: {reason}") from error


def require_intact_log(path: Path) -> None:
    """Raise `StoreError` if SQLite would discard transactions in the log because the log is damaged or the database is
    missing. A database that this process has open was already checked."""
    if is_open_in_process(path):
        return
    log = path.with_name(f"{path.name}-wal")
    try:
        if not log.is_file() or log.stat().st_size <= _LOG_HEADER_BYTES or (path.exists() and is_open_elsewhere(path)):
            return
        if not path.exists() or path.stat().st_size == 0:
            raise StoreError(
                "corrupt", f"the session database `{path}` is missing, but its log exists; {_REPAIR_ADVICE}"
            )
        readable_frame_count = _count_readable_frames(path)
        if _may_have_later_commits(log, readable_frame_count):
            from ebbtide.store.salvage import FileBytes, has_unreadable_commits  # noqa: PLC0415  # deferred: few logs are damaged

            with closing(FileBytes(log, written_size(log))) as data:
                if has_unreadable_commits(data, readable_frame_count):
                    raise StoreError(
                        "corrupt", f"the log of the session database `{path}` is damaged; {_REPAIR_ADVICE}"
                    )
    except (OSError, sqlite3.Error):
        return  # opening the database reports the error


def is_open_elsewhere(path: Path) -> bool:
    """Whether another process has the database open and therefore uses the log."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_BYTES[1], _SHARED_BYTES[0])
    except (BlockingIOError, PermissionError):
        return True
    finally:
        os.close(descriptor)
    return False


def _count_readable_frames(path: Path) -> int:
    """Count the log frames that SQLite can read, without changing anything."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)) as db:
        db.execute("select count(*) from sqlite_master").fetchall()
        with path.with_name(f"{path.name}-shm").open("rb") as index:
            return int.from_bytes(index.read(20)[16:], sys.byteorder)


def _may_have_later_commits(log: Path, readable_frame_count: int) -> bool:
    """Whether the log may contain transactions after the first `readable_frame_count` frames, which are all that SQLite
    reads."""
    if readable_frame_count == 0:
        return True  # SQLite reads no frames if the header is damaged
    with log.open("rb", buffering=0) as file:
        descriptor = file.fileno()
        header = os.pread(descriptor, _LOG_HEADER_BYTES, 0)
        frame_size = int.from_bytes(header[8:12], "big") + 24
        for offset in range(
            _LOG_HEADER_BYTES + readable_frame_count * frame_size, written_size(log) - frame_size + 1, frame_size
        ):
            frame_header = os.pread(descriptor, 16, offset)
            if any(frame_header[4:8]) and frame_header[8:16] == header[16:24]:
                return True
    return False


def written_size(path: Path) -> int:
    """Get the size of a file, excluding a hole at its end. Raises `OSError`."""
    with path.open("rb", buffering=0) as file:
        size, end = path.stat().st_size, 0
        try:
            while end < size:
                end = file.seek(file.seek(end, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as error:
            return end if error.errno == errno.ENXIO else size  # the file system does not support holes
        return size


def copy_file(source: Path, target: Path) -> None:
    """Copy a file without its holes. In a log, a hole may be larger than any disk. Raises `OSError`."""
    with source.open("rb", buffering=0) as source_file, target.open("wb", buffering=0) as target_file:
        size, end = os.fstat(source_file.fileno()).st_size, 0
        while end < size:
            try:
                start = source_file.seek(end, os.SEEK_DATA)
                end = min(source_file.seek(start, os.SEEK_HOLE), size)
            except OSError as error:
                if error.errno == errno.ENXIO:  # only a hole remains
                    break
                start, end = end, size  # file system without support for holes
            source_file.seek(start)
            target_file.seek(start)
            while (remaining := end - source_file.tell()) > 0 and (
                data := source_file.read(min(remaining, _COPY_CHUNK_BYTES))
            ):
                while data:
                    data = data[target_file.write(data) :]
        target_file.truncate(size)


def open_read_only(path: Path, timeout: float) -> sqlite3.Connection:
    """Open a database that cannot be written. If SQLite would have to write in order to read it, or if it needs a
    migration, a temporary copy is opened instead. The copy is deleted together with the connection."""
    with translate_sqlite_errors(path):
        wal = path.with_name(f"{path.name}-wal")
        has_log = wal.exists() and wal.stat().st_size > 0
        if not has_log:
            db = open_connection(f"{path.absolute().as_uri()}?mode=ro&immutable=1", timeout, uri=True)
            if db.execute("pragma user_version").fetchone()[0] >= len(MIGRATIONS):
                return db
            db.close()
        return open_copy(path, timeout)


def open_copy(path: Path, timeout: float) -> sqlite3.Connection:
    """Open a temporary copy of a database and its log. The copy is deleted together with the connection."""
    folder = Path(tempfile.mkdtemp(prefix="ebb-store-"))
    try:
        for file in (path, path.with_name(f"{path.name}-wal")):
            if file.exists():
                copy_file(file, folder / file.name)
        db = open_connection(folder / path.name, timeout)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise StoreError("unreadable", f"cannot copy the session database `{path}`: {error.strerror}") from error
    weakref.finalize(db, shutil.rmtree, folder, ignore_errors=True)
    return db


def back_up(db: sqlite3.Connection, path: Path, version: int) -> str:
    """Back up the database before a migration. Returns a message for the user, which is empty if another process has
    already migrated the database. Raises `StoreError`."""
    backup_path, part_path = path.with_name(f"{path.name}.v{version}-backup"), None
    try:
        for abandoned in path.parent.glob(f"{path.name}.v*-backup.*.part"):
            if time.time() - abandoned.stat().st_mtime > _STALE_COPY_S:
                abandoned.unlink(missing_ok=True)
        descriptor, name = tempfile.mkstemp(".part", f"{backup_path.name}.", path.parent)
        os.close(descriptor)
        part_path = Path(name)
        with translate_sqlite_errors(backup_path), closing(sqlite3.connect(part_path)) as target:
            target.execute("pragma journal_mode = off")  # an incomplete copy is discarded anyway
            db.backup(target)
            ((copied_version,),) = target.execute("pragma user_version").fetchall()
        if copied_version != version:
            part_path.unlink()
            return ""
        os.replace(part_path, backup_path)
    except (StoreError, OSError) as error:
        with suppress(OSError):
            if part_path is not None:
                part_path.unlink(missing_ok=True)
        raise StoreError(
            getattr(error, "reason", "unreadable"),
            f"the session database `{path}` is of an older version and cannot be backed up: {error}",
        ) from error
    backups = sorted(path.parent.glob(f"{path.name}.v*-backup"), key=lambda backup: backup.stat().st_mtime)
    for old_backup in backups[:-MAX_BACKUPS]:
        old_backup.unlink(missing_ok=True)
    return f"the session database was upgraded; a backup is in `{backup_path}`"
