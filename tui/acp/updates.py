"""Events and messages of a session as updates for an editor. Pure."""

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

from ebbtide.agent.archive.markdown import fenced_lines
from ebbtide.agent.context.tool_selection import unwrapped_call
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
    Steered,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFailed,
    TurnStarted,
)
from ebbtide.agent.events.view import FilesChanged
from ebbtide.agent.messages import Assistant, Image, Message, OutputStatus, Reasoning, Text, ToolCall, ToolOutput, User
from ebbtide.tui.plain.print_events import lines_of_new
from ebbtide.tui.text.unified_diff import FileDiff, Hunk, files_of
from ebbtide.tui.view.agents import agent_line
from ebbtide.tui.view.blocks import Call
from ebbtide.tui.view.call_titles import command_of, path_of, title_of, within
from ebbtide.tui.view.todos import items_of

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
"""Maximum characters of a running call's output: each update sends all of them again."""
MAX_OUTPUT_CHARS = 20_000
"""Maximum characters of a finished call's output."""

_KINDS: Mapping[str, ToolKind] = {
    "read": "read", "read_result": "read", "bash_output": "read", "diagnostics": "read", "symbols": "search",
    "repo_map": "search", "write": "edit", "edit": "edit", "apply_patch": "edit", "edit_notebook": "edit",
    "bash": "execute", "bash_kill": "execute", "glob": "search", "grep": "search", "recall": "search",
    "web_search": "search", "web_fetch": "fetch", "ask_user": "think", "submit_plan": "think", "task": "think",
}  # fmt: skip
_STATUSES: Mapping[OutputStatus, ToolCallStatus] = {"done": "completed"}
"""Statuses of outputs; all others count as failed."""
SHOWS_TERMINALS = "terminal_output"
"""The capability of an editor to show command output of an agent as a terminal: `terminal_info` starts one,
`terminal_output` appends, `terminal_exit` ends it, each beside an update. Commands do not run in the editor's
terminals, outside the sandbox and without stored output."""
_LIST = "todo"
"""The tool whose calls are shown as the plan."""


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A running call known to the editor."""

    name: str
    arguments: Mapping[str, object]
    printed: str = ""


@dataclass(frozen=True, slots=True)
class UpdateState:
    """What the editor already knows of a session."""

    root: str
    """The working folder."""
    has_terminals: bool = False
    """Whether it shows command output as terminals."""
    calls: Mapping[str, RunningCall] = field(default_factory=dict)
    """Running calls by id."""


def updates_of(told: UpdateState, event: Event) -> tuple[UpdateState, tuple[Update, ...]]:
    """The updates for an event. Questions are separate requests, and the end of a turn is the response to its
    prompt."""
    match event:
        case TextDelta(text=text):
            return told, (update_agent_message_text(text),)
        case ReasoningDelta(text=text):
            return told, (update_agent_thought_text(text),)
        case ToolStarted(call_id=id, name=name, arguments=arguments):
            return _with(told, id, RunningCall(name, arguments)), _call_start(id, name, arguments, told)
        case CallEdited(call_id=id, name=name, arguments=arguments):
            changed = replace(told.calls.get(id, RunningCall(name, arguments)), arguments=arguments)
            title = title_of(name, within(arguments, told.root))
            return _with(told, id, changed), (_progress(id, title=title, raw_input=dict(arguments)),)
        case ToolProgress(call_id=id, text=text):
            return _output_progress(told, id, text)
        case AgentActivity(call_id=id):
            line = agent_line(event, 0)
            return _output_progress(told, id, line) if line else (told, ())
        case ToolFinished():
            return _call_end(told, event)
        case ContextMeasured(used=used, effective=effective):
            return told, (UsageUpdate(session_update="usage_update", used=used, size=effective),)
        case (
            TurnStarted() | Steered() | TurnFailed() | FilesChanged() | PermissionAsked() | PermissionAnswered()
            | QuestionAsked() | QuestionAnswered() | PlanSubmitted() | PlanAnswered()
        ):  # fmt: skip
            return told, ()
        case _:
            return told, notice_updates(lines_of_new(event))


def notice_updates(lines: Sequence[str]) -> tuple[AgentThoughtChunk, ...]:
    """Notices of the program, which are not model text."""
    return (update_agent_thought_text("\n".join(lines) + "\n\n"),) if lines else ()


def with_cost(used: UsageUpdate, cost: float | None) -> UsageUpdate:
    """The context usage, with the session's cost in US dollars if known."""
    return used.model_copy(update={"cost": Cost(amount=cost, currency="USD")}) if cost else used


def replay_updates(messages: Sequence[Message], told: UpdateState) -> Iterator[Update]:
    """Updates for earlier messages, in order. Calls without output are shown as failed."""
    outputs = {output.call_id: output for one in messages if isinstance(one, User) for output in one.outputs}
    for message in messages:
        match message:
            case User():
                for part in message.parts:
                    if isinstance(part, Text):
                        yield update_user_message(text_block(part.whole or part.text))
                    elif isinstance(part, Image):
                        picture = ImageContentBlock(type="image", data=part.data, mime_type=part.media_type)
                        yield update_user_message(picture)
            case Assistant():
                for said in message.parts:
                    match said:
                        case Text(text=text):
                            yield update_agent_message_text(text)
                        case Reasoning(text=text) if text:
                            yield update_agent_thought_text(text)
                        case ToolCall():
                            yield from _replayed_call(unwrapped_call(said), outputs.get(said.id), told)


def _replayed_call(call: ToolCall, output: ToolOutput | None, told: UpdateState) -> Iterator[Update]:
    arguments = call.arguments if output is None or output.edited is None else output.edited
    status: OutputStatus = "interrupted" if output is None else output.status
    text, program = ("it was interrupted", None) if output is None else (output.text, output.program)
    yield from _call_start(call.id, call.name, arguments, told)
    running = _with(told, call.id, RunningCall(call.name, arguments))
    yield from _call_end(running, ToolFinished(call.id, call.name, status, text, program=program))[1]


def call_content(arguments: Mapping[str, object], diff: str, root: str) -> list[CallContent]:
    """What a call would do, to review before it runs."""
    if diff:
        return list(diffs(diff, root))
    command = command_of(arguments)
    return [_text("\n".join(fenced_lines(command, "sh")))] if command else []


def diffs(diff: str, root: str) -> Iterator[FileEditToolCallContent]:
    """A unified diff as the protocol's diffs: old and new text of each hunk."""
    for file in files_of(diff):
        path = _absolute(file.name, root)
        for part in file.parts:
            if isinstance(part, Hunk):
                yield tool_diff_content(path, _side(part, "added", file), _old_side(part, file))


def kind_of(name: str) -> ToolKind:
    return _KINDS.get(name, "other")


def locations(arguments: Mapping[str, object], root: str) -> list[ToolCallLocation]:
    """Files and lines that a call works on, for follow mode."""
    path, line = path_of(arguments), arguments.get("offset")
    if not path:
        return []
    return [ToolCallLocation(path=_absolute(path, root), line=line if isinstance(line, int) and line > 0 else None)]


def _with(told: UpdateState, id: str, call: RunningCall) -> UpdateState:
    return replace(told, calls={**told.calls, id: call})


def _call_start(id: str, name: str, arguments: Mapping[str, object], told: UpdateState) -> tuple[Update, ...]:
    if name == _LIST:
        return ()
    in_terminal = _uses_terminal(name, told)
    content = [_terminal(id)] if in_terminal else call_content(arguments, "", told.root)
    start = ToolCallStart(
        session_update="tool_call",
        tool_call_id=id,
        title=title_of(name, within(arguments, told.root)),
        kind=kind_of(name),
        status="in_progress",
        raw_input=dict(arguments),
        content=content or None,
        locations=locations(arguments, told.root) or None,
        field_meta={"terminal_info": {"terminal_id": id, "cwd": told.root}} if in_terminal else None,
    )
    return (start,)


def _uses_terminal(name: str, told: UpdateState) -> bool:
    return told.has_terminals and name == "bash"


def _output_progress(told: UpdateState, id: str, text: str) -> tuple[UpdateState, tuple[Update, ...]]:
    """Add output of a running call: an editor without terminals gets the end of all of it."""
    call = told.calls.get(id)
    if call is None:
        return told, ()
    call = replace(call, printed=(call.printed + text)[-MAX_RUNNING_OUTPUT_CHARS:])
    if _uses_terminal(call.name, told):
        return _with(told, id, call), (_progress(id, field_meta=_terminal_output(id, text)),)
    shown = [*call_content(call.arguments, "", told.root), _text("\n".join(fenced_lines(call.printed)))]
    return _with(told, id, call), (_progress(id, content=shown),)


def _call_end(told: UpdateState, event: ToolFinished) -> tuple[UpdateState, tuple[Update, ...]]:
    call, id = told.calls.get(event.call_id), event.call_id
    after = replace(told, calls={other: one for other, one in told.calls.items() if other != id})
    status, arguments = _STATUSES.get(event.status, "failed"), call.arguments if call is not None else {}
    if event.name == _LIST:
        return after, (_plan(arguments),) if event.status == "done" else ()
    cut = event.text[:MAX_OUTPUT_CHARS]
    more = len(event.text) - len(cut)
    shown = cut + (f"\n… {more:,} more characters" if more else "")
    if call is not None and _uses_terminal(event.name, told):
        printed = event.program is not None and bool(call.printed)
        rest = _terminal_output(id, shown) if not printed and shown.strip() else {}
        code = event.program.code if event.program is not None else None
        ended = {**rest, "terminal_exit": {"terminal_id": id, "exit_code": code, "signal": None}}
        return after, (_progress(id, status=status, content=[_terminal(id)], field_meta=ended),)
    content = call_content(arguments, event.diff, told.root)
    if shown.strip() and not (event.diff and status == "completed"):
        content.append(_text("\n".join(fenced_lines(shown))))
    return after, (_progress(id, status=status, content=content),)


def _terminal(id: str) -> CallContent:
    return TerminalToolCallContent(type="terminal", terminal_id=id)


def _terminal_output(id: str, data: str) -> dict[str, object]:
    return {"terminal_output": {"terminal_id": id, "data": data}}


def _plan(arguments: Mapping[str, object]) -> AgentPlanUpdate:
    """The model's to-do list."""
    statuses = {"doing": "in_progress", "done": "completed"}
    items = items_of(Call("", _LIST, arguments))
    return update_plan([plan_entry(item.text, status=statuses.get(item.status, "pending")) for item in items])  # type: ignore[arg-type]  # one of its words


def _progress(id: str, **more: object) -> ToolCallProgress:
    return ToolCallProgress.model_validate({"session_update": "tool_call_update", "tool_call_id": id, **more})


def _text(text: str) -> ContentToolCallContent:
    return tool_content(text_block(text))


def _absolute(path: str, root: str) -> str:
    return path if path.startswith("/") else f"{root.rstrip('/')}/{path}"


def _old_side(hunk: Hunk, file: FileDiff) -> str | None:
    """None if the file did not exist."""
    return None if file.state == "new" else _side(hunk, "removed", file)


def _side(hunk: Hunk, kind: str, file: FileDiff) -> str:
    return "".join(line.text + "\n" * line.ends for line in hunk.lines if line.kind in (kind, "kept"))
