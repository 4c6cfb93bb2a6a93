"""Transcripts of Gemini: one JSON document per session, or in later versions a log of JSON lines, in which a line
replaces an earlier one with the same id and rewind lines remove messages."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ebbtide.agent.errors import ConfigError
from ebbtide.agent.imports.agent_folders import MAX_SETTINGS_BYTES, AgentFolders, settings_in, table_in
from ebbtide.agent.imports.assembly import arguments_of
from ebbtide.agent.imports.json_lines import (
    Row,
    head_rows,
    list_of,
    object_of,
    picture_of,
    regular_file,
    rows_of,
    text_of,
    time_of,
)
from ebbtide.agent.imports.transcript import (
    CallEntry,
    Entry,
    ForeignTranscript,
    ImportProblems,
    OpenTranscript,
    OutputEntry,
    ProgramEntry,
    ReplyEntry,
    UnreadableTranscript,
    UserEntry,
    files_there,
)
from ebbtide.agent.messages import Image
from ebbtide.tools.files.bounded import beginning_of

_SETTING_UP = ("This is the Gemini CLI. We are setting up", "<session_context>")
_MAX_PATH_CHARS = 4_096


class GeminiTranscripts:
    def find_transcripts(
        self, folders: AgentFolders, project: Path, troubles: ImportProblems
    ) -> Iterator[ForeignTranscript]:
        projects = _projects(folders, project)
        for file in files_there((folders.gemini / "tmp").glob("*/chats/session-*.json*"), troubles):
            path = file.path
            head = next(head_rows(path), {}) if path.suffix == ".jsonl" else {}
            if head.get("kind") == "subagent":
                troubles.leave_out("conversations of sub-agents")
                continue
            folder = path.parent.parent
            cwd = projects.get(folder.name) or projects.get(text_of(head.get("projectHash"))) or _root_of(folder)
            yield file.of("gemini", text_of(head.get("sessionId")) or path.stem, cwd)

    def open_transcript(self, transcript: ForeignTranscript, troubles: ImportProblems) -> OpenTranscript:
        if transcript.path.suffix == ".jsonl":
            meta, messages = _replay_log(transcript.path, troubles)
        else:
            meta = _document(transcript.path)
            messages = list_of(meta.get("messages"))
        created = time_of(meta.get("startTime"), transcript.updated)
        updated = time_of(meta.get("lastUpdated"), transcript.updated)
        return OpenTranscript(
            _entries(messages, created), transcript.project, text_of(meta.get("summary")), created, updated
        )


def _projects(folders: AgentFolders, project: Path) -> dict[str, str]:
    """Project folders by the name of their folder in Gemini's data: a digest or a word."""
    known, named = [str(project)], dict[str, str]()
    with suppress(ConfigError):
        named = {
            text_of(name): path
            for path, name in table_in(settings_in(folders.gemini / "projects.json"), "projects").items()
        }
    with suppress(ConfigError):
        known += settings_in(folders.gemini / "trustedFolders.json")
    return {**{hashlib.sha256(path.encode()).hexdigest(): path for path in (*known, *named.values())}, **named}


def _root_of(folder: Path) -> str:
    """The project folder named in a file next to the chats; empty if there is none."""
    with suppress(OSError):
        return beginning_of(folder / ".project_root", _MAX_PATH_CHARS).decode("utf-8", "replace").strip()
    return ""


def _document(path: Path) -> Row:
    try:
        data = beginning_of(path, MAX_SETTINGS_BYTES + 1)
    except OSError as error:
        raise UnreadableTranscript(error.strerror or str(error)) from error
    if len(data) > MAX_SETTINGS_BYTES:
        raise UnreadableTranscript(f"it is larger than {MAX_SETTINGS_BYTES >> 20} MiB")
    try:
        content = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise UnreadableTranscript(f"it is not valid JSON: {error}") from error
    return object_of(content)


def _replay_log(path: Path, troubles: ImportProblems) -> tuple[Row, list[Row]]:
    """Replay a log; return the session's metadata and the final messages."""
    meta: dict[str, object] = {}
    messages: dict[str, Row] = {}
    size = 0
    with regular_file(path) as file:
        for row in rows_of(file, troubles):
            if "$set" in row:
                changed = dict(object_of(row["$set"]))
                if "messages" in changed:
                    messages = {text_of(one.get("id")): one for one in list_of(changed.pop("messages"))}
                meta |= changed
            elif "$rewindTo" in row:
                ids = [*messages]
                target = text_of(row["$rewindTo"])
                for one in ids[ids.index(target) if target in messages else 0 :]:
                    del messages[one]
            elif isinstance(id := row.get("id"), str) and "type" in row:
                messages[id] = row
            elif "sessionId" in row:
                meta |= row
            size = file.tell()
            if size > MAX_SETTINGS_BYTES:
                raise UnreadableTranscript(f"it is larger than {MAX_SETTINGS_BYTES >> 20} MiB")
    return meta, [*messages.values()]


def _entries(messages: list[Row], created: float) -> Iterator[Entry]:
    at = created
    for message in messages:
        at = time_of(message.get("timestamp"), at)
        if message.get("type") == "user":
            yield from _user_entries(message.get("content"), at)
        elif message.get("type") == "gemini":
            yield from _reply_entries(message, at)


def _user_entries(content: object, at: float) -> Iterator[Entry]:
    images = list[Image]()
    for part in [{"text": content}] if isinstance(content, str) else list_of(content):
        text, inline = text_of(part.get("text")), object_of(part.get("inlineData"))
        if text.strip():
            yield ProgramEntry(text, at) if text.startswith(_SETTING_UP) else UserEntry(text, at)
        if (image := picture_of(inline.get("data"))) is not None:
            images.append(image)
    if images:
        yield UserEntry("", at, tuple(images))


def _reply_entries(message: Row, at: float) -> Iterator[Entry]:
    key, model = text_of(message.get("id")), text_of(message.get("model"))
    for thought in list_of(message.get("thoughts")):
        told = (text_of(thought.get("subject")), text_of(thought.get("description")))
        yield ReplyEntry("thought", "\n".join(filter(None, told)), at, key, model)
    content = message.get("content")
    for part in [{"text": content}] if isinstance(content, str) else list_of(content):
        yield ReplyEntry("text", text_of(part.get("text")), at, key, model)
    calls = list_of(message.get("toolCalls"))
    for call in calls:
        id, name = text_of(call.get("id")), text_of(call.get("name")) or "tool"
        yield CallEntry(id, name, arguments_of(call.get("args")), at, key, model)
    for call in calls:
        yield from _answer(call, time_of(call.get("timestamp"), at))


def _answer(call: Row, at: float) -> Iterator[OutputEntry]:
    if (
        call.get("result") is None
        and not call.get("resultDisplay")
        and call.get("status") not in ("error", "cancelled")
    ):
        return
    result, texts = call.get("result"), list[str]()
    for part in [{"text": result}] if isinstance(result, str) else list_of(result):
        response = object_of(object_of(part.get("functionResponse")).get("response"))
        texts += [text_of(part.get("text")), text_of(response.get("output")), text_of(response.get("error"))]
    text = "\n".join(filter(None, texts)) or text_of(call.get("resultDisplay"))
    status = {"error": "failed", "cancelled": "denied"}.get(text_of(call.get("status")), "done")
    yield OutputEntry(text_of(call.get("id")), text, at, status)  # type: ignore[arg-type]  # one of three
