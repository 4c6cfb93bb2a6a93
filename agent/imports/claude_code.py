"""Transcripts of Claude Code: one JSON Lines file per session, in a folder per project. Each line names its parent, so
a file is a tree; the most recently continued branch is read."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

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
    picture_of,
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
    UnreadableTranscript,
    UserEntry,
    files_there,
)
from ebbtide.agent.messages import Image
from ebbtide.tools.lazy import dataclass, regex

_UUID = regex(rb'"(uuid|parentUuid|tool_use_id)":\s*"([^"\\]{1,100})"')
_REMINDER = regex(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_COMMAND = regex(r"<command-name>\s*(/?[^<]*?)\s*</command-name>")
_COMMAND_ARGUMENTS = regex(r"<command-args>(.*?)</command-args>", re.DOTALL)
_SHELL = regex(r"<bash-input>(.*?)</bash-input>", re.DOTALL)
_OF_PROGRAM = (
    "<local-command-",
    "<bash-stdout>",
    "<bash-stderr>",
    "[Request interrupted",
    "Caveat: The messages below",
)
_DENIAL_PREFIXES = ("The user doesn't want to", "The user doesn’t want to", "Permission to use")
TOO_LONG = "[This output had more than {:,} MiB and was not imported.]"


class ClaudeTranscripts:
    def find_transcripts(
        self, folders: AgentFolders, project: Path, troubles: ImportProblems
    ) -> Iterator[ForeignTranscript]:
        paths = (folders.claude / "projects").glob("*/*.jsonl")
        sessions = (path for path in paths if not path.name.startswith("agent-"))  # files of sub-agents
        for file in files_there(sessions, troubles):
            cwd = next((text_of(row.get("cwd")) for row in head_rows(file.path) if row.get("cwd")), "")
            yield file.of("claude", file.path.stem, cwd)

    def open_transcript(self, transcript: ForeignTranscript, troubles: ImportProblems) -> OpenTranscript:
        tree = _read_tree(transcript.path, troubles)
        chosen = tree.newest_branch(troubles)
        if not chosen:
            raise UnreadableTranscript("it has no messages")
        created, updated = tree.created or transcript.updated, tree.updated or transcript.updated
        entries = _entries(transcript.path, chosen, created)
        return OpenTranscript(entries, transcript.project, tree.title, created, updated, tree.version)


@dataclass(frozen=True, slots=True)
class _Node:
    """A line that other lines may refer to."""

    offset: int
    uuid: str
    parent: str
    is_message: bool
    is_side: bool
    """Whether it belongs to a sub-agent."""
    reply: str = ""
    """The id of the reply that it is part of."""
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


class _Tree:
    """The lines of a file, linked by their ids."""

    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self.created = self.updated = 0.0
        self.version = ""
        self._titles: dict[str, str] = {}

    @property
    def title(self) -> str:
        return next(
            (self._titles[kind] for kind in ("customTitle", "aiTitle", "summary") if self._titles.get(kind)), ""
        )

    def take(self, line: Line, row: Row) -> None:
        for kind in ("customTitle", "aiTitle", "summary"):
            if row.get("type") in ("custom-title", "ai-title", "summary") and (title := text_of(row.get(kind)).strip()):
                self._titles[kind] = title
        uuid = row.get("uuid")
        if not isinstance(uuid, str):
            return
        self.updated = time_of(row.get("timestamp"), self.updated)
        self.created = self.created or self.updated
        self.version = text_of(row.get("version")) or self.version
        parent = row.get("parentUuid") or row.get("logicalParentUuid")
        message = object_of(row.get("message"))
        blocks = list_of(message.get("content"))
        self.nodes.append(
            _Node(
                line.offset,
                uuid,
                parent if isinstance(parent, str) else "",
                row.get("type") in ("user", "assistant"),
                row.get("isSidechain") is True,
                text_of(message.get("id")) if row.get("type") == "assistant" else "",
                tuple(text_of(block.get("id")) for block in blocks if block.get("type") == "tool_use"),
                tuple(text_of(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"),
            )
        )

    def take_ends(self, line: Line) -> None:
        """Read the ids from the start and end of a line that is too long."""
        found = dict[str, str]()
        for name, value in _UUID.findall(line.data):
            found.setdefault(name.decode(), value.decode("utf-8", "replace"))
        answers = (found["tool_use_id"],) if "tool_use_id" in found else ()
        if "uuid" in found:
            self.nodes.append(
                _Node(line.offset, found["uuid"], found.get("parentUuid", ""), True, False, "", (), answers)
            )

    def newest_branch(self, troubles: ImportProblems) -> list[int]:
        """Return the offsets of the lines in the newest branch, in file order."""
        places = dict[str, int]()
        for place, node in enumerate(self.nodes):
            if node.uuid in places:
                troubles.add("lines with a duplicate id")
            places.setdefault(node.uuid, place)
        main = [place for place, node in enumerate(self.nodes) if not node.is_side and places[node.uuid] == place]
        troubles.leave_out("lines of sub-agents", sum(node.is_side and node.is_message for node in self.nodes))
        at = next((place for place in reversed(main) if self.nodes[place].is_message), None)
        branch = set[int]()
        while at is not None and at not in branch:
            branch.add(at)
            at = self._before(at, places, main, troubles)
        branch |= self._parallel_parts(branch, main)
        left = sum(self.nodes[place].is_message and place not in branch for place in main)
        troubles.leave_out("lines on abandoned branches", left)
        return [self.nodes[place].offset for place in sorted(branch) if self.nodes[place].offset >= 0]

    def _before(self, at: int, places: Mapping[str, int], main: list[int], troubles: ImportProblems) -> int | None:
        """The parent of a line; if it is missing, the preceding line in the file."""
        parent = self.nodes[at].parent
        if not parent or parent in places:
            return places.get(parent)
        earlier = [place for place in main if place < at]
        if not earlier:
            return None  # the conversation continues in another file
        troubles.add("lines that are missing")
        return earlier[-1]

    def _parallel_parts(self, branch: set[int], main: list[int]) -> set[int]:
        """Lines on side branches that belong to the branch: parts of the same replies, and outputs of calls that ran in
        parallel."""
        replies = {self.nodes[place].reply for place in branch if self.nodes[place].reply}
        parts = {place for place in main if self.nodes[place].reply in replies}
        callers = {self.nodes[place].uuid: self.nodes[place].calls for place in branch | parts}
        calls = {call for made in callers.values() for call in made}
        known = {id for place in branch for id in self.nodes[place].answers}
        outputs = set[int]()
        for place in main:
            node = self.nodes[place]
            is_new = calls.issuperset(node.answers) and not known.intersection(node.answers)
            if (
                node.answers
                and place not in branch
                and (is_new or set(node.answers) <= {*callers.get(node.parent, ())})
            ):
                outputs.add(place)
                known.update(node.answers)
        return parts | outputs


def _read_tree(path: Path, troubles: ImportProblems) -> _Tree:
    tree = _Tree()
    with regular_file(path) as file:
        for line in lines_of(file):
            row = row_of(line)
            if row is not None:
                tree.take(line, row)
            elif not line.is_whole:
                tree.take_ends(line)
                troubles.add(f"lines of more than {MAX_LINE_BYTES >> 20} MiB")
            elif line.data.strip():
                troubles.add("lines that cannot be read")
    return tree


def _entries(path: Path, chosen: list[int], created: float) -> Iterator[Entry]:
    at = created
    with regular_file(path) as file:
        for offset in chosen:
            file.seek(offset)
            line = next(lines_of(file), None)
            row = row_of(line) if line is not None else None
            if row is not None:
                at = time_of(row.get("timestamp"), at)
                yield from _entries_of(row, at)
            elif line is not None and not line.is_whole:
                for name, value in _UUID.findall(line.data):
                    if name == b"tool_use_id":
                        yield OutputEntry(value.decode("utf-8", "replace"), TOO_LONG.format(MAX_LINE_BYTES >> 20), at)
                        break


def _entries_of(row: Row, at: float) -> Iterator[Entry]:
    message = object_of(row.get("message"))
    match row.get("type"):
        case "assistant" if not row.get("isApiErrorMessage") and message.get("model") != "<synthetic>":
            yield from _reply(message, at)
        case "user" if row.get("isCompactSummary") is True:
            yield SummaryEntry("\n".join(_texts(message.get("content"))), at)
        case "user":
            yield from _user_entries(message.get("content"), at, is_meta=row.get("isMeta") is True)
        case "attachment":
            attached = object_of(row.get("attachment"))
            if attached.get("type") == "queued_command":
                yield from _user_entries(attached.get("prompt"), at, is_meta=attached.get("commandMode") != "prompt")
        case _:
            pass


def _reply(message: Row, at: float) -> Iterator[Entry]:
    key, model = text_of(message.get("id")), text_of(message.get("model"))
    content = message.get("content")
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content):
        match block.get("type"):
            case "text":
                yield ReplyEntry("text", text_of(block.get("text")), at, key, model)
            case "thinking":
                yield ReplyEntry("thought", text_of(block.get("thinking")), at, key, model)
            case "tool_use":
                id, name = text_of(block.get("id")), text_of(block.get("name"))
                yield CallEntry(id, name or "tool", arguments_of(block.get("input")), at, key, model)
            case _:
                pass


def _user_entries(content: object, at: float, *, is_meta: bool) -> Iterator[Entry]:
    texts, images = list[str](), list[Image]()
    for block in list_of(content) if isinstance(content, list) else [{"type": "text", "text": content}]:
        match block.get("type"):
            case "tool_result":
                yield _answer(block, at)
            case "text":
                texts.append(text_of(block.get("text")))
            case "image":
                source = object_of(block.get("source"))
                image = picture_of(source.get("data"))
                images += [image] if image else []
                texts += [] if image else ["[an image that was not imported]"]
            case "document":
                texts.append("[a document that was not imported]")
            case _:
                pass
    for text in texts:
        yield from _split_user_text(text, at, is_meta=is_meta)
    if images:
        yield UserEntry("", at, tuple(images))


def _split_user_text(text: str, at: float, *, is_meta: bool) -> Iterator[Entry]:
    """Separate what the user wrote from what the program added in the user's name."""
    if is_meta or text.lstrip().startswith(_OF_PROGRAM):
        yield ProgramEntry(text, at)
        return
    if (command := _COMMAND.search(text)) is not None and text.lstrip().startswith("<command-"):
        given = _COMMAND_ARGUMENTS.search(text)
        yield UserEntry(f"{command[1]} {given[1] if given else ''}".strip(), at)
        return
    if (shell := _SHELL.search(text)) is not None:
        yield UserEntry(f"!{shell[1]}", at)
        return
    said = _REMINDER.sub("", text).strip()
    for reminder in _REMINDER.findall(text):
        yield ProgramEntry(reminder, at)
    if said:
        yield UserEntry(said, at)


def _answer(block: Row, at: float) -> OutputEntry:
    content = block.get("content")
    texts, images = _texts(content), list[Image]()
    for one in list_of(content):
        source = object_of(one.get("source"))
        if one.get("type") == "image":
            image = picture_of(source.get("data"))
            images += [image] if image else []
            texts += [] if image else ["[an image that was not imported]"]
    text = "\n".join(texts)
    status: Literal["done", "failed", "denied"] = "failed" if block.get("is_error") is True else "done"
    if status == "failed" and text.startswith(_DENIAL_PREFIXES):
        status = "denied"
    return OutputEntry(text_of(block.get("tool_use_id")), text, at, status, tuple(images))


def _texts(content: Any) -> list[str]:  # noqa: ANN401  # any JSON
    if isinstance(content, str):
        return [text_of(content)]
    return [text_of(one.get("text")) for one in list_of(content) if one.get("type") == "text"]
