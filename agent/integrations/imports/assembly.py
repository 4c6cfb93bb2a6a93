"""Converts transcript entries to this program's messages. Every call gets exactly one output, in the next message.
Calls are converted to this program's tools where an equivalent exists. Provider-specific parts are removed."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from ebbtide.agent.calls.call_resolution import resolve_calls
from ebbtide.agent.integrations.imports.transcript import (
    CallEntry,
    ImportProblems,
    OutputEntry,
    ProgramEntry,
    ReplyEntry,
    SummaryEntry,
    TranscriptEntry,
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
from ebbtide.tools.call_arguments.schema import MAX_NESTING_DEPTH, is_nested_deeper, schema_violations

TimedMessage: TypeAlias = tuple[Message | Summary, float]
"""A message, or a summary of everything before it, with its Unix time in seconds."""

IMPORT_PROVIDER = "imported"
"""Provider name of imported messages. No real provider has this name, so native parts are never sent."""
MISSING_OUTPUT = "[no output was recorded]"
MISSING_BEGINNING = "[The beginning of this conversation is missing.]"
COMPACTED_NOTE = "[The conversation was compacted here.]"
_MAX_ID_CHARS = 40
_MAX_NAME_CHARS = 64


class MessageAssembler:
    """Assembles the messages of one transcript."""

    def __init__(self, tools: Mapping[str, Tool], root: str, problems: ImportProblems) -> None:
        """`tools` are this program's tools by name; `root` is the working folder of the conversation."""
        self._tools = tools
        self._root = root
        self._problems = problems
        self._parts: list[AssistantPart] = []
        self._reply_key = self._model = ""
        self._replied_at = self._outputs_at = 0.0
        self._call_ids: dict[str, str] = {}
        """New call ids, by original id, for the calls of the reply being assembled."""
        self._outputs: dict[str, ToolOutput] = {}
        self._used_ids: set[str] = set()
        """All call ids used so far."""
        self._deferred_messages: list[tuple[User, float]] = []
        """User messages that arrived before the outputs of all calls."""
        self._has_started = False

    def assemble(self, entries: Iterable[TranscriptEntry]) -> Iterator[TimedMessage]:
        """Yield the messages in order, each as soon as it is complete."""
        for entry in entries:
            match entry:
                case UserEntry():
                    parts: tuple[UserPart, ...] = (*((Text(entry.text),) if entry.text.strip() else ()), *entry.images)
                    yield from self._add_user_message(User(parts), entry.timestamp)
                case ProgramEntry():
                    yield from self._add_user_message(
                        User((Note(entry.text),) if entry.text.strip() else ()), entry.timestamp
                    )
                case ReplyEntry() | CallEntry():
                    yield from self._add_reply_part(entry)
                case OutputEntry():
                    self._add_output(entry)
                case SummaryEntry():
                    yield from self._flush_reply()
                    yield User((Note(COMPACTED_NOTE),)), entry.timestamp  # separates two replies
                    self._has_started = True
                    if entry.text.strip():
                        yield Summary(summary=entry.text), entry.timestamp
        yield from self._flush_reply()

    def _add_user_message(self, message: User, timestamp: float) -> Iterator[TimedMessage]:
        if not message.parts:
            return
        if self._outputs.keys() != set(self._call_ids.values()):
            self._deferred_messages.append((message, timestamp))
            return
        yield from self._flush_reply()
        self._has_started = True
        yield message, timestamp

    def _add_reply_part(self, entry: ReplyEntry | CallEntry) -> Iterator[TimedMessage]:
        if (self._outputs or self._deferred_messages) and not (entry.reply_key and entry.reply_key == self._reply_key):
            yield from self._flush_reply()
        self._reply_key = entry.reply_key or self._reply_key
        self._model = entry.model or self._model
        self._replied_at = self._replied_at or entry.timestamp
        match entry:
            case ReplyEntry(kind="text"):
                if entry.text.strip():
                    self._parts.append(Text(entry.text))
            case ReplyEntry():
                if entry.text.strip():
                    self._parts.append(Reasoning(entry.text, {}))
            case CallEntry():
                self._add_call(entry)

    def _add_call(self, entry: CallEntry) -> None:
        if entry.call_id in self._call_ids:
            self._problems.add("calls with a duplicate id")
            return
        call_id = base_id = re.sub(r"[^a-zA-Z0-9_-]", "_", entry.call_id)[:_MAX_ID_CHARS] or "call"
        suffix_number = 1
        while call_id in self._used_ids:
            suffix_number += 1
            call_id = f"{base_id[: _MAX_ID_CHARS - 8]}_{suffix_number}"
        self._used_ids.add(call_id)
        self._call_ids[entry.call_id] = call_id
        self._parts.append(ToolCall(call_id, entry.name, entry.arguments))

    def _add_output(self, entry: OutputEntry) -> None:
        call_id = self._call_ids.get(entry.call_id)
        if call_id is None or call_id in self._outputs:
            self._problems.add("outputs without a call" if call_id is None else "duplicate outputs of a call")
            return
        self._outputs_at = entry.timestamp
        self._outputs[call_id] = ToolOutput(call_id, entry.text, entry.status, entry.images)

    def _flush_reply(self) -> Iterator[TimedMessage]:
        """Yield the reply being assembled, and the outputs of its calls."""
        parts, outputs, timestamp = self._parts, self._outputs, self._replied_at
        if any(isinstance(part, Text | ToolCall) for part in parts):
            if not self._has_started:
                self._has_started = True
                yield User((Note(MISSING_BEGINNING),)), timestamp
            reply = self._with_converted_calls(Assistant(tuple(parts), f"{IMPORT_PROVIDER}/{self._model or 'model'}"))
            yield reply, timestamp
            if reply.calls:
                unanswered_calls = [call for call in reply.calls if call.id not in outputs]
                self._problems.add("calls without an output", len(unanswered_calls))
                placeholders = {
                    call.id: ToolOutput(call.id, MISSING_OUTPUT, "interrupted") for call in unanswered_calls
                }
                yield (
                    User(tuple({**placeholders, **outputs}[call.id] for call in reply.calls)),
                    self._outputs_at or timestamp,
                )
        self._parts, self._outputs, self._call_ids = [], {}, {}
        self._reply_key = ""
        self._replied_at = self._outputs_at = 0.0
        yield from self._deferred_messages
        self._deferred_messages = []

    def _with_converted_calls(self, reply: Assistant) -> Assistant:
        """Convert the reply's calls to this program's tools where possible."""
        resolved = resolve_calls(reply, self._tools, tuple(self._tools), self._root)
        parts = [
            self._resolve_call(part, original)
            if isinstance(part, ToolCall) and isinstance(original, ToolCall)
            else part
            for part, original in zip(resolved.parts, reply.parts, strict=True)
        ]
        return replace(reply, parts=tuple(parts))

    def _resolve_call(self, call: ToolCall, original: ToolCall) -> ToolCall:
        """Convert one call. The original text of the call and notes for the model are dropped, because the call was
        answered before the import."""
        tool = self._tools.get(call.name)
        if not call.problem and tool is not None and not schema_violations(call.arguments, tool.schema):
            return replace(call, source="", called="", note="")
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", original.name)[:_MAX_NAME_CHARS] or "tool"
        return replace(original, name=f"{name[: _MAX_NAME_CHARS - 9]}_imported" if name in self._tools else name)


def storable_arguments(value: object) -> Mapping[str, object]:
    """Convert a call's arguments to a mapping that can be stored and sent."""
    if value in (None, ""):
        return {}
    arguments = value if isinstance(value, dict) else {"input": value}
    if is_nested_deeper(arguments, MAX_NESTING_DEPTH):
        return {"input": "[These arguments were nested too deeply and were not imported.]"}
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:  # a lone surrogate, NaN or infinity
        text = json.dumps(arguments, ensure_ascii=False).encode("utf-8", "replace")
        parsed = json.loads(text, parse_constant=str)
        return parsed if isinstance(parsed, dict) else {}
    return arguments
