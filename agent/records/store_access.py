"""Opens the session store, cleans it up, and locks sessions."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent import records
from ebbtide.agent.config.values import Config, Folders
from ebbtide.agent.errors import StoreFailed
from ebbtide.store.blobs import BlobStore
from ebbtide.store.errors import StoreError
from ebbtide.store.locks import SessionLock
from ebbtide.store.sessions import SessionStore

if TYPE_CHECKING:  # imported for types only, because listing sessions needs no thread
    from ebbtide.agent.records.store_thread import StoreThread

DAY_SECONDS = 86_400.0


def open_store(config: Config, *, is_ephemeral: bool) -> SessionStore:
    """Open the session database and its blobs. If the store is ephemeral, call `clean_up` to remove its blobs."""
    if is_ephemeral:
        return SessionStore(":memory:", blobs=BlobStore(Path(tempfile.mkdtemp(prefix="ebb-blobs-"))))
    return _store_in(config.folders)


def _store_in(folders: Folders) -> SessionStore:
    return SessionStore(folders.data / "sessions.db", blobs=BlobStore(folders.data / "blobs"))


@contextmanager
def open_store_briefly(folders: Folders) -> Iterator[SessionStore]:
    """Open the session database for a short operation in the current thread. Raises `StoreFailed` for any store error,
    including errors in the `with` block."""
    try:
        with closing(_store_in(folders)) as store:
            yield store
    except StoreError as error:
        raise StoreFailed(str(error), error.reason) from error


async def delete_session(thread: "StoreThread", store: SessionStore, session_id: str, *, is_copy: bool = False) -> None:
    """Delete a session and its entries in the search index. `is_copy`: another session contains the same text, so the
    word index is still valid and need not be rebuilt, which is slow."""
    await thread.run(delete_session_rows, store, session_id)
    if not is_copy:
        await thread.run(reset_word_index, store)


def delete_session_rows(store: SessionStore, session_id: str) -> None:
    """Delete a session and its entries in the search index, except for the word index. Raises `StoreError`."""
    from ebbtide.store.search import SearchIndex  # noqa: PLC0415  # deferred: most runs search nothing

    try:
        store.delete(session_id)
    except StoreError as error:
        if error.reason not in ("corrupt", "unreadable"):
            raise
        SearchIndex(store).clear()  # a damaged index must not prevent deletion
        store.delete(session_id)


def reset_word_index(store: SessionStore) -> None:
    """Reset the word index, because it may contain words that occurred only in deleted sessions. Raises
    `StoreError`."""
    from ebbtide.store.search import SearchIndex  # noqa: PLC0415  # deferred: as above

    SearchIndex(store).reset_word_parts()


async def clean_up(thread: "StoreThread", store: SessionStore, config: Config, *, is_ephemeral: bool) -> None:
    """Run `remove_store_garbage`, or delete the blobs of an ephemeral store."""
    if not is_ephemeral:
        await thread.run(remove_store_garbage, store, config)
    elif store.blobs is not None:
        shutil.rmtree(store.blobs.folder, ignore_errors=True)


def remove_store_garbage(store: SessionStore, config: Config) -> None:
    """Remove garbage beyond the configured age and size. Once a day, also remove unneeded blobs. Must be called in the
    store's thread."""
    blobs, max_age_days, max_bytes = store.blobs, config.archive_max_age, config.archive_max_bytes
    if blobs is None or store.is_read_only:
        return
    with suppress(StoreError, OSError):  # the next day's run tries again
        has_limits = max_age_days is not None or max_bytes is not None
        if has_limits or _claim_daily_cleanup(blobs.folder):
            oldest_time = None if max_age_days is None else time.time() - max_age_days * DAY_SECONDS
            records.garbage.remove_garbage(
                store, config.folders.data / "locks", older_than=oldest_time, max_bytes=max_bytes
            )


def _claim_daily_cleanup(folder: Path) -> bool:
    """Whether the daily clean-up is due. If it is, record the time, so that calls in the next 24 hours return false."""
    marker_path = folder / "tidied"
    try:
        if folder.is_dir() and (not marker_path.exists() or time.time() - marker_path.stat().st_mtime > DAY_SECONDS):
            marker_path.touch(mode=0o600)
            return True
    except OSError:
        pass  # tried again another day
    return False


def outputs_folder(config: Config, session_id: str) -> Path:
    """Return the folder to which a session's commands write output before it is stored."""
    return config.folders.data / "outputs" / session_id


def lock_session(config: Config, session_id: str) -> SessionLock:
    """Lock a session. Raises `StoreFailed` if another program holds the lock."""
    folder = config.folders.data / "locks"
    lock = SessionLock(folder, session_id)
    try:
        lock.acquire()
    except StoreError as error:
        raise StoreFailed(str(error), error.reason) from error
    except OSError as error:
        raise StoreFailed(f"cannot write to `{folder}`: {error.strerror or error}", "unreadable") from error
    return lock
