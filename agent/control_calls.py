"""Calls that let the model control the session: its todo list, a request to compact, and the report of a final turn
when the window is full."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ebbtide.agent.messages import Assistant, Message, ToolCall, ToolOutput, User
from ebbtide.tools.base import ToolError
from ebbtide.tools.final_report import FinalReport
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.submit_plan import SubmitPlan, get_plan
from ebbtide.tools.task import Task
from ebbtide.tools.tool_traits import role_of

REPORT_TOOL, PLAN_TOOL, TASK_TOOL = FinalReport.name, SubmitPlan.name, Task.name


NOT_RUN_WINDOW_FULL = "not run: the context window is full. Call `final_report` now, or answer in plain text"

NOT_RUN_STEP_LIMIT = "not run: the turn reached its step limit"


def submitted_report(reply: Assistant, outputs: Iterable[ToolOutput], *, plan_ends_turn: bool) -> str | None:
    """Return the report that the model submitted; None if there is none. `plan_ends_turn`: an approved plan counts as a
    report."""
    successful_ids = {output.call_id for output in outputs if output.status == "done"}
    reports = [call.arguments["report"] for call in reply.calls if _is_report(call)]
    if plan_ends_turn:
        reports += [
            call.arguments.get("plan") for call in reply.calls if call.name == PLAN_TOOL and call.id in successful_ids
        ]
    return next((report for report in reports if isinstance(report, str)), None)


def skipped_call_outputs(reply: Assistant, reason: str, *, plan_ends_turn: bool) -> tuple[ToolOutput, ...]:
    """Return outputs for calls that come too late to be run. A submitted report or plan is still accepted."""
    return tuple(
        ToolOutput(call.id, f"{'report' if call.name == REPORT_TOOL else 'plan'} accepted")
        if _is_report(call) or (plan_ends_turn and _is_plan(call))
        else ToolOutput(call.id, reason, "failed" if reason == NOT_RUN_WINDOW_FULL else "interrupted")
        for call in reply.calls
    )


def _is_report(call: ToolCall) -> bool:
    """Whether the call submits a valid report."""
    return call.name == REPORT_TOOL and not call.problem and isinstance(call.arguments.get("report"), str)


def _is_plan(call: ToolCall) -> bool:
    """Whether the call submits a valid plan."""
    try:
        return call.name == PLAN_TOOL and not call.problem and bool(get_plan(call.arguments))
    except ToolError:
        return False


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    focus: str | None


def compaction_request(messages: Sequence[Message]) -> CompactionRequest | None:
    """Return the model's request to compact, if the last step contains a successful `compact_context` call. A message
    after that step cancels the request."""
    match messages:
        case (*_, Assistant() as reply, User() as outputs) if not outputs.text:
            successful_ids = {output.call_id for output in outputs.outputs if output.status == "done"}
        case _:
            return None
    for call in reversed(reply.calls):
        if role_of(call.name) == "request_compaction" and call.id in successful_ids:
            focus = call.arguments.get("focus")
            return CompactionRequest(focus if isinstance(focus, str) and focus.strip() else None)
    return None


@dataclass(frozen=True, slots=True)
class TodoItem:
    text: str
    status: str
    """`pending`, `doing` or `done`."""


@dataclass(frozen=True, slots=True)
class TodoState:
    """The model's todo list and notes. Each is None if no `todo` call has set it."""

    todos: tuple[TodoItem, ...] | None = None
    notes: str | None = None
    pending_calls: tuple[ToolCall, ...] = ()
    """`todo` calls that have no output yet."""

    def plus(self, message: Message) -> "TodoState":
        """Return the state after a message. Only successful calls change it."""
        if isinstance(message, Assistant):
            todo_calls = tuple(call for call in message.calls if role_of(call.name) == "list_todos")
            return replace(self, pending_calls=todo_calls) if todo_calls or self.pending_calls else self
        if not self.pending_calls:
            return self
        successful_ids = {output.call_id for output in message.outputs if output.status == "done"}
        todos, notes = self.todos, self.notes
        for call in self.pending_calls:
            if call.id in successful_ids:
                todos = _todo_items(call)
                notes = str(call.arguments["notes"]).strip() if "notes" in call.arguments else notes
        return TodoState(todos, notes)


def todo_state(messages: Iterable[Message]) -> TodoState:
    """Return the list and notes as set by the calls in the messages."""
    state = TodoState()
    for message in messages:
        state = state.plus(message)
    return state


def last_todos(messages: Iterable[Message]) -> tuple[TodoItem, ...] | None:
    """Return the list set by the last successful `todo` call; None if there is none."""
    return todo_state(messages).todos


def format_open_items(items: Sequence[TodoItem]) -> str:
    """Return the unfinished items, one per line."""
    return "\n".join(f"- [{item.status}] {item.text}" for item in items if item.status != "done")


def _todo_items(call: ToolCall) -> tuple[TodoItem, ...]:
    items = call.arguments.get("items")
    if not isinstance(items, list):
        return ()
    return tuple(
        TodoItem(str(item.get("text", "")), str(item.get("status", "pending")))
        for item in items
        if isinstance(item, dict)
    )
