"""Handles a submitted plan: the user accepts it and chooses the mode in which to continue, edits it, or rejects it.
Without a user, it is accepted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from ebbtide.agent.calls.approval import QUESTION_INTERRUPTED, ApprovalContext, ApprovalResult, approve
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.control_calls import PLAN_TOOL
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.events.permissions import CallEdited
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.agent.events.session import Noticed
from ebbtide.agent.messages import ToolCall, ToolOutput
from ebbtide.tools.base import ToolError
from ebbtide.tools.submit_plan import get_plan

NOT_RUN_AFTER_PLAN = (
    f"not run: it followed `{PLAN_TOOL}` in the same reply, before the plan was accepted or rejected. Call it again if "
    "it is still right"
)


async def approve_plan(call: ToolCall, context: ApprovalContext) -> ApprovalResult:
    """Ask the user about a plan, and apply the user's edits. An accepted plan changes the mode. Raises `ToolError`."""
    approval = await approve(call, replace(context, edited_arguments=None))
    approver = context.approver
    if approval.refusal:
        return approval
    if approver.policy.mode != "plan":
        raise ToolError(
            f"plans can be submitted only in plan mode, and the mode is `{approver.policy.mode}`: do what was asked, "
            "or say in your answer what you would do"
        )
    if approver.ask_about_plan is None:
        return approval
    submitted_plan = get_plan(call.arguments)
    question_count = 0
    plan = submitted_plan if context.edited_arguments is None else get_plan(context.edited_arguments)
    while True:
        question_count += 1
        question_id = f"plan-{call.id}" if question_count == 1 else f"plan-{call.id}-{question_count}"
        question = PlanSubmitted(question_id, call.id, plan, approver.modes_after_plan, plan != submitted_plan)
        await approver.record_question(call.id, {**call.arguments, "plan": plan} if plan != submitted_plan else None)
        decision = await context.interrupt.race(approver.ask_about_plan(question))
        if decision is None:
            return replace(approval, refusal=QUESTION_INTERRUPTED)
        if decision.verdict == "reject":
            return replace(approval, refusal=_rejection_text(decision, approver.policy.mode))
        plan = _edited_plan(plan, decision.plan, context)
        if decision.verdict == "accept" and plan == (decision.plan or plan):
            break
    try:
        await approver.change_mode(_chosen_mode(decision, question))
    except StoreFailed as error:
        context.emit(Noticed(str(error)))  # the mode is stored again at the end of the turn
    if plan == submitted_plan:
        return approval
    edited_call = replace(call, arguments={**call.arguments, "plan": plan}, source="")
    context.emit(CallEdited(call.id, call.name, edited_call.arguments))
    return replace(approval, call=edited_call, is_edited=True)


def is_plan_decided(calls: Sequence[ToolCall], outputs: Sequence[ToolOutput]) -> bool:
    """Whether one of the calls submitted a plan that was accepted or rejected. If so, the reply's other calls are
    outdated."""
    decided_call_ids = {output.call_id for output in outputs if output.status in ("done", "denied")}
    return any(call.name == PLAN_TOOL and call.id in decided_call_ids for call in calls)


def _edited_plan(plan: str, edited_text: str, context: ApprovalContext) -> str:
    """Return the plan as edited by the user. An invalid edit is ignored, with a notice."""
    if not edited_text:
        return plan
    try:
        return get_plan({"plan": edited_text})
    except ToolError as error:
        context.emit(Noticed(f"the plan is unchanged: {error}"))
        return plan


def _chosen_mode(decision: PlanDecision, question: PlanSubmitted) -> PermissionMode:
    """Return the chosen mode. If the answer names none of the offered modes, return the first one, which is the most
    restrictive."""
    return cast("PermissionMode", decision.mode if decision.mode in question.modes else question.modes[0])


def _rejection_text(decision: PlanDecision, mode: str) -> str:
    note = f": {decision.note}" if decision.note else ""
    advice = "The mode is still `plan`: ask what is not clear, and submit a better plan" if mode == "plan" else ""
    return f"the user rejected the plan{note}\n{advice}".rstrip()
