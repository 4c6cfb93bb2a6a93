"""What a configuration says of outputs that leave the view: where they are kept, how they are shown, when they go."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from agent.archive import Archive
from agent.config import Config, Folders
from agent.context.estimate import count_text
from agent.context.offload import Offloading
from agent.errors import StoreFailed
from agent.filelog import FileLog
from agent.garbage import excess_to_tell, remove_garbage
from agent.parts import Parts
from agent.recall import Recall, fetching, looking_up
from agent.shelf import Shelf
from agent.storethread import StoreThread
from store.blobs import Blobs
from store.errors import StoreError
from store.sessions import SessionStore
from tools.base import ReadLimits
from tools.scope import Scope
from tools.tool_output_cache import unlisted_tools

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


def with_archive(parts: Parts, thread: StoreThread, store: SessionStore, project: str, config: Config) -> Parts:
    """The parts of a session that keeps what leaves its view. `project` is the session's own."""
    archive = Archive(thread, store, parts.recorder.session, project)
    model, missing = config.recall_embedding_model, ""
    if model is not None:
        from agent.embedding import what_is_missing  # noqa: PLC0415  # deferred: few runs look for meanings

        missing = what_is_missing(model)
    recall = Recall(
        thread,
        store,
        archive,
        parts.recorder.session,
        project,
        config.recall_scope,
        parts.debug,
        None if missing else model,
    )
    fetch = fetching(recall)
    over = ""
    if store.blobs is not None and config.archive_max_bytes is not None:
        over = excess_to_tell(store.blobs.folder, config.archive_max_bytes)
    return replace(
        parts,
        archive=archive,
        recall=recall,
        notices=(*parts.notices, *filter(None, (missing, over))),
        shelf=Shelf(thread, store, archive, parts.recorder.session),
        files=FileLog(thread, store, parts.recorder, parts.workspace.root),
        offloading=Offloading(
            config.result_offload_threshold, config.preview_bytes, config.max_message_bytes, config.tool_output_mode
        ),
        unlisted=unlisted_tools(),
        workspace=replace(
            parts.workspace,
            kept=lambda ref: fetch(ref, None),
            fetch=fetch,
            look_up=looking_up(recall),
            measure=lambda text: parts.meter.estimator.tokens(count_text(text, parts.meter.ruler)),
            reads=ReadLimits(config.max_message_bytes, config.max_line_length),
        ),
    )


def recall_of(
    thread: StoreThread,
    store: SessionStore,
    session: str,
    project: str,
    everywhere: bool,
    embedding_model: str | None = None,
) -> Recall:
    """What the user may look up from a session, which need not be open."""
    scope: Scope = "all" if everywhere else "project"
    archive = Archive(thread, store, session, project)
    return Recall(thread, store, archive, session, project, scope, embedding_model=embedding_model)


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
