"""Opens, tidies and locks the session store."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent.config.values import Config, Folders
from ebbtide.agent.errors import StoreFailed
from ebbtide.store.blobs import Blobs
from ebbtide.store.errors import StoreError
from ebbtide.store.locks import SessionLock
from ebbtide.store.sessions import SessionStore

if TYPE_CHECKING:  # types only: listing sessions needs no thread
    from ebbtide.agent.records.store_thread import StoreThread

DAY = 86_400.0


def open_store(config: Config, *, ephemeral: bool) -> SessionStore:
    """Open the session database and its blobs. `tidy` removes those of an ephemeral one."""
    if ephemeral:
        return SessionStore(":memory:", blobs=Blobs(Path(tempfile.mkdtemp(prefix="ebb-blobs-"))))
    return _store_in(config.folders)


def _store_in(folders: Folders) -> SessionStore:
    return SessionStore(folders.data / "sessions.db", blobs=Blobs(folders.data / "blobs"))


@contextmanager
def opened_store(folders: Folders) -> Iterator[SessionStore]:
    """The session database, for short work in the current thread. Raises `StoreFailed` for any store error,
    including those in the `with` block."""
    try:
        with closing(_store_in(folders)) as store:
            yield store
    except StoreError as error:
        raise StoreFailed(str(error), error.reason) from error


async def forget(thread: "StoreThread", store: SessionStore, session: str, *, is_copy: bool = False) -> None:
    """Delete a session with its search index. `is_copy`: all of its text also exists elsewhere, so the word index is
    kept, since rebuilding it is slow."""
    await thread.run(forget_rows, store, session)
    if not is_copy:
        await thread.run(forget_words, store)


def forget_rows(store: SessionStore, session: str) -> None:
    """Delete a session with its search index, except for the words. Raises `StoreError`."""
    from ebbtide.store.search import SearchIndex  # noqa: PLC0415  # deferred: most runs search nothing

    try:
        store.delete(session)
    except StoreError as error:
        if error.reason not in ("corrupt", "unreadable"):
            raise
        SearchIndex(store).rebuild()  # a damaged index must not prevent deletion
        store.delete(session)


def forget_words(store: SessionStore) -> None:
    """Reset the word index, after sessions were deleted that may have been the only ones with some words. Raises
    `StoreError`."""
    from ebbtide.store.search import SearchIndex  # noqa: PLC0415  # deferred: as above

    SearchIndex(store).forget_words()


async def tidy(thread: "StoreThread", store: SessionStore, config: Config, *, ephemeral: bool) -> None:
    """Run `tidy_store`, or delete the blobs of an ephemeral store."""
    if not ephemeral:
        await thread.run(tidy_store, store, config)
    elif store.blobs is not None:
        shutil.rmtree(store.blobs.folder, ignore_errors=True)


def tidy_store(store: SessionStore, config: Config) -> None:
    """Remove garbage beyond the configured age and size, and once a day any unreferenced blobs. Call it in the
    store's thread."""
    blobs, age, most = store.blobs, config.archive_max_age, config.archive_max_bytes
    if blobs is None or store.is_read_only:
        return
    with suppress(StoreError, OSError):  # removal is tried again another day
        has_limits = age is not None or most is not None
        if has_limits or _is_due(blobs.folder):
            from ebbtide.agent.records.garbage import remove_garbage  # noqa: PLC0415  # deferred: most runs have nothing to remove

            oldest = None if age is None else time.time() - age * DAY
            remove_garbage(store, config.folders.data / "locks", older_than=oldest, most_bytes=most)


def _is_due(folder: Path) -> bool:
    """Whether a day has passed since this last returned True."""
    stamp = folder / "tidied"
    try:
        if folder.is_dir() and (not stamp.exists() or time.time() - stamp.stat().st_mtime > DAY):
            stamp.touch(mode=0o600)
            return True
    except OSError:
        pass  # try again another day
    return False


def outputs_folder(config: Config, session: str) -> Path:
    """Where a session's commands write their output until it is stored."""
    return config.folders.data / "outputs" / session


def lock_session(config: Config, session: str) -> SessionLock:
    """Lock a session. Raises `StoreFailed` if another program holds the lock."""
    folder = config.folders.data / "locks"
    lock = SessionLock(folder, session)
    try:
        lock.acquire()
    except StoreError as error:
        raise StoreFailed(str(error), error.reason) from error
    except OSError as error:
        raise StoreFailed(f"cannot write to `{folder}`: {error.strerror or error}", "unreadable") from error
    return lock
