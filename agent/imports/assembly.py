"""Converts transcript entries to our messages. Every call gets exactly one output, in the next message; calls of our
tools get our names; provider-specific parts are removed. Entries in, messages out."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from ebbtide.agent.calls.resolve import normalize_calls
from ebbtide.agent.imports.transcript import (
    CallEntry,
    Entry,
    ImportProblems,
    OutputEntry,
    ProgramEntry,
    ReplyEntry,
    SummaryEntry,
    UserEntry,
)
from ebbtide.agent.messages import (
    Assistant,
    AssistantPart,
    Message,
    Note,
    Reasoning,
    Summary,
    Text,
    ToolCall,
    ToolOutput,
    User,
    UserPart,
)
from ebbtide.tools.base import Tool
from ebbtide.tools.schema import MAX_DEPTH, is_nested, mismatches

TimedMessage: TypeAlias = tuple[Message | Summary, float]
"""A message, or a summary of everything before it, with its Unix time in seconds."""

IMPORT_PROVIDER = "imported"
"""Provider name of imported messages; no such provider exists, so no native part is ever sent."""
NOT_RECORDED = "[no output was recorded]"
NO_BEGINNING = "[The beginning of this conversation is missing.]"
COMPACTED_NOTE = "[The conversation was compacted here.]"
_MAX_ID_CHARS = 40
_MAX_NAME_CHARS = 64


class Assembly:
    """The messages of one transcript."""

    def __init__(self, tools: Mapping[str, Tool], root: str, troubles: ImportProblems) -> None:
        """`tools` are our tools by name; `root` is the working folder of the conversation."""
        self._tools = tools
        self._root = root
        self._troubles = troubles
        self._parts: list[AssistantPart] = []
        self._key = self._model = ""
        self._replied_at = self._answered_at = 0.0
        self._ids: dict[str, str] = {}
        """Our call ids by the original ids, for the calls of the open reply."""
        self._outputs: dict[str, ToolOutput] = {}
        self._known: set[str] = set()
        """All call ids used so far."""
        self._later: list[tuple[User, float]] = []
        """User messages that arrived before the outputs of all calls."""
        self._has_begun = False

    def messages(self, entries: Iterable[Entry]) -> Iterator[TimedMessage]:
        """Yield the messages in order, each as soon as it is complete."""
        for entry in entries:
            match entry:
                case UserEntry():
                    parts: tuple[UserPart, ...] = (*((Text(entry.text),) if entry.text.strip() else ()), *entry.images)
                    yield from self._user(User(parts), entry.at)
                case ProgramEntry():
                    yield from self._user(User((Note(entry.text),) if entry.text.strip() else ()), entry.at)
                case ReplyEntry() | CallEntry():
                    yield from self._reply(entry)
                case OutputEntry():
                    self._answer(entry)
                case SummaryEntry():
                    yield from self._flush_reply()
                    if entry.text.strip():
                        yield User((Note(COMPACTED_NOTE),)), entry.at  # between two replies
                        yield Summary(summary=entry.text), entry.at
                        self._has_begun = True
        yield from self._flush_reply()

    def _user(self, message: User, at: float) -> Iterator[TimedMessage]:
        if not message.parts:
            return
        if self._outputs.keys() != set(self._ids.values()):
            self._later.append((message, at))
            return
        yield from self._flush_reply()
        self._has_begun = True
        yield message, at

    def _reply(self, entry: ReplyEntry | CallEntry) -> Iterator[TimedMessage]:
        if (self._outputs or self._later) and not (entry.key and entry.key == self._key):
            yield from self._flush_reply()
        self._key = entry.key or self._key
        self._model = entry.model or self._model
        self._replied_at = self._replied_at or entry.at
        match entry:
            case ReplyEntry(kind="text"):
                if entry.text.strip():
                    self._parts.append(Text(entry.text))
            case ReplyEntry():
                if entry.text.strip():
                    self._parts.append(Reasoning(entry.text, {}))
            case CallEntry():
                self._call(entry)

    def _call(self, entry: CallEntry) -> None:
        if entry.id in self._ids:
            self._troubles.add("calls with a duplicate id")
            return
        id = plain = re.sub(r"[^a-zA-Z0-9_-]", "_", entry.id)[:_MAX_ID_CHARS] or "call"
        number = 1
        while id in self._known:
            number += 1
            id = f"{plain[: _MAX_ID_CHARS - 8]}_{number}"
        self._known.add(id)
        self._ids[entry.id] = id
        self._parts.append(ToolCall(id, entry.name, entry.arguments))

    def _answer(self, entry: OutputEntry) -> None:
        id = self._ids.get(entry.id)
        if id is None or id in self._outputs:
            self._troubles.add("outputs without a call" if id is None else "duplicate outputs of a call")
            return
        self._answered_at = entry.at
        self._outputs[id] = ToolOutput(id, entry.text, entry.status, entry.images)

    def _flush_reply(self) -> Iterator[TimedMessage]:
        """Yield the open reply and the outputs of its calls."""
        parts, outputs, at = self._parts, self._outputs, self._replied_at
        if any(isinstance(part, Text | ToolCall) for part in parts):
            if not self._has_begun:
                self._has_begun = True
                yield User((Note(NO_BEGINNING),)), at
            reply = self._ours(Assistant(tuple(parts), f"{IMPORT_PROVIDER}/{self._model or 'model'}"))
            yield reply, at
            if reply.calls:
                missing = [call for call in reply.calls if call.id not in outputs]
                self._troubles.add("calls without an output", len(missing))
                none = {call.id: ToolOutput(call.id, NOT_RECORDED, "interrupted") for call in missing}
                yield User(tuple({**none, **outputs}[call.id] for call in reply.calls)), self._answered_at or at
        self._parts, self._outputs, self._ids = [], {}, {}
        self._key = ""
        self._replied_at = self._answered_at = 0.0
        yield from self._later
        self._later = []

    def _ours(self, reply: Assistant) -> Assistant:
        """Convert calls to our tools where possible; other calls stay unchanged."""
        made = normalize_calls(reply, self._tools, tuple(self._tools), self._root)
        parts = [
            self._resolve_call(one, before) if isinstance(one, ToolCall) and isinstance(before, ToolCall) else one
            for one, before in zip(made.parts, reply.parts, strict=True)
        ]
        return replace(reply, parts=tuple(parts))

    def _resolve_call(self, call: ToolCall, before: ToolCall) -> ToolCall:
        """Since the call was answered long ago, its source text and notes for the model are dropped."""
        tool = self._tools.get(call.name)
        if not call.problem and tool is not None and not mismatches(call.arguments, tool.schema):
            return replace(call, source="", called="", note="")
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", before.name)[:_MAX_NAME_CHARS] or "tool"
        return replace(before, name=f"{name[: _MAX_NAME_CHARS - 9]}_imported" if name in self._tools else name)


def arguments_of(value: object) -> Mapping[str, object]:
    """The arguments of a call as a mapping that can be stored and sent."""
    if value in (None, ""):
        return {}
    arguments = value if isinstance(value, dict) else {"input": value}
    if is_nested(arguments, MAX_DEPTH):
        return {"input": "[These arguments were nested too deep and were not imported.]"}
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:  # a lone surrogate, or NaN or infinity
        text = json.dumps(arguments, ensure_ascii=False).encode("utf-8", "replace")
        found = json.loads(text, parse_constant=str)
        return found if isinstance(found, dict) else {}
    return arguments
