"""Transcripts of Gemini: one JSON document per session or, in later versions, a log of JSON lines. In a log, a line
replaces earlier lines with the same id, and a rewind line removes messages."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ebbtide.agent.errors import ConfigError
from ebbtide.agent.integrations.imports.agent_folders import (
    MAX_SETTINGS_BYTES,
    AgentFolders,
    nested_table,
    read_settings,
)
from ebbtide.agent.integrations.imports.assembly import storable_arguments
from ebbtide.agent.integrations.imports.json_lines import (
    Row,
    decode_picture,
    head_rows,
    object_of,
    objects_in,
    open_regular_file,
    parse_rows,
    text_of,
    unix_time,
)
from ebbtide.agent.integrations.imports.transcript import (
    CallEntry,
    ForeignTranscript,
    ImportProblems,
    OpenTranscript,
    OutputEntry,
    ProgramEntry,
    ReplyEntry,
    TranscriptEntry,
    UnreadableTranscript,
    UserEntry,
    readable_files,
)
from ebbtide.agent.messages import Image
from ebbtide.tools.files.bounded import read_beginning

_SETUP_PREFIXES = ("This is the Gemini CLI. We are setting up", "<session_context>")
_MAX_PATH_CHARS = 4_096


class GeminiTranscripts:
    def find_transcripts(
        self, folders: AgentFolders, project: Path, problems: ImportProblems
    ) -> Iterator[ForeignTranscript]:
        projects = _project_paths(folders, project)
        for file in readable_files((folders.gemini / "tmp").glob("*/chats/session-*.json*"), problems):
            path = file.path
            head = next(head_rows(path), {}) if path.suffix == ".jsonl" else {}
            if head.get("kind") == "subagent":
                problems.add_skipped("conversations of sub-agents")
                continue
            folder = path.parent.parent
            cwd = projects.get(folder.name) or projects.get(text_of(head.get("projectHash"))) or _project_root(folder)
            yield file.transcript("gemini", text_of(head.get("sessionId")) or path.stem, cwd)

    def open_transcript(self, transcript: ForeignTranscript, problems: ImportProblems) -> OpenTranscript:
        if transcript.path.suffix == ".jsonl":
            meta, messages = _replay_log(transcript.path, problems)
        else:
            meta = _read_document(transcript.path)
            messages = objects_in(meta.get("messages"))
        created = unix_time(meta.get("startTime"), transcript.updated)
        updated = unix_time(meta.get("lastUpdated"), transcript.updated)
        return OpenTranscript(
            _entries(messages, created), transcript.project, text_of(meta.get("summary")), created, updated
        )


def _project_paths(folders: AgentFolders, project: Path) -> dict[str, str]:
    """Return the project folders, by the names of their folders in Gemini's data. Such a name is a digest or a word."""
    paths, paths_by_name = [str(project)], dict[str, str]()
    with suppress(ConfigError):
        paths_by_name = {
            text_of(name): path
            for path, name in nested_table(read_settings(folders.gemini / "projects.json"), "projects").items()
        }
    with suppress(ConfigError):
        paths += read_settings(folders.gemini / "trustedFolders.json")
    return {
        **{hashlib.sha256(path.encode()).hexdigest(): path for path in (*paths, *paths_by_name.values())},
        **paths_by_name,
    }


def _project_root(folder: Path) -> str:
    """Return the project folder recorded in the `.project_root` file; empty if there is none."""
    with suppress(OSError):
        return read_beginning(folder / ".project_root", _MAX_PATH_CHARS).decode("utf-8", "replace").strip()
    return ""


def _read_document(path: Path) -> Row:
    try:
        data = read_beginning(path, MAX_SETTINGS_BYTES + 1)
    except OSError as error:
        raise UnreadableTranscript(error.strerror or str(error)) from error
    if len(data) > MAX_SETTINGS_BYTES:
        raise UnreadableTranscript(f"it is larger than {MAX_SETTINGS_BYTES >> 20} MiB")
    try:
        content = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise UnreadableTranscript(f"it is not valid JSON: {error}") from error
    return object_of(content)


def _replay_log(path: Path, problems: ImportProblems) -> tuple[Row, list[Row]]:
    """Replay a log; return the session's metadata and the final messages."""
    meta: dict[str, object] = {}
    messages: dict[str, Row] = {}
    size = 0
    with open_regular_file(path) as file:
        for row in parse_rows(file, problems):
            if "$set" in row:
                updates = dict(object_of(row["$set"]))
                if "messages" in updates:
                    messages = {text_of(message.get("id")): message for message in objects_in(updates.pop("messages"))}
                meta |= updates
            elif "$rewindTo" in row:
                ids = [*messages]
                target = text_of(row["$rewindTo"])
                for message in ids[ids.index(target) if target in messages else 0 :]:
                    del messages[message]
            elif isinstance(id := row.get("id"), str) and "type" in row:
                messages[id] = row
            elif "sessionId" in row:
                meta |= row
            size = file.tell()
            if size > MAX_SETTINGS_BYTES:
                raise UnreadableTranscript(f"it is larger than {MAX_SETTINGS_BYTES >> 20} MiB")
    return meta, [*messages.values()]


def _entries(messages: list[Row], created: float) -> Iterator[TranscriptEntry]:
    at = created
    for message in messages:
        at = unix_time(message.get("timestamp"), at)
        if message.get("type") == "user":
            yield from _user_entries(message.get("content"), at)
        elif message.get("type") == "gemini":
            yield from _reply_entries(message, at)


def _user_entries(content: object, at: float) -> Iterator[TranscriptEntry]:
    images = list[Image]()
    for part in [{"text": content}] if isinstance(content, str) else objects_in(content):
        text, inline = text_of(part.get("text")), object_of(part.get("inlineData"))
        if text.strip():
            yield ProgramEntry(text, at) if text.startswith(_SETUP_PREFIXES) else UserEntry(text, at)
        if (image := decode_picture(inline.get("data"))) is not None:
            images.append(image)
    if images:
        yield UserEntry("", at, tuple(images))


def _reply_entries(message: Row, at: float) -> Iterator[TranscriptEntry]:
    key, model = text_of(message.get("id")), text_of(message.get("model"))
    for thought in objects_in(message.get("thoughts")):
        lines = (text_of(thought.get("subject")), text_of(thought.get("description")))
        yield ReplyEntry("thought", "\n".join(filter(None, lines)), at, key, model)
    content = message.get("content")
    for part in [{"text": content}] if isinstance(content, str) else objects_in(content):
        yield ReplyEntry("text", text_of(part.get("text")), at, key, model)
    calls = objects_in(message.get("toolCalls"))
    for call in calls:
        id, name = text_of(call.get("id")), text_of(call.get("name")) or "tool"
        yield CallEntry(id, name, storable_arguments(call.get("args")), at, key, model)
    for call in calls:
        yield from _output_entries(call, unix_time(call.get("timestamp"), at))


def _output_entries(call: Row, at: float) -> Iterator[OutputEntry]:
    if (
        call.get("result") is None
        and not call.get("resultDisplay")
        and call.get("status") not in ("error", "cancelled")
    ):
        return
    result, texts = call.get("result"), list[str]()
    for part in [{"text": result}] if isinstance(result, str) else objects_in(result):
        response = object_of(object_of(part.get("functionResponse")).get("response"))
        texts += [text_of(part.get("text")), text_of(response.get("output")), text_of(response.get("error"))]
    text = "\n".join(filter(None, texts)) or text_of(call.get("resultDisplay"))
    status = {"error": "failed", "cancelled": "denied"}.get(text_of(call.get("status")), "done")
    yield OutputEntry(text_of(call.get("id")), text, at, status)  # type: ignore[arg-type]  # one of three
