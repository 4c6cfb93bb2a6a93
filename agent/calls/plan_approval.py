"""Decides about a submitted plan: the user accepts it with a mode to continue in, edits it, or rejects it. Without a
user, it is accepted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from ebbtide.agent.calls.approval import QUESTION_INTERRUPTED, ApprovalContext, Permit, approve
from ebbtide.agent.config.options import Mode
from ebbtide.agent.context.control_calls import PLAN
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.events.permissions import CallEdited
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.agent.events.session import Noticed
from ebbtide.agent.messages import ToolCall, ToolOutput
from ebbtide.tools.base import ToolError
from ebbtide.tools.submit_plan import plan_of

BEHIND = (
    f"not run: it stood behind `{PLAN}` in one reply, and was written before there was an answer to the plan. "
    "Call it again if it is still right"
)


async def approve_plan(call: ToolCall, context: ApprovalContext) -> Permit:
    """Decide whether a plan is carried out, with the user's edits. An accepted plan changes the mode. Raises
    `ToolError`."""
    permit, approval = await approve(call, replace(context, changed=None)), context.approval
    if permit.refusal:
        return permit
    if approval.policy.mode != "plan":
        raise ToolError(
            f"plans can be submitted only in plan mode, and the mode is `{approval.policy.mode}`: do what was asked, "
            "or say in your answer what you would do"
        )
    if approval.ask_about_plan is None:
        return permit
    submitted, count = plan_of(call.arguments), 0
    plan = submitted if context.changed is None else plan_of(context.changed)
    while True:
        count += 1
        id = f"plan-{call.id}" if count == 1 else f"plan-{call.id}-{count}"
        question = PlanSubmitted(id, call.id, plan, approval.modes_after_plan, plan != submitted)
        await approval.note_asked(call.id, {**call.arguments, "plan": plan} if plan != submitted else None)
        decision = await context.interrupt.race(approval.ask_about_plan(question))
        if decision is None:
            return replace(permit, refusal=QUESTION_INTERRUPTED)
        if decision.verdict == "reject":
            return replace(permit, refusal=_rejection_text(decision, approval.policy.mode))
        plan = _edited_plan(plan, decision.plan, context)
        if decision.verdict == "accept" and plan == (decision.plan or plan):
            break
    try:
        await approval.change_mode(_mode_of(decision, question))
    except StoreFailed as error:
        context.emit(Noticed(str(error)))  # it is stored at the end of the turn
    if plan == submitted:
        return permit
    edited = replace(call, arguments={**call.arguments, "plan": plan}, source="")
    context.emit(CallEdited(call.id, call.name, edited.arguments))
    return replace(permit, call=edited, is_edited=True)


def was_decided(calls: Sequence[ToolCall], outputs: Sequence[ToolOutput]) -> bool:
    """Whether a plan among the calls was accepted or rejected: the other calls of the reply are then outdated."""
    ended = {output.call_id for output in outputs if output.status in ("done", "denied")}
    return any(call.name == PLAN and call.id in ended for call in calls)


def _edited_plan(plan: str, text: str, context: ApprovalContext) -> str:
    """The plan as edited by the user; an invalid edit is ignored, with a notice."""
    if not text:
        return plan
    try:
        return plan_of({"plan": text})
    except ToolError as error:
        context.emit(Noticed(f"the plan is unchanged: {error}"))
        return plan


def _mode_of(decision: PlanDecision, question: PlanSubmitted) -> Mode:
    """The chosen mode, or the first and most restrictive one if the answer names none of those offered."""
    return cast("Mode", decision.mode if decision.mode in question.modes else question.modes[0])


def _rejection_text(decision: PlanDecision, mode: str) -> str:
    note = f": {decision.note}" if decision.note else ""
    then = "The mode is still `plan`: ask what is not clear, and submit a better plan" if mode == "plan" else ""
    return f"the user rejected the plan{note}\n{then}".rstrip()
