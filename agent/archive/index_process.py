"""Starts the process that brings the search index up to date in the background (`index_worker`)."""

import subprocess
from contextlib import closing, suppress

from ebbtide.store.errors import StoreError
from ebbtide.store.index_lock import IndexLock, last_indexed_message
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.process.own_module import own_module_command

MAX_UNINDEXED_MESSAGES = 500
"""Number of messages that may be missing from the index. A search adds about as many before it answers."""
_WORKER_MODULE = f"{__package__}.index_worker"
_START_DETACHED = ("/bin/sh", "-c", '"$@" &', "sh")
"""Starts a command whose parent is the init process, which collects it when it ends."""


def index_in_background_if_behind(store: SessionStore, model: str | None) -> None:
    """Start the process if many messages are missing from the index, unless another process is indexing. `model`: the
    folder of the model for search by meaning. Must be called in the store's thread."""
    if store.shared_path is None:
        return
    with suppress(StoreError):  # the next search says what is missing
        missing_count = store.last_message_id() - last_indexed_message(store.shared_path)
        # The newest messages may have been deleted, and their ids reused.
        if 0 <= missing_count <= MAX_UNINDEXED_MESSAGES:
            return
        lock = IndexLock.acquire(store.shared_path)
        if lock is not None:
            with closing(lock):
                start_index_process(store, lock, model)


def start_index_process(store: SessionStore, lock: IndexLock, model: str | None) -> bool:
    """Start the process, which inherits the lock. Return whether it was started: a database that no other process can
    open is indexed by searches only."""
    if lock.descriptor is None:
        return False
    blobs = str(store.blobs.folder) if store.blobs is not None else ""
    command = own_module_command(_WORKER_MODULE, str(store.path), blobs, str(lock.descriptor), model or "")
    try:
        subprocess.run(
            (*_START_DETACHED, *command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(lock.descriptor,),
            check=False,
        )
    except OSError:  # the machine runs no more processes; searches index what they need
        return False
    return True
