"""The store of a configuration: opened, tidied and locked, and where it keeps outputs."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.config.values import Config, Folders
from agent.errors import StoreFailed
from agent.records.garbage import remove_garbage
from agent.records.store_thread import StoreThread
from store.blobs import Blobs
from store.errors import StoreError
from store.locks import SessionLock
from store.sessions import SessionStore

DAY = 86_400.0


def open_store(config: Config, *, ephemeral: bool) -> SessionStore:
    """The session database with the bytes that are too large for it. An ephemeral one goes with `tidy`."""
    if ephemeral:
        return SessionStore(":memory:", blobs=Blobs(Path(tempfile.mkdtemp(prefix="ebb-blobs-"))))
    return _store_in(config.folders)


def _store_in(folders: Folders) -> SessionStore:
    return SessionStore(folders.data / "sessions.db", blobs=Blobs(folders.data / "blobs"))


@contextmanager
def opened_store(folders: Folders) -> Iterator[SessionStore]:
    """The session database for work that is done at once and in this thread. Raises `StoreFailed`, also for what the
    work meets."""
    try:
        store = _store_in(folders)
        try:
            yield store
        finally:
            store.close()
    except StoreError as error:
        raise StoreFailed(str(error), error.reason) from error


async def forget(thread: StoreThread, store: SessionStore, session: str, *, is_copy: bool = False) -> None:
    """Deletes a session with all that a search finds of it. `is_copy`: all that was said in it was said elsewhere, too,
    so the words of the index stay, which take long to be collected again."""
    from store.search import SearchIndex  # noqa: PLC0415  # deferred: most runs look nothing up

    index = SearchIndex(store)
    try:
        await thread.run(store.delete, session)
    except StoreFailed as error:
        if error.reason not in ("corrupt", "unreadable"):
            raise
        await thread.run(index.rebuild)  # a damaged index must not keep a session from going
        await thread.run(store.delete, session)
    if not is_copy:
        await thread.run(index.forget_words)


async def tidy(thread: StoreThread, store: SessionStore, config: Config, *, ephemeral: bool) -> None:
    """Removes garbage by its age and size, where the user wants that, and once a day kept bytes that nobody needs."""
    blobs = store.blobs
    if blobs is None or store.is_read_only:
        return
    if ephemeral:
        shutil.rmtree(blobs.folder, ignore_errors=True)
        return
    age, locks = config.archive_max_age, config.folders.data / "locks"
    with suppress(StoreFailed, OSError):  # what is not removed today is removed another day
        if age is not None or config.archive_max_bytes is not None:
            oldest = None if age is None else time.time() - age * DAY
            await thread.run(remove_garbage, store, locks, older_than=oldest, most_bytes=config.archive_max_bytes)
        elif _is_due(blobs.folder):
            await thread.run(remove_garbage, store, locks)


def _is_due(folder: Path) -> bool:
    """Whether a day has passed since this was last true."""
    stamp = folder / "tidied"
    try:
        if folder.is_dir() and (not stamp.exists() or time.time() - stamp.stat().st_mtime > DAY):
            stamp.touch(mode=0o600)
            return True
    except OSError:
        pass  # then it is not due today
    return False


def outputs_folder(config: Config, session: str) -> Path:
    """Where a session's commands print until that is stored."""
    return config.folders.data / "outputs" / session


def lock_session(config: Config, session: str) -> SessionLock:
    """The lock of a session, taken. Raises `StoreFailed` when another program has it."""
    folder = config.folders.data / "locks"
    lock = SessionLock(folder, session)
    try:
        lock.acquire()
    except StoreError as error:
        raise StoreFailed(str(error), error.reason) from error
    except OSError as error:
        raise StoreFailed(f"cannot write to `{folder}`: {error.strerror or error}", "unreadable") from error
    return lock
