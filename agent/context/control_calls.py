"""Calls by which the model controls the session: its todo list, a request to compact, and the report of a final turn
when the window is full. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ebbtide.agent.context.message_text import is_steering_message
from ebbtide.agent.messages import Assistant, Conversation, Message, Note, ToolCall, ToolOutput, User
from ebbtide.tools.base import ToolError
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.submit_plan import plan_of

REPORT, PLAN, TASK = "final_report", "submit_plan", "task"

FINAL = Note(
    "The context window is full, so this is the final turn. No other tool runs any more: call `final_report` with your "
    "whole answer, what is done and what is left open, or write it as plain text.",
    kind="final",
)

FULL = "not run: the context window is full. Call `final_report` now, or answer in plain text"

LAST = "not run: the turn had reached its limit of steps"


def is_final_turn_announced(conversation: Conversation) -> bool:
    """Whether the model has been told, since the turn began, that this turn is the final one."""
    for message in reversed(conversation.messages):
        if isinstance(message, User) and message.has_note("final"):
            return True
        if isinstance(message, User) and message.text and not is_steering_message(message):
            return False
    return False


def report_in(reply: Assistant, outputs: Iterable[ToolOutput], *, takes_plans: bool) -> str | None:
    """Return the report that the model submits, or None. `takes_plans`: an approved plan counts as a report."""
    done = {output.call_id for output in outputs if output.status == "done"}
    reports = [call.arguments.get("report") for call in reply.calls if call.name == REPORT and not call.problem]
    if takes_plans:
        reports += [call.arguments.get("plan") for call in reply.calls if call.name == PLAN and call.id in done]
    return next((report for report in reports if isinstance(report, str)), None)


def not_run(reply: Assistant, why: str, *, takes_plans: bool) -> tuple[ToolOutput, ...]:
    """Return outputs for calls that come too late. A call that submits the answer is accepted nevertheless."""
    return tuple(
        ToolOutput(call.id, f"the {'report' if call.name == REPORT else 'plan'} is taken")
        if call.name == REPORT or (takes_plans and _is_plan(call))
        else ToolOutput(call.id, why, "failed" if why == FULL else "interrupted")
        for call in reply.calls
    )


def _is_plan(call: ToolCall) -> bool:
    """Whether the call submits a valid plan."""
    try:
        return call.name == PLAN and not call.problem and bool(plan_of(call.arguments))
    except ToolError:
        return False


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    focus: str | None


def compaction_request(messages: Sequence[Message]) -> CompactionRequest | None:
    """Return the request of the last step's `compact_context` call, or None without one. Any later message cancels
    it."""
    match messages:
        case (*_, Assistant() as reply, User() as outputs) if not outputs.text:
            done = {output.call_id for output in outputs.outputs if output.status == "done"}
        case _:
            return None
    for call in reversed(reply.calls):
        if call.name == "compact_context" and call.id in done:
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
    """The list and notes as set by `todo` calls; None if no call has set them."""

    todos: tuple[TodoItem, ...] | None = None
    notes: str | None = None
    asked: tuple[ToolCall, ...] = ()
    """Calls without an output so far."""

    def plus(self, message: Message) -> "TodoState":
        """Return the state updated by a message. Only successful calls count."""
        if isinstance(message, Assistant):
            asked = tuple(call for call in message.calls if call.name == "todo")
            return replace(self, asked=asked) if asked or self.asked else self
        if not self.asked:
            return self
        done = {output.call_id for output in message.outputs if output.status == "done"}
        todos, notes = self.todos, self.notes
        for call in self.asked:
            if call.id in done:
                todos = _items(call)
                notes = str(call.arguments["notes"]).strip() if "notes" in call.arguments else notes
        return TodoState(todos, notes)


def todo_state(messages: Iterable[Message]) -> TodoState:
    """Return the list and notes as set by the calls in the messages."""
    kept = TodoState()
    for message in messages:
        kept = kept.plus(message)
    return kept


def last_todos(messages: Iterable[Message]) -> tuple[TodoItem, ...] | None:
    """Return the list set by the last successful `todo` call, or None."""
    return todo_state(messages).todos


def open_items(items: Sequence[TodoItem]) -> str:
    """Return the unfinished items, one a line."""
    return "\n".join(f"- [{item.status}] {item.text}" for item in items if item.status != "done")


def _items(call: ToolCall) -> tuple[TodoItem, ...]:
    items = call.arguments.get("items")
    if not isinstance(items, list):
        return ()
    return tuple(
        TodoItem(str(item.get("text", "")), str(item.get("status", "pending")))
        for item in items
        if isinstance(item, dict)
    )
