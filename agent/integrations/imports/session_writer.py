"""Writes transcripts to the store as sessions. Transcripts are streamed, not loaded into memory."""

import base64
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.compose.settings import build_offload_limits
from ebbtide.agent.config.load import find_project_folder
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.integrations.imports.assembly import MessageAssembler
from ebbtide.agent.integrations.imports.transcript import ImportableTranscript, ImportProblems, OpenedTranscript
from ebbtide.agent.messages import (
    Assistant,
    Conversation,
    Image,
    Message,
    StoredBlob,
    Summary,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.records.message_rows import encode_message, session_title
from ebbtide.agent.records.rows import encode_snapshot, encode_summary_row, output_rows
from ebbtide.agent.records.store_access import lock_session
from ebbtide.agent.view.previews import StreamedPreview, should_show_in_full, stored_excerpt
from ebbtide.store.catalogue import ORIGIN_FACT
from ebbtide.store.errors import StoreError
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.store.transfer import TransferRow, TransferStore
from ebbtide.tools.base import Tool
from ebbtide.tools.lazy import dataclass

ImportState: TypeAlias = Literal["new", "renewed", "unchanged", "empty", "open"]
"""Result of an import. `new`: a session was created. `renewed`: a session was updated. `unchanged`: the transcript has
not changed. `empty`: the transcript has no messages. `open`: the session is open in another program."""

CONVERSION_VERSION = 1
"""Version of the conversion. Transcripts imported by an earlier version are imported again."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of importing one transcript."""

    state: ImportState
    session_id: str = ""
    message_count: int = 0


@dataclass(frozen=True, slots=True)
class _EarlierImport:
    """A session that is an earlier import of the transcript."""

    session_id: str
    mark: str
    message_count: int


class SessionWriter:
    """Writes sessions to a store. Raises `StoreError` and `StoreFailed`."""

    def __init__(self, store: SessionStore, config: Config, tools: Mapping[str, Tool]) -> None:
        self._store = store
        self._config = config
        self._tools = tools
        self._transfer = TransferStore(store)
        self._projects: dict[str, str] = {}

    def is_imported(self, transcript: ImportableTranscript) -> bool:
        """Whether this transcript has already been imported in its present state."""
        return any(
            earlier_import.mark == _version_mark(transcript)
            for earlier_import in self._find_earlier_imports(transcript)
        )

    def import_transcript(
        self, transcript: ImportableTranscript, open_transcript: OpenedTranscript, problems: ImportProblems
    ) -> ImportResult:
        """Import a transcript as a new session. If it was imported before and its session has not been continued since,
        update that session and keep its id."""
        earlier_imports = self._find_earlier_imports(transcript)
        for earlier_import in earlier_imports:
            row = self._store.session(earlier_import.session_id)
            if row is not None and row.messages == earlier_import.message_count:
                try:
                    lock = lock_session(self._config, earlier_import.session_id)
                except StoreFailed:
                    return ImportResult("open", earlier_import.session_id)
                try:
                    return self._write(transcript, open_transcript, problems, earlier_import.session_id, "renewed")
                finally:
                    lock.release()
        return self._write(transcript, open_transcript, problems, self._transfer.unused_id(), "new")

    def _find_earlier_imports(self, transcript: ImportableTranscript) -> list[_EarlierImport]:
        """Find earlier imports of a transcript. A fork of an import has the same origin, so sessions whose id is not
        the one in the origin are skipped."""
        sessions = list[_EarlierImport]()
        key = f"{transcript.agent}:{transcript.id}"
        for session_id in self._transfer.sessions_with_fact(ORIGIN_FACT, key):
            for fact in self._store.facts(session_id, ORIGIN_FACT):
                with suppress(ValueError, KeyError, TypeError):
                    body = json.loads(fact.body)
                    if fact.key == key and body["session"] == session_id:
                        sessions.append(_EarlierImport(session_id, str(body["mark"]), int(body["messages"])))
        return sessions

    def _write(
        self,
        transcript: ImportableTranscript,
        open_transcript: OpenedTranscript,
        problems: ImportProblems,
        session_id: str,
        state: ImportState,
    ) -> ImportResult:
        project = self._session_project(open_transcript.project)
        rows = _SessionRows(
            self._store, self._config, session_id, MessageAssembler(self._tools, open_transcript.project, problems)
        )
        row = SessionRow(
            session_id, project, session_title(open_transcript.title), "", self._config.permission_mode,
            open_transcript.created_at, open_transcript.updated_at,
        )  # fmt: skip
        try:
            self._transfer.write_session(
                row,
                rows.write_messages(open_transcript),
                rows.tables(transcript, open_transcript),
                should_replace=state == "renewed",
            )
            if not row.title:
                self._store.rename(session_id, rows.title)
        except _EmptyTranscriptError:
            return ImportResult("empty")
        except BaseException:
            rows.discard()
            raise
        return ImportResult(state, session_id, rows.position)

    def _session_project(self, folder: str) -> str:
        """Return the project that a working folder belongs to. If the folder no longer exists, return its path
        unchanged."""
        if folder not in self._projects:
            project = folder
            with suppress(OSError, ValueError):
                project = str(find_project_folder(Path(folder))) if folder and Path(folder).is_dir() else folder
            project = project or str(self._config.project_folder)
            self._projects[folder] = project.encode("utf-8", "backslashreplace").decode()
        return self._projects[folder]


class _EmptyTranscriptError(Exception):
    """The transcript has no messages."""


class _SessionRows:
    """Yields the rows of one session as they are written."""

    def __init__(self, store: SessionStore, config: Config, session_id: str, assembler: MessageAssembler) -> None:
        self._blobs = store.blobs
        self._offload_limits = build_offload_limits(config)
        self._session_id = session_id
        self._assembler = assembler
        self.position = 0
        self.title = ""
        self._calls: Mapping[str, ToolCall] = {}
        self._output_rows: list[TransferRow] = []
        self._summary_rows: list[TransferRow] = []
        self._context_start: tuple[int, Summary, int] | None = None
        """The beginning of the context: position, summary, and number of earlier outputs."""
        self._stored_digests: list[str] = []

    def write_messages(self, open_transcript: OpenedTranscript) -> Iterator[TransferRow]:
        for message, timestamp in self._assembler.assemble(open_transcript.entries):
            if isinstance(message, Summary):
                summary_number = len(self._summary_rows) + 1
                row = encode_summary_row(message, summary_number, self.position)
                self._summary_rows.append({**row._asdict(), "created": timestamp})
                self._context_start = (self.position, message, self._last_output_number)
                continue
            yield self._build_message_row(self._store_outputs(message), timestamp)
        if not self.title:
            raise _EmptyTranscriptError

    @property
    def _last_output_number(self) -> int:
        return int(self._output_rows[-1]["number"] or 0) if self._output_rows else 0

    def _build_message_row(self, message: Message, timestamp: float) -> TransferRow:
        if isinstance(message, Assistant):
            self._calls = {call.id: call for call in message.calls}
            self.title = self.title or session_title(message.text) or "…"
        elif message.text and (not self.title or self.position < 2):
            self.title = session_title(message.text)
        row = encode_message(message, self.position)
        if isinstance(message, User) and message.outputs:
            tool_by_call_id = {call_id: call.name for call_id, call in self._calls.items()}
            rows = output_rows(message, self.position, self._last_output_number, tool_by_call_id)
            self._output_rows += [{**output_row._asdict(), "created": timestamp} for output_row in rows]
        self.position += 1
        return {"position": row.position, "role": row.role, "body": row.body, "created": timestamp, "ref": row.ref}

    def _store_outputs(self, message: Message) -> Message:
        """Store a message's long outputs and images as blobs, as this program's own sessions do."""
        if not isinstance(message, User) or not message.outputs:
            return message
        output_number = self._last_output_number
        parts = list(message.parts)
        for index, part in enumerate(parts):
            if isinstance(part, ToolOutput):
                output_number += 1
                parts[index] = self._store_output(part, output_number)
        return User(tuple(parts))

    def _store_output(self, output: ToolOutput, output_number: int) -> ToolOutput:
        call = self._calls.get(output.call_id, ToolCall(output.call_id, "tool", {}))
        data = output.text.encode("utf-8", "surrogatepass")
        images = tuple(map(self._store_image, output.images))
        if self._blobs is None or should_show_in_full(call, len(data), self._offload_limits):
            return replace(output, images=images)
        preview = StreamedPreview()
        preview.add_chunk(data)
        blob = self._blobs.put([data], self._session_id)
        self._stored_digests.append(blob.digest)
        excerpt = stored_excerpt(
            call.name,
            f"r{output_number}",
            blob.size,
            blob.lines,
            *preview.excerpt_and_error_lines(self._offload_limits),
        )
        if len(excerpt.text) >= len(output.text):
            return replace(output, images=images)
        blob_reference = StoredBlob(blob.digest, blob.size, blob.lines)
        return replace(output, text=excerpt.text, inserted=excerpt.inserted, stored=blob_reference, images=images)

    def _store_image(self, image: Image) -> Image:
        if self._blobs is None:
            return image
        blob = self._blobs.put([base64.b64decode(image.data)], self._session_id)
        self._stored_digests.append(blob.digest)
        return replace(image, digest=blob.digest)

    def tables(
        self, transcript: ImportableTranscript, open_transcript: OpenedTranscript
    ) -> Mapping[str, Iterable[TransferRow]]:
        """Return the rows of the tables other than messages. They are complete only after all messages have been
        written."""
        return {
            "outputs": self._output_rows,
            "summaries": self._summary_rows,
            "snapshots": self._snapshot_rows(),
            "situation": self._origin_rows(transcript, open_transcript),
        }

    def _snapshot_rows(self) -> Iterator[TransferRow]:
        if self._context_start is not None:
            start, summary, outputs_before = self._context_start
            # The messages may be empty, because a snapshot stores only their first position.
            body = encode_snapshot(Conversation((), summary, outputs_before=outputs_before), start)
            yield {"position": self.position, "body": body, "created": time.time()}

    def _origin_rows(
        self, transcript: ImportableTranscript, open_transcript: OpenedTranscript
    ) -> Iterator[TransferRow]:
        body = {
            "session": self._session_id,
            "mark": _version_mark(transcript),
            "messages": self.position,
            "file": str(transcript.path),
            "version": open_transcript.version,
            "imported": time.time(),
        }
        yield {"kind": ORIGIN_FACT, "key": f"{transcript.agent}:{transcript.id}", "body": json.dumps(body)}

    def discard(self) -> None:
        """Remove the blobs that were stored for this session."""
        for digest in self._stored_digests:
            if self._blobs is not None:
                with suppress(StoreError):  # garbage collection removes it within a day
                    self._blobs.discard(digest, self._session_id)


def _version_mark(transcript: ImportableTranscript) -> str:
    return f"{CONVERSION_VERSION}/{transcript.version}"
