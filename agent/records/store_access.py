"""The store of a configuration: opened, tidied and locked, and where it keeps outputs."""

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

if TYPE_CHECKING:  # a type only: a list of sessions is read in no thread of its own
    from ebbtide.agent.records.store_thread import StoreThread

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
        with closing(_store_in(folders)) as store:
            yield store
    except StoreError as error:
        raise StoreFailed(str(error), error.reason) from error


async def forget(thread: "StoreThread", store: SessionStore, session: str, *, is_copy: bool = False) -> None:
    """Deletes a session with all that a search finds of it. `is_copy`: all that was said in it was said elsewhere, too,
    so the words of the index stay, which take long to be collected again."""
    await thread.run(forget_rows, store, session)
    if not is_copy:
        await thread.run(forget_words, store)


def forget_rows(store: SessionStore, session: str) -> None:
    """Deletes a session with all that a search finds of it but its words. Raises `StoreError`."""
    from ebbtide.store.search import SearchIndex  # noqa: PLC0415  # deferred: most runs look nothing up

    try:
        store.delete(session)
    except StoreError as error:
        if error.reason not in ("corrupt", "unreadable"):
            raise
        SearchIndex(store).rebuild()  # a damaged index must not keep a session from going
        store.delete(session)


def forget_words(store: SessionStore) -> None:
    """Forgets the words of the index, once sessions are deleted that may have held them alone. Raises `StoreError`."""
    from ebbtide.store.search import SearchIndex  # noqa: PLC0415  # deferred: as above

    SearchIndex(store).forget_words()


async def tidy(thread: "StoreThread", store: SessionStore, config: Config, *, ephemeral: bool) -> None:
    """As `tidy_store`. Of an ephemeral store everything goes."""
    if not ephemeral:
        await thread.run(tidy_store, store, config)
    elif store.blobs is not None:
        shutil.rmtree(store.blobs.folder, ignore_errors=True)


def tidy_store(store: SessionStore, config: Config) -> None:
    """Removes garbage by its age and size, where the user wants that, and once a day kept bytes that nobody needs. To
    be called in the thread of the store."""
    blobs, age, most = store.blobs, config.archive_max_age, config.archive_max_bytes
    if blobs is None or store.is_read_only:
        return
    with suppress(StoreError, OSError):  # what is not removed today is removed another day
        has_limits = age is not None or most is not None
        if has_limits or _is_due(blobs.folder):
            from ebbtide.agent.records.garbage import remove_garbage  # noqa: PLC0415  # deferred: most runs have nothing to remove

            oldest = None if age is None else time.time() - age * DAY
            remove_garbage(store, config.folders.data / "locks", older_than=oldest, most_bytes=most)


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
