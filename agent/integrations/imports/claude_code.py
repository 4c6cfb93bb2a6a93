"""Transcripts of Claude Code: one JSON Lines file per session, in one folder per project. Each line names its parent,
so a file is a tree. Only the branch that was continued last is read."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from ebbtide.agent.integrations.imports.agent_folders import AgentFolders
from ebbtide.agent.integrations.imports.assembly import storable_arguments
from ebbtide.agent.integrations.imports.json_lines import (
    MAX_LINE_BYTES,
    Line,
    Row,
    as_object,
    as_text,
    decode_image,
    head_rows,
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
    UnreadableTranscriptError,
    UserEntry,
    readable_files,
)
from ebbtide.agent.messages import Image
from ebbtide.tools.lazy import dataclass, regex

_ID_FIELD = regex(rb'"(uuid|parentUuid|tool_use_id)":\s*"([^"\\]{1,100})"')
_REMINDER = regex(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_COMMAND = regex(r"<command-name>\s*(/?[^<]*?)\s*</command-name>")
_COMMAND_ARGUMENTS = regex(r"<command-args>(.*?)</command-args>", re.DOTALL)
_SHELL = regex(r"<bash-input>(.*?)</bash-input>", re.DOTALL)
_PROGRAM_PREFIXES = (
    "<local-command-",
    "<bash-stdout>",
    "<bash-stderr>",
    "[Request interrupted",
    "Caveat: The messages below",
)
_DENIAL_PREFIXES = ("The user doesn't want to", "The user doesn’t want to", "Permission to use")
OUTPUT_TOO_LONG = "[This output had more than {:,} MiB and was not imported.]"


class ClaudeTranscripts:
    def find_transcripts(
        self, folders: AgentFolders, project: Path, problems: ImportProblems
    ) -> Iterator[ImportableTranscript]:
        paths = (folders.claude / "projects").glob("*/*.jsonl")
        session_paths = (path for path in paths if not path.name.startswith("agent-"))  # skips the files of sub-agents
        for file in readable_files(session_paths, problems):
            cwd = next((as_text(row.get("cwd")) for row in head_rows(file.path) if row.get("cwd")), "")
            yield file.transcript("claude", file.path.stem, cwd)

    def open_transcript(self, transcript: ImportableTranscript, problems: ImportProblems) -> OpenedTranscript:
        tree = _read_tree(transcript.path, problems)
        offsets = tree.newest_branch(problems)
        if not offsets:
            raise UnreadableTranscriptError("it has no messages")
        created, updated = tree.created or transcript.updated_at, tree.updated or transcript.updated_at
        entries = _entries(transcript.path, offsets, created)
        return OpenedTranscript(entries, transcript.project, tree.title, created, updated, tree.version)


@dataclass(frozen=True, slots=True)
class _TranscriptLine:
    """A line that other lines can refer to."""

    offset: int
    uuid: str
    parent_uuid: str
    is_message: bool
    is_sidechain: bool
    """Whether it belongs to a sub-agent."""
    reply_id: str = ""
    """The id of the reply that this line is part of."""
    call_ids: tuple[str, ...] = ()
    answered_call_ids: tuple[str, ...] = ()


class _Tree:
    """The lines of a file, linked by their ids."""

    def __init__(self) -> None:
        self.nodes: list[_TranscriptLine] = []
        self.created = self.updated = 0.0
        self.version = ""
        self._titles: dict[str, str] = {}

    @property
    def title(self) -> str:
        return next(
            (self._titles[kind] for kind in ("customTitle", "aiTitle", "summary") if self._titles.get(kind)), ""
        )

    def add_line(self, line: Line, row: Row) -> None:
        for kind in ("customTitle", "aiTitle", "summary"):
            if row.get("type") in ("custom-title", "ai-title", "summary") and (title := as_text(row.get(kind)).strip()):
                self._titles[kind] = title
        uuid = row.get("uuid")
        if not isinstance(uuid, str):
            return
        self.updated = parse_time(row.get("timestamp"), self.updated)
        self.created = self.created or self.updated
        self.version = as_text(row.get("version")) or self.version
        parent = row.get("parentUuid") or row.get("logicalParentUuid")
        message = as_object(row.get("message"))
        blocks = objects_in(message.get("content"))
        self.nodes.append(
            _TranscriptLine(
                line.offset,
                uuid,
                parent if isinstance(parent, str) else "",
                row.get("type") in ("user", "assistant"),
                row.get("isSidechain") is True,
                as_text(message.get("id")) if row.get("type") == "assistant" else "",
                tuple(as_text(block.get("id")) for block in blocks if block.get("type") == "tool_use"),
                tuple(as_text(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"),
            )
        )

    def add_long_line(self, line: Line) -> None:
        """Add a line that is too long to parse, with the ids found at its start and end."""
        ids = dict[str, str]()
        for name, value in _ID_FIELD.findall(line.data):
            ids.setdefault(name.decode(), value.decode("utf-8", "replace"))
        answered_call_ids = (ids["tool_use_id"],) if "tool_use_id" in ids else ()
        if "uuid" in ids:
            self.nodes.append(
                _TranscriptLine(
                    line.offset, ids["uuid"], ids.get("parentUuid", ""), True, False, "", (), answered_call_ids
                )
            )

    def newest_branch(self, problems: ImportProblems) -> list[int]:
        """Return the offsets of the lines in the newest branch, in file order."""
        index_by_uuid = dict[str, int]()
        for index, node in enumerate(self.nodes):
            if node.uuid in index_by_uuid:
                problems.add("lines with a duplicate id")
            index_by_uuid.setdefault(node.uuid, index)
        main_indices = [
            index
            for index, node in enumerate(self.nodes)
            if not node.is_sidechain and index_by_uuid[node.uuid] == index
        ]
        problems.add_skipped("lines of sub-agents", sum(node.is_sidechain and node.is_message for node in self.nodes))
        branch_index = next((index for index in reversed(main_indices) if self.nodes[index].is_message), None)
        branch = set[int]()
        while branch_index is not None and branch_index not in branch:
            branch.add(branch_index)
            branch_index = self._parent_index(branch_index, index_by_uuid, main_indices, problems)
        branch |= self._parallel_lines(branch, main_indices)
        abandoned_count = sum(self.nodes[index].is_message and index not in branch for index in main_indices)
        problems.add_skipped("lines on abandoned branches", abandoned_count)
        return [self.nodes[index].offset for index in sorted(branch) if self.nodes[index].offset >= 0]

    def _parent_index(
        self, index: int, index_by_uuid: Mapping[str, int], main_indices: list[int], problems: ImportProblems
    ) -> int | None:
        """Return the index of a line's parent. If the parent is missing from the file, the preceding line is used
        instead. None if the line has no parent, or if no line precedes it."""
        parent_uuid = self.nodes[index].parent_uuid
        if not parent_uuid or parent_uuid in index_by_uuid:
            return index_by_uuid.get(parent_uuid)
        earlier_indices = [candidate for candidate in main_indices if candidate < index]
        if not earlier_indices:
            return None  # the conversation continues in another file
        problems.add("lines that are missing")
        return earlier_indices[-1]

    def _parallel_lines(self, branch: set[int], main_indices: list[int]) -> set[int]:
        """Find lines on side branches that belong to this branch: other parts of its replies, and outputs of parallel
        calls."""
        reply_ids = {self.nodes[index].reply_id for index in branch if self.nodes[index].reply_id}
        part_indices = {index for index in main_indices if self.nodes[index].reply_id in reply_ids}
        call_ids_by_uuid = {self.nodes[index].uuid: self.nodes[index].call_ids for index in branch | part_indices}
        call_ids = {call for line_calls in call_ids_by_uuid.values() for call in line_calls}
        answered_ids = {call_id for index in branch for call_id in self.nodes[index].answered_call_ids}
        output_indices = set[int]()
        for index in main_indices:
            node = self.nodes[index]
            answers_open_calls = call_ids.issuperset(node.answered_call_ids) and not answered_ids.intersection(
                node.answered_call_ids
            )
            if (
                node.answered_call_ids
                and index not in branch
                and (answers_open_calls or set(node.answered_call_ids) <= {*call_ids_by_uuid.get(node.parent_uuid, ())})
            ):
                output_indices.add(index)
                answered_ids.update(node.answered_call_ids)
        return part_indices | output_indices


def _read_tree(path: Path, problems: ImportProblems) -> _Tree:
    tree = _Tree()
    with open_regular_file(path) as file:
        for line in read_lines(file):
            row = parse_row(line)
            if row is not None:
                tree.add_line(line, row)
            elif not line.is_complete:
                tree.add_long_line(line)
                problems.add(f"lines of more than {MAX_LINE_BYTES >> 20} MiB")
            elif line.data.strip():
                problems.add("lines that cannot be read")
    return tree


def _entries(path: Path, offsets: list[int], created: float) -> Iterator[TranscriptEntry]:
    timestamp = created
    with open_regular_file(path) as file:
        for offset in offsets:
            file.seek(offset)
            line = next(read_lines(file), None)
            row = parse_row(line) if line is not None else None
            if row is not None:
                timestamp = parse_time(row.get("timestamp"), timestamp)
                yield from _row_entries(row, timestamp)
            elif line is not None and not line.is_complete:
                for name, value in _ID_FIELD.findall(line.data):
                    if name == b"tool_use_id":
                        yield OutputEntry(
                            value.decode("utf-8", "replace"), OUTPUT_TOO_LONG.format(MAX_LINE_BYTES >> 20), timestamp
                        )
                        break


def _row_entries(row: Row, timestamp: float) -> Iterator[TranscriptEntry]:
    message = as_object(row.get("message"))
    match row.get("type"):
        case "assistant" if not row.get("isApiErrorMessage") and message.get("model") != "<synthetic>":
            yield from _reply_entries(message, timestamp)
        case "user" if row.get("isCompactSummary") is True:
            yield SummaryEntry("\n".join(_block_texts(message.get("content"))), timestamp)
        case "user":
            yield from _user_entries(message.get("content"), timestamp, is_meta=row.get("isMeta") is True)
        case "attachment":
            attachment = as_object(row.get("attachment"))
            if attachment.get("type") == "queued_command":
                yield from _user_entries(
                    attachment.get("prompt"), timestamp, is_meta=attachment.get("commandMode") != "prompt"
                )
        case _:
            pass


def _reply_entries(message: Row, timestamp: float) -> Iterator[TranscriptEntry]:
    key, model = as_text(message.get("id")), as_text(message.get("model"))
    content = message.get("content")
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else objects_in(content):
        match block.get("type"):
            case "text":
                yield ReplyEntry("text", as_text(block.get("text")), timestamp, key, model)
            case "thinking":
                yield ReplyEntry("thought", as_text(block.get("thinking")), timestamp, key, model)
            case "tool_use":
                call_id, name = as_text(block.get("id")), as_text(block.get("name"))
                yield CallEntry(call_id, name or "tool", storable_arguments(block.get("input")), timestamp, key, model)
            case _:
                pass


def _user_entries(content: object, timestamp: float, *, is_meta: bool) -> Iterator[TranscriptEntry]:
    texts, images = list[str](), list[Image]()
    for block in objects_in(content) if isinstance(content, list) else [{"type": "text", "text": content}]:
        match block.get("type"):
            case "tool_result":
                yield _output_entry(block, timestamp)
            case "text":
                texts.append(as_text(block.get("text")))
            case "image":
                source = as_object(block.get("source"))
                image = decode_image(source.get("data"))
                images += [image] if image else []
                texts += [] if image else ["[an image that was not imported]"]
            case "document":
                texts.append("[a document that was not imported]")
            case _:
                pass
    for text in texts:
        yield from _split_user_text(text, timestamp, is_meta=is_meta)
    if images:
        yield UserEntry("", timestamp, tuple(images))


def _split_user_text(text: str, timestamp: float, *, is_meta: bool) -> Iterator[TranscriptEntry]:
    """Yield the user's own text separately from text that the program added in the user's name."""
    if is_meta or text.lstrip().startswith(_PROGRAM_PREFIXES):
        yield ProgramEntry(text, timestamp)
        return
    if (command_match := _COMMAND.search(text)) is not None and text.lstrip().startswith("<command-"):
        arguments_match = _COMMAND_ARGUMENTS.search(text)
        yield UserEntry(f"{command_match[1]} {arguments_match[1] if arguments_match else ''}".strip(), timestamp)
        return
    if (shell_match := _SHELL.search(text)) is not None:
        yield UserEntry(f"!{shell_match[1]}", timestamp)
        return
    user_text = _REMINDER.sub("", text).strip()
    for reminder in _REMINDER.findall(text):
        yield ProgramEntry(reminder, timestamp)
    if user_text:
        yield UserEntry(user_text, timestamp)


def _output_entry(block: Row, timestamp: float) -> OutputEntry:
    content = block.get("content")
    texts, images = _block_texts(content), list[Image]()
    for inner_block in objects_in(content):
        source = as_object(inner_block.get("source"))
        if inner_block.get("type") == "image":
            image = decode_image(source.get("data"))
            images += [image] if image else []
            texts += [] if image else ["[an image that was not imported]"]
    text = "\n".join(texts)
    status: Literal["done", "failed", "denied"] = "failed" if block.get("is_error") is True else "done"
    if status == "failed" and text.startswith(_DENIAL_PREFIXES):
        status = "denied"
    return OutputEntry(as_text(block.get("tool_use_id")), text, timestamp, status, tuple(images))


def _block_texts(content: Any) -> list[str]:  # noqa: ANN401  # any JSON
    if isinstance(content, str):
        return [as_text(content)]
    return [as_text(block.get("text")) for block in objects_in(content) if block.get("type") == "text"]
