"""The process that brings the search index up to date in the background. It may be killed at any time."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from ebbtide.agent.archive.indexer import Indexer
from ebbtide.agent.archive.semantic_search import EmbeddingFailed, load_semantic_search
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.blobs import BlobStore
from ebbtide.store.index_lock import IndexLock
from ebbtide.store.sessions import SessionStore

_NICENESS = 10
"""By how much the priority is lowered, because the user's programs come first."""


def main(database: str, blobs: str, descriptor: str, model: str) -> int:
    """Index everything that is stored, including what is stored meanwhile. `descriptor`: the file descriptor of the
    `IndexLock`, which this process holds until it ends. `model`: the folder of the model for search by meaning, or
    empty."""
    os.nice(_NICENESS)
    if not Path(database).exists():  # opening it would create it
        return 1
    with suppress(StoreFailed):  # the next search says what is missing, and starts another process
        asyncio.run(
            _index_everything(Path(database), Path(blobs) if blobs else None, IndexLock(int(descriptor)), model)
        )
    return 0


async def _index_everything(database: Path, blobs: Path | None, lock: IndexLock, model: str) -> None:
    thread = StoreThread(lambda: SessionStore(database, blobs=BlobStore(blobs) if blobs is not None else None))
    try:
        store = await thread.open()
        if store.shared_path is None:  # it has become read-only
            return
        await Indexer(thread, store).index_everything(lock)
        if model:
            with suppress(EmbeddingFailed):  # a search reports it
                await load_semantic_search().open_index(thread, store, model).index_everything()
    finally:
        await thread.close()
