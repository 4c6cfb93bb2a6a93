"""Writes transcripts to the store as sessions, streaming each one instead of loading it whole."""

import base64
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.config.load import find_project
from ebbtide.agent.config.values import Config
from ebbtide.agent.context.offload import StreamedPreview, should_show_whole, stored_form
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.imports.assembly import Assembly
from ebbtide.agent.imports.transcript import ForeignTranscript, ImportProblems, OpenTranscript
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
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.agent.records.recorder import title_of
from ebbtide.agent.records.rows import encode_snapshot, output_rows, summary_row
from ebbtide.agent.records.store_access import lock_session
from ebbtide.agent.session_settings import offloading_of
from ebbtide.store.catalogue import ORIGIN
from ebbtide.store.errors import StoreError
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.store.transfer import TransferRow, TransferStore
from ebbtide.tools.base import Tool
from ebbtide.tools.lazy import dataclass

State: TypeAlias = Literal["new", "renewed", "unchanged", "empty", "open"]
"""Result of an import: a new session; an existing session updated; unchanged; empty transcript; or the session is open
in another program."""

VERSION = 1
"""Version of the conversion; transcripts imported by an earlier version are imported again."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of importing one transcript."""

    state: State
    session: str = ""
    messages: int = 0


@dataclass(frozen=True, slots=True)
class _ImportedSession:
    """A session that the transcript was imported as."""

    session: str
    mark: str
    messages: int


class SessionWriter:
    """Writes sessions to a store. Raises `StoreError` and `StoreFailed`."""

    def __init__(self, store: SessionStore, config: Config, tools: Mapping[str, Tool]) -> None:
        self._store = store
        self._config = config
        self._tools = tools
        self._transfer = TransferStore(store)
        self._projects: dict[str, str] = {}

    def is_known(self, transcript: ForeignTranscript) -> bool:
        """Whether this transcript is already imported, unchanged."""
        return any(known.mark == _mark(transcript) for known in self._imported_sessions(transcript))

    def import_transcript(
        self, transcript: ForeignTranscript, opened: OpenTranscript, troubles: ImportProblems
    ) -> ImportResult:
        """Import a transcript as a new session, or update its earlier import, keeping the id, if that session has not
        been continued here."""
        known = self._imported_sessions(transcript)
        for one in known:
            row = self._store.session(one.session)
            if row is not None and row.messages == one.messages:
                try:
                    lock = lock_session(self._config, one.session)
                except StoreFailed:
                    return ImportResult("open", one.session)
                try:
                    return self._write(transcript, opened, troubles, one.session, "renewed")
                finally:
                    lock.release()
        return self._write(transcript, opened, troubles, self._free_id(), "new")

    def _imported_sessions(self, transcript: ForeignTranscript) -> list[_ImportedSession]:
        """Earlier imports of a transcript. A fork has the same origin as its source, so the session id is checked as
        well."""
        found = list[_ImportedSession]()
        key = f"{transcript.agent}:{transcript.id}"
        for session in self._transfer.sessions_with(ORIGIN, key):
            for fact in self._store.facts(session, ORIGIN):
                with suppress(ValueError, KeyError, TypeError):
                    body = json.loads(fact.body)
                    if fact.key == key and body["session"] == session:
                        found.append(_ImportedSession(session, str(body["mark"]), int(body["messages"])))
        return found

    def _write(
        self,
        transcript: ForeignTranscript,
        opened: OpenTranscript,
        troubles: ImportProblems,
        session: str,
        state: State,
    ) -> ImportResult:
        project = self._project_of(opened.project)
        rows = _Rows(self._store, self._config, session, Assembly(self._tools, opened.project, troubles))
        row = SessionRow(
            session, project, title_of(opened.title), "", self._config.permission_mode, opened.created,
            opened.updated,
        )  # fmt: skip
        try:
            self._transfer.write(
                row, rows.messages(opened), rows.tables(transcript, opened), replaces=state == "renewed"
            )
            if not row.title:
                self._store.rename(session, rows.title)
        except _Empty:
            return ImportResult("empty")
        except BaseException:
            rows.discard()
            raise
        return ImportResult(state, session, rows.position)

    def _project_of(self, folder: str) -> str:
        """The project of a session. A folder that no longer exists keeps its original path."""
        if folder not in self._projects:
            found = folder
            with suppress(OSError, ValueError):
                found = str(find_project(Path(folder))) if folder and Path(folder).is_dir() else folder
            found = found or str(self._config.project)
            self._projects[folder] = found.encode("utf-8", "backslashreplace").decode()
        return self._projects[folder]

    def _free_id(self) -> str:
        while self._store.session(id := secrets.token_hex(6)) is not None:
            pass
        return id


class _Empty(Exception):
    """The transcript has no messages."""


class _Rows:
    """The rows of one session, produced while they are written."""

    def __init__(self, store: SessionStore, config: Config, session: str, assembly: Assembly) -> None:
        self._blobs = store.blobs
        self._shown = offloading_of(config)
        self._session = session
        self._assembly = assembly
        self.position = 0
        self.title = ""
        self._calls: Mapping[str, ToolCall] = {}
        self._outputs: list[TransferRow] = []
        self._summaries: list[TransferRow] = []
        self._begin: tuple[int, Summary, int] | None = None
        """Where the context begins: position, summary, and number of earlier outputs."""
        self._put: list[str] = []

    def messages(self, opened: OpenTranscript) -> Iterator[TransferRow]:
        for message, at in self._assembly.messages(opened.entries):
            if isinstance(message, Summary):
                number = len(self._summaries) + 1
                row = summary_row(message, number, self.position)
                self._summaries.append({**row._asdict(), "created": at})
                self._begin = (self.position, message, self._last_output)
                continue
            yield self._row(self._with_stored_outputs(message), at)
        if not self.title:
            raise _Empty

    @property
    def _last_output(self) -> int:
        return int(self._outputs[-1]["number"] or 0) if self._outputs else 0

    def _row(self, message: Message, at: float) -> TransferRow:
        if isinstance(message, Assistant):
            self._calls = {call.id: call for call in message.calls}
            self.title = self.title or title_of(message.text) or "…"
        elif message.text and (not self.title or self.position < 2):
            self.title = title_of(message.text)
        row = encode_message(message, self.position)
        if isinstance(message, User) and message.outputs:
            tools = {id: call.name for id, call in self._calls.items()}
            made = output_rows(message, self.position, self._last_output, tools)
            self._outputs += [{**one._asdict(), "created": at} for one in made]
        self.position += 1
        return {"position": row.position, "role": row.role, "body": row.body, "created": at, "ref": row.ref}

    def _with_stored_outputs(self, message: Message) -> Message:
        """Store long outputs and images of a message as blobs, as for a native session."""
        if not isinstance(message, User) or not message.outputs:
            return message
        number = self._last_output
        parts = list(message.parts)
        for place, part in enumerate(parts):
            if isinstance(part, ToolOutput):
                number += 1
                parts[place] = self._output(part, number)
        return User(tuple(parts))

    def _output(self, output: ToolOutput, number: int) -> ToolOutput:
        call = self._calls.get(output.call_id, ToolCall(output.call_id, "tool", {}))
        data = output.text.encode("utf-8", "surrogatepass")
        images = tuple(map(self._image, output.images))
        if self._blobs is None or should_show_whole(call, len(data), self._shown):
            return replace(output, images=images)
        skim = StreamedPreview()
        skim.take(data)
        blob = self._blobs.put([data], self._session)
        self._put.append(blob.digest)
        part = stored_form(call.name, f"r{number}", blob.size, blob.lines, *skim.ends_and_matches(self._shown))
        if len(part.text) >= len(output.text):
            return replace(output, images=images)
        stored = StoredBlob(blob.digest, blob.size, blob.lines)
        return replace(output, text=part.text, inserted=part.inserted, stored=stored, images=images)

    def _image(self, image: Image) -> Image:
        if self._blobs is None:
            return image
        blob = self._blobs.put([base64.b64decode(image.data)], self._session)
        self._put.append(blob.digest)
        return replace(image, digest=blob.digest)

    def tables(self, transcript: ForeignTranscript, opened: OpenTranscript) -> Mapping[str, "_Later"]:
        """The rows of the other tables, evaluated after all messages are written."""
        return {
            "outputs": _Later(lambda: iter(self._outputs)),
            "summaries": _Later(lambda: iter(self._summaries)),
            "snapshots": _Later(self._snapshot),
            "situation": _Later(lambda: iter([self._origin(transcript, opened)])),
        }

    def _snapshot(self) -> Iterator[TransferRow]:
        if self._begin is not None:
            start, summary, before = self._begin
            # Only the number of messages matters in this snapshot.
            body = encode_snapshot(Conversation((), summary, outputs_before=before), start)
            yield {"position": self.position, "body": body, "created": time.time()}

    def _origin(self, transcript: ForeignTranscript, opened: OpenTranscript) -> TransferRow:
        body = {
            "session": self._session,
            "mark": _mark(transcript),
            "messages": self.position,
            "file": str(transcript.path),
            "version": opened.version,
            "imported": time.time(),
        }
        return {"kind": ORIGIN, "key": f"{transcript.agent}:{transcript.id}", "body": json.dumps(body)}

    def discard(self) -> None:
        """Remove the blobs that were stored."""
        for digest in self._put:
            if self._blobs is not None:
                with suppress(StoreError):  # removed by garbage collection within a day
                    self._blobs.discard(digest, self._session)


class _Later:
    """Rows that are produced on demand."""

    def __init__(self, rows: Callable[[], Iterator[TransferRow]]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[TransferRow]:
        return self._rows()


def _mark(transcript: ForeignTranscript) -> str:
    return f"{VERSION}/{transcript.mark}"
