"""Transcripts of opencode: rows of a database, or in earlier versions one file per session, message and part."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

from ebbtide.agent.errors import ConfigError
from ebbtide.agent.imports.agent_folders import AgentFolders, settings_in
from ebbtide.agent.imports.assembly import arguments_of
from ebbtide.agent.imports.json_lines import Row, list_of, object_of, picture_in, text_of, time_of
from ebbtide.agent.imports.transcript import (
    CallEntry,
    Entry,
    ForeignTranscript,
    ImportProblems,
    OpenTranscript,
    OutputEntry,
    ProgramEntry,
    ReplyEntry,
    SummaryEntry,
    UnreadableTranscript,
    UserEntry,
)
from ebbtide.agent.messages import Image
from ebbtide.store.errors import StoreError
from ebbtide.store.opencode_database import OpencodeDatabase
from ebbtide.tools.lazy import regex

_NAME = regex(r"opencode(-[\w.-]+)?\.db")
"""Each release channel has its own database."""


class OpencodeTranscripts:
    def find_transcripts(
        self, folders: AgentFolders, project: Path, troubles: ImportProblems
    ) -> Iterator[ForeignTranscript]:
        known = set[str]()
        databases = sorted(path for path in folders.opencode_data.glob("opencode*.db") if _NAME.fullmatch(path.name))
        in_databases = (one for path in databases for one in _in_database(path, troubles))
        for one in (*in_databases, *_in_files(folders, troubles)):
            if one.id not in known:
                known.add(one.id)
                yield one

    def open_transcript(self, transcript: ForeignTranscript, troubles: ImportProblems) -> OpenTranscript:
        try:
            source: _Source = _Database(transcript) if transcript.path.suffix == ".db" else _Files(transcript)
            created = time_of(object_of(source.info.get("time")).get("created"), transcript.updated)
        except StoreError as error:
            raise UnreadableTranscript(str(error)) from error
        title, version = text_of(source.info.get("title")), text_of(source.info.get("version"))
        entries = _entries(source, created, troubles)
        return OpenTranscript(entries, transcript.project, title, created, transcript.updated, version)


def _in_database(path: Path, troubles: ImportProblems) -> Iterator[ForeignTranscript]:
    if not path.is_file():
        return
    try:
        with closing(OpencodeDatabase(path)) as database:
            rows = database.sessions()
    except StoreError as error:
        troubles.add(f"databases that cannot be read: {error}")
        return
    for id, parent, folder, updated, size in rows:
        if parent:
            troubles.leave_out("conversations of sub-agents")
            continue
        yield ForeignTranscript("opencode", id, path, size, time_of(updated), folder, f"{updated}:{size}")


def _in_files(folders: AgentFolders, troubles: ImportProblems) -> Iterator[ForeignTranscript]:
    storage = folders.opencode_data / "storage"
    for path in sorted((storage / "session").glob("*/*.json")):
        try:
            info = settings_in(path)
        except ConfigError:
            troubles.add("files that cannot be read")
            continue
        id, times = text_of(info.get("id")) or path.stem, object_of(info.get("time"))
        if info.get("parentID"):
            troubles.leave_out("conversations of sub-agents")
            continue
        messages = sorted((storage / "message" / id).glob("*.json"))
        size = sum(_size(part) for message in messages for part in (storage / "part" / message.stem).glob("*.json"))
        updated = time_of(times.get("updated"), time_of(times.get("created")))
        yield ForeignTranscript(
            "opencode", id, path, size, updated, text_of(info.get("directory")), f"{updated}:{size}"
        )


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


class _Source(Protocol):
    """Provides messages and parts."""

    info: Row

    def messages(self, troubles: ImportProblems) -> Iterator[tuple[str, Row]]: ...

    def parts(self, message: str, troubles: ImportProblems) -> Iterator[Row]: ...


class _Files:
    def __init__(self, transcript: ForeignTranscript) -> None:
        self._storage = transcript.path.parent.parent.parent
        self._id = transcript.id
        try:
            self.info: Row = settings_in(transcript.path)
        except ConfigError as error:
            raise UnreadableTranscript(str(error)) from error

    def messages(self, troubles: ImportProblems) -> Iterator[tuple[str, Row]]:
        found = [
            (path.stem, _object_in(path, troubles)) for path in (self._storage / "message" / self._id).glob("*.json")
        ]
        yield from sorted(found, key=lambda one: (time_of(object_of(one[1].get("time")).get("created")), one[0]))

    def parts(self, message: str, troubles: ImportProblems) -> Iterator[Row]:
        for path in sorted((self._storage / "part" / message).glob("*.json")):
            yield _object_in(path, troubles)


class _Database:
    def __init__(self, transcript: ForeignTranscript) -> None:
        self._database = OpencodeDatabase(transcript.path)
        self._id = transcript.id
        row = self._database.session(self._id)
        if row is None:
            self._database.close()
            raise UnreadableTranscript("it no longer exists")
        title, version, revert, created = row
        self.info: Row = {
            "title": title, "version": version, "time": {"created": created},
            "revert": _parse_row(revert, ImportProblems()),
        }  # fmt: skip

    def messages(self, troubles: ImportProblems) -> Iterator[tuple[str, Row]]:
        with closing(self._database):
            for id, data in self._database.messages(self._id):
                yield id, _parse_row(data, troubles)

    def parts(self, message: str, troubles: ImportProblems) -> Iterator[Row]:
        for data in self._database.parts(message):
            yield _parse_row(data, troubles)


def _object_in(path: Path, troubles: ImportProblems) -> Row:
    try:
        return settings_in(path)
    except ConfigError:
        troubles.add("files that cannot be read")
        return {}


def _parse_row(text: str, troubles: ImportProblems) -> Row:
    with suppress(ValueError, RecursionError):
        return object_of(json.loads(text))
    troubles.add("rows that cannot be read")
    return {}


def _entries(source: _Source, created: float, troubles: ImportProblems) -> Iterator[Entry]:
    at = created
    reverted = text_of(object_of(source.info.get("revert")).get("messageID"))
    try:
        for id, message in source.messages(troubles):
            if reverted and id >= reverted:
                troubles.leave_out("messages that were reverted")
                continue
            at = time_of(object_of(message.get("time")).get("created"), at)
            parts = source.parts(id, troubles)
            if message.get("role") == "user":
                yield from _user_entries(parts, at)
            elif message.get("summary") is True:
                yield SummaryEntry(
                    "\n".join(text_of(one.get("text")) for one in parts if one.get("type") == "text"), at
                )
            else:
                yield from _reply_entries(id, parts, text_of(message.get("modelID")), at)
    except StoreError as error:
        troubles.add(f"rows that cannot be read: {error}")


def _user_entries(parts: Iterator[Row], at: float) -> Iterator[Entry]:
    images = list[Image]()
    for part in parts:
        text = text_of(part.get("text"))
        match part.get("type"):
            case "text" if part.get("ignored") is not True:
                yield ProgramEntry(text, at) if part.get("synthetic") is True else UserEntry(text, at)
            case "file" if (image := picture_in(part.get("url"))) is not None:
                images.append(image)
            case "file" if name := text_of(part.get("filename")):
                yield ProgramEntry(f"[The file {name} was attached.]", at)
            case _:
                pass
    if images:
        yield UserEntry("", at, tuple(images))


def _reply_entries(id: str, parts: Iterator[Row], model: str, at: float) -> Iterator[Entry]:
    step = 0
    for part in parts:
        key = f"{id}/{step}"
        match part.get("type"):
            case "step-start":
                step += 1
            case "text":
                yield ReplyEntry("text", text_of(part.get("text")), at, key, model)
            case "reasoning":
                yield ReplyEntry("thought", text_of(part.get("text")), at, key, model)
            case "tool":
                call, state = text_of(part.get("callID")) or text_of(part.get("id")), object_of(part.get("state"))
                name = text_of(part.get("tool")) or "tool"
                yield CallEntry(call, name, arguments_of(state.get("input")), at, key, model)
                yield from _answer(call, state, at)
            case _:
                pass


def _answer(call: str, state: Mapping[str, object], at: float) -> Iterator[OutputEntry]:
    at = time_of(object_of(state.get("time")).get("end"), at)
    if state.get("status") == "completed":
        found = (picture_in(one.get("url")) for one in list_of(state.get("attachments")))
        images = tuple(image for image in found if image is not None)
        yield OutputEntry(call, text_of(state.get("output")), at, "done", images)
    elif state.get("status") == "error":
        yield OutputEntry(call, text_of(state.get("error")), at, "failed")
