"""Transcripts of opencode: rows of a database or, in earlier versions, one file per session, message and part."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

from ebbtide.agent.errors import ConfigError
from ebbtide.agent.integrations.imports.agent_folders import AgentFolders, read_settings
from ebbtide.agent.integrations.imports.assembly import storable_arguments
from ebbtide.agent.integrations.imports.json_lines import (
    Row,
    as_object,
    as_text,
    image_from_url,
    objects_in,
    parse_time,
)
from ebbtide.agent.integrations.imports.opencode_database import OpencodeDatabase
from ebbtide.agent.integrations.imports.transcript import (
    CallEntry,
    ImportableTranscript,
    ImportProblems,
    OpenedTranscript,
    OutputEntry,
    ProgramEntry,
    ReplyEntry,
    SummaryEntry,
    TranscriptEntry,
    UnreadableTranscriptError,
    UserEntry,
)
from ebbtide.agent.messages import Image
from ebbtide.store.errors import StoreError
from ebbtide.tools.lazy import regex

_DATABASE_NAME = regex(r"opencode(-[\w.-]+)?\.db")
"""Names of the databases; each release channel has its own."""


class OpencodeTranscripts:
    def find_transcripts(
        self, folders: AgentFolders, project: Path, problems: ImportProblems
    ) -> Iterator[ImportableTranscript]:
        seen_ids = set[str]()
        database_paths = sorted(
            path for path in folders.opencode_data.glob("opencode*.db") if _DATABASE_NAME.fullmatch(path.name)
        )
        database_transcripts = (
            transcript for path in database_paths for transcript in _database_transcripts(path, problems)
        )
        for transcript in (*database_transcripts, *_file_transcripts(folders, problems)):
            if transcript.id not in seen_ids:
                seen_ids.add(transcript.id)
                yield transcript

    def open_transcript(self, transcript: ImportableTranscript, problems: ImportProblems) -> OpenedTranscript:
        try:
            source: _TranscriptSource = (
                _DatabaseSource(transcript) if transcript.path.suffix == ".db" else _FileSource(transcript)
            )
            created = parse_time(as_object(source.info.get("time")).get("created"), transcript.updated_at)
        except StoreError as error:
            raise UnreadableTranscriptError(str(error)) from error
        title, version = as_text(source.info.get("title")), as_text(source.info.get("version"))
        entries = _entries(source, created, problems)
        return OpenedTranscript(entries, transcript.project, title, created, transcript.updated_at, version)


def _database_transcripts(path: Path, problems: ImportProblems) -> Iterator[ImportableTranscript]:
    if not path.is_file():
        return
    try:
        with closing(OpencodeDatabase(path)) as database:
            rows = database.sessions()
    except StoreError as error:
        problems.add(f"databases that cannot be read: {error}")
        return
    for session_id, parent_id, folder, updated, size in rows:
        if parent_id:
            problems.add_skipped("conversations of sub-agents")
            continue
        yield ImportableTranscript("opencode", session_id, path, size, parse_time(updated), folder, f"{updated}:{size}")


def _file_transcripts(folders: AgentFolders, problems: ImportProblems) -> Iterator[ImportableTranscript]:
    storage_folder = folders.opencode_data / "storage"
    for path in sorted((storage_folder / "session").glob("*/*.json")):
        try:
            info = read_settings(path)
        except ConfigError:
            problems.add("files that cannot be read")
            continue
        session_id, times = as_text(info.get("id")) or path.stem, as_object(info.get("time"))
        if info.get("parentID"):
            problems.add_skipped("conversations of sub-agents")
            continue
        message_paths = sorted((storage_folder / "message" / session_id).glob("*.json"))
        size = sum(
            _file_size(part)
            for message in message_paths
            for part in (storage_folder / "part" / message.stem).glob("*.json")
        )
        updated = parse_time(times.get("updated"), parse_time(times.get("created")))
        yield ImportableTranscript(
            "opencode", session_id, path, size, updated, as_text(info.get("directory")), f"{updated}:{size}"
        )


def _file_size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


class _TranscriptSource(Protocol):
    """Provides the messages and parts of a transcript."""

    info: Row

    def messages(self, problems: ImportProblems) -> Iterator[tuple[str, Row]]: ...

    def parts(self, message_id: str, problems: ImportProblems) -> Iterator[Row]: ...


class _FileSource:
    def __init__(self, transcript: ImportableTranscript) -> None:
        self._storage_folder = transcript.path.parent.parent.parent
        self._id = transcript.id
        try:
            self.info: Row = read_settings(transcript.path)
        except ConfigError as error:
            raise UnreadableTranscriptError(str(error)) from error

    def messages(self, problems: ImportProblems) -> Iterator[tuple[str, Row]]:
        rows = [
            (path.stem, _read_object(path, problems))
            for path in (self._storage_folder / "message" / self._id).glob("*.json")
        ]
        yield from sorted(rows, key=lambda row: (parse_time(as_object(row[1].get("time")).get("created")), row[0]))

    def parts(self, message_id: str, problems: ImportProblems) -> Iterator[Row]:
        for path in sorted((self._storage_folder / "part" / message_id).glob("*.json")):
            yield _read_object(path, problems)


class _DatabaseSource:
    def __init__(self, transcript: ImportableTranscript) -> None:
        self._database = OpencodeDatabase(transcript.path)
        self._id = transcript.id
        row = self._database.session(self._id)
        if row is None:
            self._database.close()
            raise UnreadableTranscriptError("it no longer exists")
        title, version, revert, created = row
        self.info: Row = {
            "title": title, "version": version, "time": {"created": created},
            "revert": _parse_row(revert, ImportProblems()),
        }  # fmt: skip

    def messages(self, problems: ImportProblems) -> Iterator[tuple[str, Row]]:
        with closing(self._database):
            for message_id, data in self._database.messages(self._id):
                yield message_id, _parse_row(data, problems)

    def parts(self, message_id: str, problems: ImportProblems) -> Iterator[Row]:
        for data in self._database.parts(message_id):
            yield _parse_row(data, problems)


def _read_object(path: Path, problems: ImportProblems) -> Row:
    try:
        return read_settings(path)
    except ConfigError:
        problems.add("files that cannot be read")
        return {}


def _parse_row(text: str, problems: ImportProblems) -> Row:
    with suppress(ValueError, RecursionError):
        return as_object(json.loads(text))
    problems.add("rows that cannot be read")
    return {}


def _entries(source: _TranscriptSource, created: float, problems: ImportProblems) -> Iterator[TranscriptEntry]:
    timestamp = created
    first_reverted_id = as_text(as_object(source.info.get("revert")).get("messageID"))
    try:
        for message_id, message in source.messages(problems):
            if first_reverted_id and message_id >= first_reverted_id:
                problems.add_skipped("messages that were reverted")
                continue
            timestamp = parse_time(as_object(message.get("time")).get("created"), timestamp)
            parts = source.parts(message_id, problems)
            if message.get("role") == "user":
                yield from _user_entries(parts, timestamp)
            elif message.get("summary") is True:
                yield SummaryEntry(
                    "\n".join(as_text(part.get("text")) for part in parts if part.get("type") == "text"), timestamp
                )
            else:
                yield from _reply_entries(message_id, parts, as_text(message.get("modelID")), timestamp)
    except StoreError as error:
        problems.add(f"rows that cannot be read: {error}")


def _user_entries(parts: Iterator[Row], timestamp: float) -> Iterator[TranscriptEntry]:
    images = list[Image]()
    for part in parts:
        text = as_text(part.get("text"))
        match part.get("type"):
            case "text" if part.get("ignored") is not True:
                yield ProgramEntry(text, timestamp) if part.get("synthetic") is True else UserEntry(text, timestamp)
            case "file" if (image := image_from_url(part.get("url"))) is not None:
                images.append(image)
            case "file" if name := as_text(part.get("filename")):
                yield ProgramEntry(f"[The file {name} was attached.]", timestamp)
            case _:
                pass
    if images:
        yield UserEntry("", timestamp, tuple(images))


def _reply_entries(message_id: str, parts: Iterator[Row], model: str, timestamp: float) -> Iterator[TranscriptEntry]:
    step = 0
    for part in parts:
        key = f"{message_id}/{step}"
        match part.get("type"):
            case "step-start":
                step += 1
            case "text":
                yield ReplyEntry("text", as_text(part.get("text")), timestamp, key, model)
            case "reasoning":
                yield ReplyEntry("thought", as_text(part.get("text")), timestamp, key, model)
            case "tool":
                call_id, state = as_text(part.get("callID")) or as_text(part.get("id")), as_object(part.get("state"))
                name = as_text(part.get("tool")) or "tool"
                yield CallEntry(call_id, name, storable_arguments(state.get("input")), timestamp, key, model)
                yield from _output_entries(call_id, state, timestamp)
            case _:
                pass


def _output_entries(call_id: str, state: Mapping[str, object], timestamp: float) -> Iterator[OutputEntry]:
    timestamp = parse_time(as_object(state.get("time")).get("end"), timestamp)
    if state.get("status") == "completed":
        candidates = (image_from_url(attachment.get("url")) for attachment in objects_in(state.get("attachments")))
        images = tuple(image for image in candidates if image is not None)
        yield OutputEntry(call_id, as_text(state.get("output")), timestamp, "done", images)
    elif state.get("status") == "error":
        yield OutputEntry(call_id, as_text(state.get("error")), timestamp, "failed")
