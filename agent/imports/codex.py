"""Transcripts of Codex: one rollout of JSON lines per session, in a folder per day. Turns that the user rolled back are
still in the file and are skipped."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from ebbtide.agent.imports.agent_folders import AgentFolders
from ebbtide.agent.imports.assembly import arguments_of
from ebbtide.agent.imports.json_lines import (
    MAX_LINE_BYTES,
    Line,
    Row,
    head_rows,
    lines_of,
    list_of,
    object_of,
    picture_in,
    regular_file,
    row_of,
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
    SummaryEntry,
    UserEntry,
    files_there,
)
from ebbtide.agent.messages import Image
from ebbtide.tools.lazy import dataclass, regex

_OF_PROGRAM = (
    "<environment_context>", "<user_instructions>", "<permissions instructions>", "<collaboration_mode>", "<skills",
    "# AGENTS.md instructions", "<INSTRUCTIONS>", "<app-context>", "<apps_instructions>", "<plugins_instructions>",
)  # fmt: skip
"""Prefixes of texts that Codex adds in the user's name and that are meaningless here."""
_EVENTS = ("<turn_aborted>", "<user_shell_command>", "<subagent_notification>", "<user_action>")
_EXIT = regex(r"(?:exited with code|Exit code:?) ([1-9]\d*)\s*\n")
_HEAD = 400
"""Length of the start of an output that is searched for an exit code, in characters."""
_CALL_ID = regex(rb'"call_id":\s*"([^"\\]{1,100})"')


class CodexTranscripts:
    def find_transcripts(
        self, folders: AgentFolders, project: Path, troubles: ImportProblems
    ) -> Iterator[ForeignTranscript]:
        for top in ("sessions", "archived_sessions"):
            for file in files_there((folders.codex / top).rglob("rollout-*.jsonl*"), troubles):
                if file.path.suffix != ".jsonl":
                    troubles.add("compressed transcripts")
                    continue
                meta = next((meta for row in head_rows(file.path) if (meta := _meta_of(row))), {})
                if "subagent" in json.dumps([meta.get("source"), meta.get("thread_source")]):
                    troubles.leave_out("conversations of sub-agents")
                    continue
                id = text_of(meta.get("id")) or file.path.stem.removeprefix("rollout-")
                yield file.of("codex", id, text_of(meta.get("cwd")))

    def open_transcript(self, transcript: ForeignTranscript, troubles: ImportProblems) -> OpenTranscript:
        outline = _outline(transcript.path)
        created, updated = outline.created or transcript.updated, outline.updated or transcript.updated
        entries = _Reading(outline, troubles).entries(transcript.path, created)
        return OpenTranscript(entries, transcript.project or outline.cwd, "", created, updated, outline.version)


@dataclass(slots=True)
class _Outline:
    """Facts about a rollout, collected before its entries are read."""

    created: float = 0.0
    updated: float = 0.0
    version: str = ""
    cwd: str = ""
    rolled_back: tuple[tuple[int, int], ...] = ()
    """Start and end offsets of the parts that the user rolled back."""


def _meta_of(row: Row) -> Row:
    """The metadata of the session in a line; in early versions the first line contained only that."""
    if row.get("type") == "session_meta":
        return object_of(row.get("payload"))
    return row if "type" not in row and isinstance(row.get("id"), str) and "timestamp" in row else {}


def _outline(path: Path) -> _Outline:
    found, turns, taken_back = _Outline(), list[int](), list[tuple[int, int]]()
    with regular_file(path) as file:
        for line in lines_of(file):
            if not (b'"user"' in line.data or b"rolled_back" in line.data or b"cwd" in line.data or not line.offset):
                continue
            row = row_of(line)
            if row is None:
                continue
            payload = object_of(row.get("payload"))
            found.updated = time_of(row.get("timestamp"), found.updated)
            found.created = found.created or found.updated
            found.version = found.version or text_of(_meta_of(row).get("cli_version"))
            found.cwd = found.cwd or text_of(payload.get("cwd"))
            if payload.get("type") == "thread_rolled_back":
                count = payload.get("num_turns")
                begin = turns[-count:] if isinstance(count, int) and count > 0 else []
                del turns[len(turns) - len(begin) :]
                taken_back += [(begin[0], line.offset)] if begin else []
            elif any(isinstance(entry, UserEntry) for entry in _message(_item_of(row), 0.0, "")):
                turns.append(line.offset)
    found.rolled_back = tuple(taken_back)
    return found


def _item_of(row: Row) -> Row:
    """The conversation item in a line; in early versions it was the line itself."""
    if "payload" not in row:
        return row
    return object_of(row.get("payload")) if row.get("type") == "response_item" else {}


class _Reading:
    """Reads the entries of one rollout."""

    def __init__(self, outline: _Outline, troubles: ImportProblems) -> None:
        self._outline = outline
        self._troubles = troubles
        self._model = ""

    def entries(self, path: Path, created: float) -> Iterator[Entry]:
        at = created
        with regular_file(path) as file:
            for line in lines_of(file):
                if any(start <= line.offset < end for start, end in self._outline.rolled_back):
                    continue
                row = row_of(line)
                if row is None:
                    yield from self._unreadable(line, at)
                    continue
                at = time_of(row.get("timestamp"), at)
                payload = object_of(row.get("payload"))
                if row.get("type") == "turn_context":
                    self._model = text_of(payload.get("model")) or self._model
                elif row.get("type") == "compacted":
                    yield SummaryEntry(_summary(payload), at)
                else:
                    yield from self._entries_of(_item_of(row), at)

    def _unreadable(self, line: Line, at: float) -> Iterator[Entry]:
        if not line.is_whole:
            self._troubles.add(f"lines of more than {MAX_LINE_BYTES >> 20} MiB")
            if (call := _CALL_ID.search(line.data)) is not None and b"_output" in line.data:
                said = f"[This output had more than {MAX_LINE_BYTES >> 20} MiB and was not imported.]"
                yield OutputEntry(call[1].decode("utf-8", "replace"), said, at)
        elif line.data.strip():
            self._troubles.add("lines that cannot be read")

    def _entries_of(self, item: Row, at: float) -> Iterator[Entry]:
        id, name = text_of(item.get("call_id") or item.get("id")), text_of(item.get("name")) or "tool"
        match item.get("type"):
            case "message":
                yield from _message(item, at, self._model)
            case "reasoning":
                for one in (*list_of(item.get("summary")), *list_of(item.get("content"))):
                    yield ReplyEntry("thought", text_of(one.get("text")), at, "", self._model)
            case "function_call":
                yield CallEntry(id, name, _arguments(item.get("arguments")), at, "", self._model)
            case "custom_tool_call":
                yield CallEntry(id, name, arguments_of(item.get("input")), at, "", self._model)
            case "local_shell_call":
                action = object_of(item.get("action"))
                yield CallEntry(
                    id, "local_shell", arguments_of({"command": action.get("command")}), at, "", self._model
                )
            case "function_call_output" | "custom_tool_call_output":
                yield _answer(id, item.get("output"), at)
            case _:
                pass


def _message(item: Row, at: float, model: str) -> Iterator[Entry]:
    if item.get("type") != "message":
        return
    parts = list_of(item.get("content"))
    texts = [text for part in parts if (text := text_of(part.get("text"))).strip()]
    if item.get("role") == "assistant":
        for text in texts:
            yield ReplyEntry("text", text, at, "", model)
    elif item.get("role") == "user":
        images = [image for part in parts if (image := picture_in(part.get("image_url"))) is not None]
        for text in texts:
            start = text.lstrip()
            if start.startswith(_EVENTS):
                yield ProgramEntry(text, at)
            elif not start.startswith(_OF_PROGRAM):
                yield UserEntry(text, at)
        if images:
            yield UserEntry("", at, tuple(images))


def _summary(payload: Row) -> str:
    """The compaction summary: a text, or the last message of the replacement history."""
    if (text := text_of(payload.get("message"))).strip():
        return text
    kept = [one for one in list_of(payload.get("replacement_history")) if one.get("role") in ("user", "assistant")]
    texts = (text_of(part.get("text")) for one in reversed(kept) for part in list_of(one.get("content")))
    return next((text for text in texts if text.strip() and not text.startswith(_OF_PROGRAM)), "")


def _arguments(text: object) -> Mapping[str, object]:
    found = text
    if isinstance(text, str):
        with suppress(ValueError, RecursionError):  # kept as text if it is not JSON
            found = json.loads(text)
    return arguments_of(found)


def _answer(id: str, output: object, at: float) -> OutputEntry:
    status: Literal["done", "failed"] = "done"
    images = list[Image]()
    if isinstance(output, str) and output.startswith('{"output"'):  # format of early versions
        with suppress(ValueError, RecursionError):
            output = json.loads(output)
    if isinstance(output, dict):
        if output.get("success") is False or object_of(output.get("metadata")).get("exit_code") not in (None, 0):
            status = "failed"
        output = output.get("output", output.get("content"))
    if isinstance(output, list):
        images = [image for one in list_of(output) if (image := picture_in(one.get("image_url"))) is not None]
        output = "\n".join(text_of(one.get("text")) for one in list_of(output) if one.get("text"))
    text = text_of(output)
    return OutputEntry(id, text, at, "failed" if _EXIT.search(text[:_HEAD]) else status, tuple(images))
