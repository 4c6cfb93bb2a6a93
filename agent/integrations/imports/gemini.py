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
    as_object,
    as_text,
    decode_image,
    head_rows,
    objects_in,
    open_regular_file,
    parse_rows,
    parse_time,
)
from ebbtide.agent.integrations.imports.transcript import (
    CallEntry,
    ImportableTranscript,
    ImportProblems,
    OpenedTranscript,
    OutputEntry,
    ProgramEntry,
    ReplyEntry,
    TranscriptEntry,
    UnreadableTranscriptError,
    UserEntry,
    readable_files,
)
from ebbtide.agent.messages import Image
from ebbtide.tools.files.bounded import read_prefix

_SETUP_PREFIXES = ("This is the Gemini CLI. We are setting up", "<session_context>")
_MAX_PATH_CHARS = 4_096


class GeminiTranscripts:
    def find_transcripts(
        self, folders: AgentFolders, project: Path, problems: ImportProblems
    ) -> Iterator[ImportableTranscript]:
        projects = _project_paths(folders, project)
        for file in readable_files((folders.gemini / "tmp").glob("*/chats/session-*.json*"), problems):
            path = file.path
            header = next(head_rows(path), {}) if path.suffix == ".jsonl" else {}
            if header.get("kind") == "subagent":
                problems.add_skipped("conversations of sub-agents")
                continue
            folder = path.parent.parent
            cwd = projects.get(folder.name) or projects.get(as_text(header.get("projectHash"))) or _project_root(folder)
            yield file.transcript("gemini", as_text(header.get("sessionId")) or path.stem, cwd)

    def open_transcript(self, transcript: ImportableTranscript, problems: ImportProblems) -> OpenedTranscript:
        if transcript.path.suffix == ".jsonl":
            meta, messages = _replay_log(transcript.path, problems)
        else:
            meta = _read_document(transcript.path)
            messages = objects_in(meta.get("messages"))
        created = parse_time(meta.get("startTime"), transcript.updated_at)
        updated = parse_time(meta.get("lastUpdated"), transcript.updated_at)
        return OpenedTranscript(
            _entries(messages, created), transcript.project, as_text(meta.get("summary")), created, updated
        )


def _project_paths(folders: AgentFolders, project: Path) -> dict[str, str]:
    """Map the folder names in Gemini's data, which are digests or words, to project folders."""
    paths, paths_by_name = [str(project)], dict[str, str]()
    with suppress(ConfigError):
        paths_by_name = {
            as_text(name): path
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
        return read_prefix(folder / ".project_root", _MAX_PATH_CHARS).decode("utf-8", "replace").strip()
    return ""


def _read_document(path: Path) -> Row:
    try:
        data = read_prefix(path, MAX_SETTINGS_BYTES + 1)
    except OSError as error:
        raise UnreadableTranscriptError(error.strerror or str(error)) from error
    if len(data) > MAX_SETTINGS_BYTES:
        raise UnreadableTranscriptError(f"it is larger than {MAX_SETTINGS_BYTES >> 20} MiB")
    try:
        content = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise UnreadableTranscriptError(f"it is not valid JSON: {error}") from error
    return as_object(content)


def _replay_log(path: Path, problems: ImportProblems) -> tuple[Row, list[Row]]:
    """Replay a log; return the session's metadata and the final messages."""
    meta: dict[str, object] = {}
    messages: dict[str, Row] = {}
    size = 0
    with open_regular_file(path) as file:
        for row in parse_rows(file, problems):
            if "$set" in row:
                updates = dict(as_object(row["$set"]))
                if "messages" in updates:
                    messages = {as_text(message.get("id")): message for message in objects_in(updates.pop("messages"))}
                meta |= updates
            elif "$rewindTo" in row:
                message_ids = [*messages]
                rewind_id = as_text(row["$rewindTo"])
                for message in message_ids[message_ids.index(rewind_id) if rewind_id in messages else 0 :]:
                    del messages[message]
            elif isinstance(message_id := row.get("id"), str) and "type" in row:
                messages[message_id] = row
            elif "sessionId" in row:
                meta |= row
            size = file.tell()
            if size > MAX_SETTINGS_BYTES:
                raise UnreadableTranscriptError(f"it is larger than {MAX_SETTINGS_BYTES >> 20} MiB")
    return meta, [*messages.values()]


def _entries(messages: list[Row], created: float) -> Iterator[TranscriptEntry]:
    timestamp = created
    for message in messages:
        timestamp = parse_time(message.get("timestamp"), timestamp)
        if message.get("type") == "user":
            yield from _user_entries(message.get("content"), timestamp)
        elif message.get("type") == "gemini":
            yield from _reply_entries(message, timestamp)


def _user_entries(content: object, timestamp: float) -> Iterator[TranscriptEntry]:
    images = list[Image]()
    for part in [{"text": content}] if isinstance(content, str) else objects_in(content):
        text, inline_data = as_text(part.get("text")), as_object(part.get("inlineData"))
        if text.strip():
            yield ProgramEntry(text, timestamp) if text.startswith(_SETUP_PREFIXES) else UserEntry(text, timestamp)
        if (image := decode_image(inline_data.get("data"))) is not None:
            images.append(image)
    if images:
        yield UserEntry("", timestamp, tuple(images))


def _reply_entries(message: Row, timestamp: float) -> Iterator[TranscriptEntry]:
    key, model = as_text(message.get("id")), as_text(message.get("model"))
    for thought in objects_in(message.get("thoughts")):
        lines = (as_text(thought.get("subject")), as_text(thought.get("description")))
        yield ReplyEntry("thought", "\n".join(filter(None, lines)), timestamp, key, model)
    content = message.get("content")
    for part in [{"text": content}] if isinstance(content, str) else objects_in(content):
        yield ReplyEntry("text", as_text(part.get("text")), timestamp, key, model)
    calls = objects_in(message.get("toolCalls"))
    for call in calls:
        call_id, name = as_text(call.get("id")), as_text(call.get("name")) or "tool"
        yield CallEntry(call_id, name, storable_arguments(call.get("args")), timestamp, key, model)
    for call in calls:
        yield from _output_entries(call, parse_time(call.get("timestamp"), timestamp))


def _output_entries(call: Row, timestamp: float) -> Iterator[OutputEntry]:
    if (
        call.get("result") is None
        and not call.get("resultDisplay")
        and call.get("status") not in ("error", "cancelled")
    ):
        return
    result, texts = call.get("result"), list[str]()
    for part in [{"text": result}] if isinstance(result, str) else objects_in(result):
        response = as_object(as_object(part.get("functionResponse")).get("response"))
        texts += [as_text(part.get("text")), as_text(response.get("output")), as_text(response.get("error"))]
    text = "\n".join(filter(None, texts)) or as_text(call.get("resultDisplay"))
    status = {"error": "failed", "cancelled": "denied"}.get(as_text(call.get("status")), "done")
    yield OutputEntry(as_text(call.get("id")), text, timestamp, status)  # type: ignore[arg-type]  # one of three
