"""Transcripts of Codex: one rollout file of JSON lines per session, in one folder per day. Turns that the user rolled
back remain in the file, and are skipped here."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from ebbtide.agent.integrations.imports.agent_folders import AgentFolders
from ebbtide.agent.integrations.imports.assembly import storable_arguments
from ebbtide.agent.integrations.imports.json_lines import (
    MAX_LINE_BYTES,
    Line,
    Row,
    as_object,
    as_text,
    head_rows,
    image_from_url,
    objects_in,
    open_regular_file,
    parse_row,
    parse_time,
    read_lines,
)
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
    UserEntry,
    readable_files,
)
from ebbtide.agent.messages import Image
from ebbtide.tools.lazy import dataclass, regex

_PROGRAM_PREFIXES = (
    "<environment_context>", "<user_instructions>", "<permissions instructions>", "<collaboration_mode>", "<skills",
    "# AGENTS.md instructions", "<INSTRUCTIONS>", "<app-context>", "<apps_instructions>", "<plugins_instructions>",
)  # fmt: skip
"""Prefixes of text that Codex adds in the user's name and that is useless after an import."""
_EVENT_PREFIXES = ("<turn_aborted>", "<user_shell_command>", "<subagent_notification>", "<user_action>")
_NONZERO_EXIT = regex(r"(?:exited with code|Exit code:?) ([1-9]\d*)\s*\n")
_EXIT_SEARCH_CHARS = 400
"""Number of characters at the start of an output that are searched for an exit code."""
_CALL_ID = regex(rb'"call_id":\s*"([^"\\]{1,100})"')


class CodexTranscripts:
    def find_transcripts(
        self, folders: AgentFolders, project: Path, problems: ImportProblems
    ) -> Iterator[ImportableTranscript]:
        for folder_name in ("sessions", "archived_sessions"):
            for file in readable_files((folders.codex / folder_name).rglob("rollout-*.jsonl*"), problems):
                if file.path.suffix != ".jsonl":
                    problems.add("compressed transcripts")
                    continue
                meta = next((meta for row in head_rows(file.path) if (meta := _session_meta(row))), {})
                if "subagent" in json.dumps([meta.get("source"), meta.get("thread_source")]):
                    problems.add_skipped("conversations of sub-agents")
                    continue
                transcript_id = as_text(meta.get("id")) or file.path.stem.removeprefix("rollout-")
                yield file.transcript("codex", transcript_id, as_text(meta.get("cwd")))

    def open_transcript(self, transcript: ImportableTranscript, problems: ImportProblems) -> OpenedTranscript:
        outline = _scan_rollout(transcript.path)
        created, updated = outline.created or transcript.updated_at, outline.updated or transcript.updated_at
        entries = _EntryReader(outline, problems).entries(transcript.path, created)
        return OpenedTranscript(entries, transcript.project or outline.cwd, "", created, updated, outline.version)


@dataclass(slots=True)
class _RolloutFacts:
    """Facts about a rollout, collected before its entries are read."""

    created: float = 0.0
    updated: float = 0.0
    version: str = ""
    cwd: str = ""
    rolled_back_ranges: tuple[tuple[int, int], ...] = ()
    """Start and end offsets of the parts that the user rolled back."""


def _session_meta(row: Row) -> Row:
    """Return the session's metadata from a line. In early versions, the first line was the metadata itself."""
    if row.get("type") == "session_meta":
        return as_object(row.get("payload"))
    return row if "type" not in row and isinstance(row.get("id"), str) and "timestamp" in row else {}


def _scan_rollout(path: Path) -> _RolloutFacts:
    outline, turn_offsets, rolled_back = _RolloutFacts(), list[int](), list[tuple[int, int]]()
    with open_regular_file(path) as file:
        for line in read_lines(file):
            if not (b'"user"' in line.data or b"rolled_back" in line.data or b"cwd" in line.data or not line.offset):
                continue
            row = parse_row(line)
            if row is None:
                continue
            payload = as_object(row.get("payload"))
            outline.updated = parse_time(row.get("timestamp"), outline.updated)
            outline.created = outline.created or outline.updated
            outline.version = outline.version or as_text(_session_meta(row).get("cli_version"))
            outline.cwd = outline.cwd or as_text(payload.get("cwd"))
            if payload.get("type") == "thread_rolled_back":
                turn_count = payload.get("num_turns")
                undone_offsets = turn_offsets[-turn_count:] if isinstance(turn_count, int) and turn_count > 0 else []
                del turn_offsets[len(turn_offsets) - len(undone_offsets) :]
                rolled_back += [(undone_offsets[0], line.offset)] if undone_offsets else []
            elif any(isinstance(entry, UserEntry) for entry in _message_entries(_conversation_item(row), 0.0, "")):
                turn_offsets.append(line.offset)
    outline.rolled_back_ranges = tuple(rolled_back)
    return outline


def _conversation_item(row: Row) -> Row:
    """Return the conversation item from a line. In early versions, the line was the item itself."""
    if "payload" not in row:
        return row
    return as_object(row.get("payload")) if row.get("type") == "response_item" else {}


class _EntryReader:
    """Converts one rollout to entries."""

    def __init__(self, outline: _RolloutFacts, problems: ImportProblems) -> None:
        self._outline = outline
        self._problems = problems
        self._model = ""

    def entries(self, path: Path, created: float) -> Iterator[TranscriptEntry]:
        timestamp = created
        with open_regular_file(path) as file:
            for line in read_lines(file):
                if any(start <= line.offset < end for start, end in self._outline.rolled_back_ranges):
                    continue
                row = parse_row(line)
                if row is None:
                    yield from self._handle_unreadable_line(line, timestamp)
                    continue
                timestamp = parse_time(row.get("timestamp"), timestamp)
                payload = as_object(row.get("payload"))
                if row.get("type") == "turn_context":
                    self._model = as_text(payload.get("model")) or self._model
                elif row.get("type") == "compacted":
                    yield SummaryEntry(_compaction_summary(payload), timestamp)
                else:
                    yield from self._convert_item(_conversation_item(row), timestamp)

    def _handle_unreadable_line(self, line: Line, timestamp: float) -> Iterator[TranscriptEntry]:
        if not line.is_complete:
            self._problems.add(f"lines of more than {MAX_LINE_BYTES >> 20} MiB")
            if (id_match := _CALL_ID.search(line.data)) is not None and b"_output" in line.data:
                placeholder = f"[This output had more than {MAX_LINE_BYTES >> 20} MiB and was not imported.]"
                yield OutputEntry(id_match[1].decode("utf-8", "replace"), placeholder, timestamp)
        elif line.data.strip():
            self._problems.add("lines that cannot be read")

    def _convert_item(self, item: Row, timestamp: float) -> Iterator[TranscriptEntry]:
        call_id, name = as_text(item.get("call_id") or item.get("id")), as_text(item.get("name")) or "tool"
        match item.get("type"):
            case "message":
                yield from _message_entries(item, timestamp, self._model)
            case "reasoning":
                for part in (*objects_in(item.get("summary")), *objects_in(item.get("content"))):
                    yield ReplyEntry("thought", as_text(part.get("text")), timestamp, "", self._model)
            case "function_call":
                yield CallEntry(call_id, name, _parse_arguments(item.get("arguments")), timestamp, "", self._model)
            case "custom_tool_call":
                yield CallEntry(call_id, name, storable_arguments(item.get("input")), timestamp, "", self._model)
            case "local_shell_call":
                action = as_object(item.get("action"))
                yield CallEntry(
                    call_id,
                    "local_shell",
                    storable_arguments({"command": action.get("command")}),
                    timestamp,
                    "",
                    self._model,
                )
            case "function_call_output" | "custom_tool_call_output":
                yield _output_entry(call_id, item.get("output"), timestamp)
            case _:
                pass


def _message_entries(item: Row, timestamp: float, model: str) -> Iterator[TranscriptEntry]:
    if item.get("type") != "message":
        return
    parts = objects_in(item.get("content"))
    texts = [text for part in parts if (text := as_text(part.get("text"))).strip()]
    if item.get("role") == "assistant":
        for text in texts:
            yield ReplyEntry("text", text, timestamp, "", model)
    elif item.get("role") == "user":
        images = [image for part in parts if (image := image_from_url(part.get("image_url"))) is not None]
        for text in texts:
            stripped_text = text.lstrip()
            if stripped_text.startswith(_EVENT_PREFIXES):
                yield ProgramEntry(text, timestamp)
            elif not stripped_text.startswith(_PROGRAM_PREFIXES):
                yield UserEntry(text, timestamp)
        if images:
            yield UserEntry("", timestamp, tuple(images))


def _compaction_summary(payload: Row) -> str:
    """Return the summary of a compaction: its text, or the last message of the replacement history."""
    if (text := as_text(payload.get("message"))).strip():
        return text
    messages = [
        message
        for message in objects_in(payload.get("replacement_history"))
        if message.get("role") in ("user", "assistant")
    ]
    texts = (as_text(part.get("text")) for message in reversed(messages) for part in objects_in(message.get("content")))
    return next((text for text in texts if text.strip() and not text.startswith(_PROGRAM_PREFIXES)), "")


def _parse_arguments(text: object) -> Mapping[str, object]:
    value = text
    if isinstance(text, str):
        with suppress(ValueError, RecursionError):  # kept as text if it is not JSON
            value = json.loads(text)
    return storable_arguments(value)


def _output_entry(call_id: str, output: object, timestamp: float) -> OutputEntry:
    status: Literal["done", "failed"] = "done"
    images = list[Image]()
    if isinstance(output, str) and output.startswith('{"output"'):  # format of early versions
        with suppress(ValueError, RecursionError):
            output = json.loads(output)
    if isinstance(output, dict):
        if output.get("success") is False or as_object(output.get("metadata")).get("exit_code") not in (None, 0):
            status = "failed"
        output = output.get("output", output.get("content"))
    if isinstance(output, list):
        images = [image for part in objects_in(output) if (image := image_from_url(part.get("image_url"))) is not None]
        output = "\n".join(as_text(part.get("text")) for part in objects_in(output) if part.get("text"))
    text = as_text(output)
    return OutputEntry(
        call_id, text, timestamp, "failed" if _NONZERO_EXIT.search(text[:_EXIT_SEARCH_CHARS]) else status, tuple(images)
    )
