"""Tracks which files a session has changed, and stores their previous content."""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ebbtide.agent import records
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.records.file_change import ChangeScope, FileChange, FileChanges
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.errors import StoreError
from ebbtide.store.file_versions import ChangeRow, file_changes, save_change
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import AppliedChange, ToolError
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.files.read_write import read_bytes_if_exists

MAX_STORED_FILE_BYTES = 8_000_000
"""Largest file that is stored, in bytes."""


class FileHistory:
    """The changed files of one session."""

    def __init__(self, thread: StoreThread, store: SessionStore, recorder: Recorder, root: Path) -> None:
        self._thread = thread
        self._store = store
        self._recorder = recorder
        self._root = root
        self._recorded_rows: dict[tuple[int, str], ChangeRow] = {}

    async def record_changes(self, applied_changes: Sequence[AppliedChange]) -> None:
        """Store the content that files had before the turn changed them. Failures are ignored."""
        turn, _ = self._recorder.events.turn_start or (0, 0.0)
        for change in applied_changes:
            key = (turn, str(change.path))
            new_digest = "" if change.new_content is None else hashlib.sha256(change.new_content).hexdigest()
            with suppress(StoreFailed, UnicodeEncodeError):
                earlier_row = self._recorded_rows.get(key)
                previous_digest = (
                    earlier_row.old_digest if earlier_row else await self._store_content(change.old_content)
                )
                row = ChangeRow(turn, str(change.path), previous_digest, new_digest, time.time())
                self._recorded_rows[key] = row
                await self._recorder.write_queue.write(save_change, self._store, self._recorder.session_id, row)

    async def _store_content(self, content: bytes | None) -> str | None:
        blobs = self._store.blobs
        if content is None:
            return ""
        if blobs is None or len(content) > MAX_STORED_FILE_BYTES:
            return None
        try:
            return (await asyncio.to_thread(blobs.put, iter([content]), self._recorder.session_id)).digest
        except StoreError:  # the file's previous content then counts as unknown
            return None

    async def changes(self, scope: ChangeScope) -> FileChanges:
        """Return the changes of the last turn or of the whole session. Each file's first stored content is compared
        with its current content; other changes come from git. Raises `StoreFailed`."""
        rows = await self._thread.run(file_changes, self._store, self._recorder.session_id)
        turn_start = self._recorder.events.turn_start
        turn = turn_start[0] if turn_start else max((row.turn for row in rows), default=0)
        start_time = 0.0
        if scope == "turn":
            rows = tuple(row for row in rows if row.turn == turn)
            start_time = turn_start[1] if turn_start else min((row.changed_at for row in rows), default=0.0)
        return await asyncio.to_thread(self._compare_files, scope, rows, start_time)

    async def changes_by_tools(self) -> tuple[FileChange, ...]:
        """Return the changes made by the session's tools, without changes that only git reports. Raises
        `StoreFailed`."""
        rows = await self._thread.run(file_changes, self._store, self._recorder.session_id)
        return await asyncio.to_thread(self._tool_changes, rows)

    def _tool_changes(self, rows: Sequence[ChangeRow]) -> tuple[FileChange, ...]:
        first_rows: dict[str, ChangeRow] = {}
        for row in rows:
            first_rows[row.path] = first_rows.get(row.path, row)._replace(new_digest=row.new_digest)
        return tuple(map(self._tool_change, first_rows.values()))

    def _compare_files(self, scope: ChangeScope, rows: Sequence[ChangeRow], since: float) -> FileChanges:
        git_changes = records.git.find_git_changes(self._root, {Path(row.path) for row in rows}, since)
        return FileChanges(scope, (*self._tool_changes(rows), *git_changes.files), git_changes.notes)

    def _tool_change(self, row: ChangeRow) -> FileChange:
        path = Path(row.path)
        name = display_path(path, self._root)
        try:
            current = read_bytes_if_exists(path)
        except ToolError as error:
            return FileChange(name, incomparable_reason=f"its current content cannot be read: {error}")
        digest = "" if current is None else hashlib.sha256(current).hexdigest()
        note = "" if digest == row.new_digest else "changed since, not by this session's tools"
        previous, is_known = self._previous_content(row)
        if not is_known:
            return FileChange(
                name, current_content=current, incomparable_reason="its previous content was not stored", note=note
            )
        if previous == current:
            note = "unchanged"
        return FileChange(name, previous, current, note=note)

    def _previous_content(self, row: ChangeRow) -> tuple[bytes | None, bool]:
        """Return the previous content, and whether it is known."""
        if row.old_digest == "":
            return None, True
        if row.old_digest is None or self._store.blobs is None:
            return None, False
        try:
            blob = self._store.blobs.open(row.old_digest)
        except StoreError:
            return None, False
        try:
            return b"".join(blob.chunks()), True
        except StoreError:
            return None, False
        finally:
            blob.close()
