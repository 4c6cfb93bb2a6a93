"""Converts a session's events and messages to updates for an editor. No I/O."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from acp.helpers import (
    plan_entry,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_user_message,
)
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ContentToolCallContent,
    Cost,
    FileEditToolCallContent,
    ImageContentBlock,
    TerminalToolCallContent,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallStatus,
    ToolKind,
    UsageUpdate,
    UserMessageChunk,
)

from ebbtide.agent.events.permissions import (
    CallEdited,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from ebbtide.agent.events.plan import PlanAnswered, PlanSubmitted
from ebbtide.agent.events.session import (
    AgentActivity,
    ContextMeasured,
    Event,
    ReasoningDelta,
    ReplyFinished,
    Steered,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFailed,
    TurnStarted,
)
from ebbtide.agent.events.view import FilesChanged
from ebbtide.agent.messages import (
    Assistant,
    Image,
    Message,
    OutputStatus,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.prompt.code_blocks import fenced_lines
from ebbtide.agent.tool_specs import unwrapped_call
from ebbtide.agent.view.sources import cited_sources, sources_text
from ebbtide.tools.tool_traits import command_argument, path_argument, role_of, traits_of
from ebbtide.tui.text.unified_diff import FileDiff, Hunk, parse_diff
from ebbtide.tui.view.blocks import Call
from ebbtide.tui.view.call_titles import call_title, with_relative_arguments
from ebbtide.tui.view.plain_lines import new_block_lines
from ebbtide.tui.view.reduce import agent_line
from ebbtide.tui.view.todos import todo_items

Update: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCallStart
    | ToolCallProgress
    | AgentPlanUpdate
    | UsageUpdate
)
CallContent: TypeAlias = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent

MAX_RUNNING_OUTPUT_CHARS = 4_000
"""Maximum length, in characters, of a running call's displayed output. It is low because each update repeats the whole
text."""
MAX_OUTPUT_CHARS = 20_000
"""Maximum length, in characters, of a finished call's displayed output."""

_STATUSES: Mapping[OutputStatus, ToolCallStatus] = {"done": "completed"}
"""How the protocol names an output's status. Any status not listed counts as failed."""
TERMINAL_CAPABILITY = "terminal_output"
"""An editor's capability to show command output as a terminal. In an update's metadata, `terminal_info` opens a
terminal, `terminal_output` appends to it and `terminal_exit` ends it. Commands do not run in the editor's own
terminals: they would not be sandboxed there, and their output would not be stored."""


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A running call that the editor knows about."""

    name: str
    arguments: Mapping[str, object]
    output: str = ""


@dataclass(frozen=True, slots=True)
class UpdateState:
    """What the editor already knows about a session."""

    root: str
    """The working folder."""
    has_terminals: bool = False
    """Whether the editor shows command output as terminals."""
    calls: Mapping[str, RunningCall] = field(default_factory=dict)
    """Running calls by id."""


def event_updates(state: UpdateState, event: Event) -> tuple[UpdateState, tuple[Update, ...]]:
    """Convert an event to updates. Also returns the new state. Questions and the end of a turn are not updates:
    questions are sent as separate requests, and a turn ends with the response to its prompt."""
    match event:
        case TextDelta(text=text):
            return state, (update_agent_message_text(text),)
        case ReasoningDelta(text=text):
            return state, (update_agent_thought_text(text),)
        case ToolStarted(call_id=call_id, name=name, arguments=arguments):
            return _with_call(state, call_id, RunningCall(name, arguments)), _call_start(
                call_id, name, arguments, state
            )
        case CallEdited(call_id=call_id, name=name, arguments=arguments):
            edited_call = replace(state.calls.get(call_id, RunningCall(name, arguments)), arguments=arguments)
            title = call_title(name, with_relative_arguments(arguments, state.root))
            return _with_call(state, call_id, edited_call), (
                _call_update(call_id, title=title, raw_input=dict(arguments)),
            )
        case ToolProgress(call_id=call_id, text=text):
            return _output_progress(state, call_id, text)
        case AgentActivity(call_id=call_id):
            line = agent_line(event, 0)
            return _output_progress(state, call_id, line) if line else (state, ())
        case ToolFinished():
            return _call_end(state, event)
        case ReplyFinished(purpose="step", sources=sources):
            return state, source_updates(sources)
        case ContextMeasured(used=used, effective=effective):
            return state, (UsageUpdate(session_update="usage_update", used=used, size=effective),)
        case (
            TurnStarted() | Steered() | TurnFailed() | FilesChanged() | PermissionAsked() | PermissionAnswered()
            | QuestionAsked() | QuestionAnswered() | PlanSubmitted() | PlanAnswered()
        ):  # fmt: skip
            return state, ()
        case _:
            return state, notice_updates(new_block_lines(event))


def notice_updates(lines: Sequence[str]) -> tuple[AgentThoughtChunk, ...]:
    """Convert the program's notices to updates. They are sent as thoughts, because they were not written by the
    model."""
    return (update_agent_thought_text("\n".join(lines) + "\n\n"),) if lines else ()


def source_updates(sources: Sequence[Source]) -> tuple[AgentMessageChunk, ...]:
    """Convert an answer's sources to updates. They are sent as part of the answer, which cites them by number."""
    lines = sources_text(sources).splitlines() if sources else ()
    return (update_agent_message_text("\n\n" + "  \n".join(lines) + "\n\n"),) if lines else ()


def with_cost(usage_update: UsageUpdate, cost: float | None) -> UsageUpdate:
    """Add the session's cost in US dollars, if known, to the context usage."""
    return usage_update.model_copy(update={"cost": Cost(amount=cost, currency="USD")}) if cost else usage_update


def replay_updates(messages: Sequence[Message], state: UpdateState) -> Iterator[Update]:
    """Yield updates for earlier messages, in order. Calls without output are shown as failed."""
    outputs = {
        output.call_id: output
        for user_message in messages
        if isinstance(user_message, User)
        for output in user_message.outputs
    }
    for message in messages:
        match message:
            case User():
                for part in message.parts:
                    if isinstance(part, Text):
                        yield update_user_message(text_block(part.whole or part.text))
                    elif isinstance(part, Image):
                        image = ImageContentBlock(type="image", data=part.data, mime_type=part.media_type)
                        yield update_user_message(image)
            case Assistant():
                for reply_part in message.parts:
                    match reply_part:
                        case Text(text=text):
                            yield update_agent_message_text(text)
                        case Reasoning(text=text) if text:
                            yield update_agent_thought_text(text)
                        case ToolCall():
                            yield from _replayed_call(unwrapped_call(reply_part), outputs.get(reply_part.id), state)
                yield from source_updates(cited_sources(message))


def _replayed_call(call: ToolCall, output: ToolOutput | None, state: UpdateState) -> Iterator[Update]:
    arguments = call.arguments if output is None or output.edited is None else output.edited
    status: OutputStatus = "interrupted" if output is None else output.status
    text, program = ("interrupted", None) if output is None else (output.text, output.program)
    yield from _call_start(call.id, call.name, arguments, state)
    running_state = _with_call(state, call.id, RunningCall(call.name, arguments))
    yield from _call_end(running_state, ToolFinished(call.id, call.name, status, text, program=program))[1]


def call_content(arguments: Mapping[str, object], diff: str, root: str) -> list[CallContent]:
    """Format what a call would do, for review before it runs: its diff or, if it has none, its command."""
    if diff:
        return list(protocol_diffs(diff, root))
    command = command_argument(arguments)
    return [_text_content("\n".join(fenced_lines(command, "sh")))] if command else []


def protocol_diffs(diff: str, root: str) -> Iterator[FileEditToolCallContent]:
    """Convert the hunks of a unified diff to the protocol's diffs, each with its old and new text."""
    for file in parse_diff(diff):
        path = _absolute_path(file.name, root)
        for part in file.parts:
            if isinstance(part, Hunk):
                yield tool_diff_content(path, _hunk_text(part, "added"), _old_hunk_text(part, file))


def tool_kind(name: str) -> ToolKind:
    return traits_of(name).acp_kind


def call_locations(arguments: Mapping[str, object], root: str) -> list[ToolCallLocation]:
    """Get the files and lines that a call works on, so that the editor can follow along."""
    path, line = path_argument(arguments), arguments.get("offset")
    if not path:
        return []
    return [
        ToolCallLocation(path=_absolute_path(path, root), line=line if isinstance(line, int) and line > 0 else None)
    ]


def _with_call(state: UpdateState, call_id: str, call: RunningCall) -> UpdateState:
    return replace(state, calls={**state.calls, call_id: call})


def _call_start(call_id: str, name: str, arguments: Mapping[str, object], state: UpdateState) -> tuple[Update, ...]:
    if role_of(name) == "list_todos":  # shown as a plan instead
        return ()
    uses_terminal = _uses_terminal(name, state)
    content = [_terminal_content(call_id)] if uses_terminal else call_content(arguments, "", state.root)
    start = ToolCallStart(
        session_update="tool_call",
        tool_call_id=call_id,
        title=call_title(name, with_relative_arguments(arguments, state.root)),
        kind=tool_kind(name),
        status="in_progress",
        raw_input=dict(arguments),
        content=content or None,
        locations=call_locations(arguments, state.root) or None,
        field_meta={"terminal_info": {"terminal_id": call_id, "cwd": state.root}} if uses_terminal else None,
    )
    return (start,)


def _uses_terminal(name: str, state: UpdateState) -> bool:
    return state.has_terminals and role_of(name) == "run_command"


def _output_progress(state: UpdateState, call_id: str, text: str) -> tuple[UpdateState, tuple[Update, ...]]:
    """Add output from a running call. An editor without terminals gets the end of the whole output so far."""
    call = state.calls.get(call_id)
    if call is None:
        return state, ()
    call = replace(call, output=(call.output + text)[-MAX_RUNNING_OUTPUT_CHARS:])
    if _uses_terminal(call.name, state):
        return _with_call(state, call_id, call), (_call_update(call_id, field_meta=_terminal_output(call_id, text)),)
    content = [*call_content(call.arguments, "", state.root), _text_content("\n".join(fenced_lines(call.output)))]
    return _with_call(state, call_id, call), (_call_update(call_id, content=content),)


def _call_end(state: UpdateState, event: ToolFinished) -> tuple[UpdateState, tuple[Update, ...]]:
    call, call_id = state.calls.get(event.call_id), event.call_id
    remaining_state = replace(
        state, calls={running_id: running for running_id, running in state.calls.items() if running_id != call_id}
    )
    status = _STATUSES.get(event.status, "failed")
    arguments = call.arguments if call is not None else {}
    if role_of(event.name) == "list_todos":
        return remaining_state, (_plan_update(arguments),) if event.status == "done" else ()
    visible_text = event.text[:MAX_OUTPUT_CHARS]
    hidden_chars = len(event.text) - len(visible_text)
    text = visible_text + (f"\n… {hidden_chars:,} more characters" if hidden_chars else "")
    if call is not None and _uses_terminal(event.name, state):
        was_output_sent = event.program is not None and bool(call.output)
        terminal_output = _terminal_output(call_id, text) if not was_output_sent and text.strip() else {}
        exit_code = event.program.code if event.program is not None else None
        metadata = {
            **terminal_output,
            "terminal_exit": {"terminal_id": call_id, "exit_code": exit_code, "signal": None},
        }
        return remaining_state, (
            _call_update(call_id, status=status, content=[_terminal_content(call_id)], field_meta=metadata),
        )
    content = call_content(arguments, event.diff, state.root)
    if text.strip() and not (event.diff and status == "completed"):
        content.append(_text_content("\n".join(fenced_lines(text))))
    return remaining_state, (_call_update(call_id, status=status, content=content),)


def _terminal_content(terminal_id: str) -> CallContent:
    return TerminalToolCallContent(type="terminal", terminal_id=terminal_id)


def _terminal_output(terminal_id: str, data: str) -> dict[str, object]:
    return {"terminal_output": {"terminal_id": terminal_id, "data": data}}


def _plan_update(arguments: Mapping[str, object]) -> AgentPlanUpdate:
    """Convert the model's to-do list to a plan."""
    statuses = {"doing": "in_progress", "done": "completed"}
    items = todo_items(Call("", "", arguments))
    return update_plan([plan_entry(item.text, status=statuses.get(item.status, "pending")) for item in items])  # type: ignore[arg-type]  # the status is a valid one


def _call_update(call_id: str, **fields: object) -> ToolCallProgress:
    return ToolCallProgress.model_validate({"session_update": "tool_call_update", "tool_call_id": call_id, **fields})


def _text_content(text: str) -> ContentToolCallContent:
    return tool_content(text_block(text))


def _absolute_path(path: str, root: str) -> str:
    return path if path.startswith("/") else f"{root.rstrip('/')}/{path}"


def _old_hunk_text(hunk: Hunk, file: FileDiff) -> str | None:
    """Get the old text of a hunk; None if the file did not exist."""
    return None if file.state == "new" else _hunk_text(hunk, "removed")


def _hunk_text(hunk: Hunk, kind: str) -> str:
    return "".join(line.text + "\n" * line.has_newline for line in hunk.lines if line.kind in (kind, "kept"))
