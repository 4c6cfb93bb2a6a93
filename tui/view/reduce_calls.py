"""The part of the reducer for calls and questions."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from ebbtide.agent.context.control_calls import PLAN
from ebbtide.agent.events.permissions import PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanAnswered, PlanSubmitted
from ebbtide.agent.events.session import AgentActivity, ReplyFinished, ToolFinished
from ebbtide.tui.view.agents import agent_line
from ebbtide.tui.view.blocks import Call, CallStatus, Notice, SessionView

TAIL = 4_000
"""Maximum characters of a running call's output that are kept."""
OPEN: tuple[CallStatus, ...] = ("asking", "running")
"""Statuses of unfinished calls."""


def change_call(
    view: SessionView,
    new: Call,
    change: Callable[[Call], Call],
    statuses: tuple[CallStatus, ...] = OPEN,
) -> SessionView:
    """Change this turn's last call with that id and one of these statuses, or add it."""
    view = view.without_streaming()
    for index in range(len(view.turn) - 1, -1, -1):
        block = view.turn[index]
        if isinstance(block, Call) and block.call_id == new.call_id and block.status in statuses:
            return replace(view, turn=(*view.turn[:index], change(block), *view.turn[index + 1 :]))
    return view.plus(change(new))


def start_call(name: str, arguments: Mapping[str, object]) -> Callable[[Call], Call]:
    return lambda call: replace(call, name=name, arguments=arguments, status="running")


def edit_call(arguments: Mapping[str, object]) -> Callable[[Call], Call]:
    return lambda call: replace(call, arguments=arguments, is_edited=True)


def deny_call(arguments: Mapping[str, object], rule: str) -> Callable[[Call], Call]:
    return lambda call: replace(call, arguments=arguments, status="denied", text=rule)


def add_progress(view: SessionView, id: str, text: str) -> SessionView:
    return change_call(view, Call(id, "tool"), lambda call: replace(call, tail=(call.tail + text)[-TAIL:]))


def agent_active(view: SessionView, event: AgentActivity) -> SessionView:
    """Update the activity of a sub-agent in its call's block; its usage counts for the turn."""
    new = Call(event.call_id, "task")
    if isinstance(event.event, ReplyFinished):
        used, cost = event.event.usage.total, event.event.cost
        view = replace(view, cost=added_cost(view.cost, cost), turn_cost=added_cost(view.turn_cost, cost))
        view = replace(view, turn_tokens=view.turn_tokens + used)
        if not event.call_id:
            return view  # a hook has sent it off, and no call
        return change_call(view, new, lambda call: replace(call, agent_tokens=call.agent_tokens + used))

    def tell(call: Call) -> Call:
        line = agent_line(event, call.agent_tokens)
        return replace(call, tail=(call.tail + line)[-TAIL:]) if line else call

    return change_call(view, new, tell)


def tool_finished(view: SessionView, event: ToolFinished) -> SessionView:
    def finish(call: Call) -> Call:
        ended = replace(call, name=event.name, status=event.status, tail="", text=event.text, changed=event.changed)
        preview = event.diff or call.preview
        ended = replace(ended, lines=event.lines, inserted=event.inserted, problems=event.problems)
        return replace(ended, program=event.program, preview=preview)

    statuses: tuple[CallStatus, ...] = ("denied",) if event.status == "denied" else ()
    finished = change_call(view, Call(event.call_id, event.name), finish, ("asking", "running", *statuses))
    step = finished.turn[finished.step_start :]
    others = [block.name for block in step if isinstance(block, Call) and block.status == "running"]
    return replace(finished, activity=f"running {others[-1]}" if others else "thinking")


def permission_asked(view: SessionView, event: PermissionAsked) -> SessionView:
    asking = view
    if _is_about_block(view, event):
        asking = change_call(
            view,
            Call(event.call_id, event.name),
            lambda call: replace(call, arguments=event.arguments, status="asking", preview=event.preview),
        )
    return replace(asking, asked=(*view.asked, event), activity="waiting for you")


def _is_about_block(view: SessionView, question: PermissionAsked) -> bool:
    """Whether a call in the transcript is waiting for the answer. The network access of a job is asked about after
    its call is over."""
    if question.agent:
        return False  # its call stands in a session of its own
    open_calls = (block.call_id for block in view.turn if isinstance(block, Call) and block.status in OPEN)
    return not question.host or question.call_id in open_calls


def permission_answered(view: SessionView, id: str, verdict: Literal["allow", "deny", "edit"]) -> SessionView:
    question = next((asked for asked in view.asked if asked.id == id), None)
    view = replace(_without_question(view, id), activity="thinking")
    if not isinstance(question, PermissionAsked) or (verdict != "allow" and not question.host):
        return view  # a denial is shown when `CallDenied` says that it took effect
    if not _is_about_block(view, question):
        return view
    view = replace(view, activity=f"running {question.name}")
    call = Call(question.call_id, question.name, question.arguments)
    return change_call(view, call, lambda asked: replace(asked, status="running"))


def plan_submitted(view: SessionView, event: PlanSubmitted) -> SessionView:
    new = Call(event.call_id, PLAN, {"plan": event.plan})
    asking = change_call(view, new, lambda call: replace(call, status="asking"))
    return replace(asking, asked=(*view.asked, event), activity="waiting for you")


def plan_answered(view: SessionView, event: PlanAnswered) -> SessionView:
    return replace(_without_question(view, event.id), mode=event.mode or view.mode, activity="thinking")


def question_answered(view: SessionView, id: str, answer: str) -> SessionView:
    """Show the answer in the line of the call that asked, or in a line of its own."""
    question = next((asked for asked in view.asked if asked.id == id), None)
    view = replace(_without_question(view, id), activity="thinking")
    has_line = any(
        isinstance(block, Call) and block.name == "ask_user" and block.status == "running" for block in view.turn
    )
    if has_line or not isinstance(question, QuestionAsked):
        return view
    said = ", ".join(answer.strip().splitlines()) or "no answer"
    first, _, _ = question.question.strip().partition("\n")
    return view.without_streaming().plus(Notice(f"{first} → {said}"))


def _without_question(view: SessionView, id: str) -> SessionView:
    return replace(view, asked=tuple(asked for asked in view.asked if asked.id != id))


def added_cost(before: float | None, cost: float | None) -> float | None:
    return None if before is None or cost is None else before + cost
