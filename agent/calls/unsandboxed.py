"""Handles commands blocked by the sandbox. If such a command failed, asks the user whether to run it again outside the
sandbox, and offers rules for the future. Without a user, the output says which rule would help."""

import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from ebbtide.agent import calls
from ebbtide.agent.calls.approval import ApprovalContext, ApprovalResult, add_chosen_rule
from ebbtide.agent.calls.policy import unsandboxed_variant
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.tools.base import Result


async def retry_unsandboxed(
    approval: ApprovalResult, result: Result, context: ApprovalContext, rerun: Callable[[], Awaitable[Result | None]]
) -> Result | None:
    """Ask the user whether to run the command again outside the sandbox. Return the new result, the first result if the
    command is not run again, or None if the user interrupts the second run. In `auto` mode, the user is not asked."""
    approver, call = context.approver, approval.call
    ask = approver.ask_user
    if not result.sandbox_block or approver.policy.mode == "plan":
        return result
    outside_request, outside_policy = unsandboxed_variant(approval.request, approver.policy)
    offers = calls.rule_suggestions.suggest_unsandboxed_rules(outside_request, outside_policy)
    if not result.has_failed or ask is None or approver.policy.mode == "auto":
        return _with_sandbox_advice(result, offers)
    reason = f"it failed in the sandbox, where {result.sandbox_block}; allow it to run again, outside the sandbox"
    question = PermissionAsked(
        f"outside-{call.id}",
        call.id,
        call.name,
        call.arguments,
        f"{reason}. A rule makes such commands always run there" if offers else reason,
        offers=offers,
        rules_file=approver.project_rules.path if approver.project_rules is not None and offers else "",
        offers_exact=calls.rule_suggestions.exact_rule(outside_request, outside_policy.root) in offers,
        is_sandboxed=False,
    )
    await approver.record_question(call.id, None)

    async def answer() -> Decision:
        return await ask(question)

    decision = await context.interrupt.race(answer())
    if decision is None or decision.verdict != "allow" or decision.arguments not in (None, call.arguments):
        return result
    if decision.rule in offers:
        add_chosen_rule(decision, context.approver, context.emit)
    return await rerun()


def _with_sandbox_advice(result: Result, offers: Sequence[str]) -> Result:
    """Return the result with advice on how to allow such a command outside the sandbox."""
    option = f"--allow {shlex.quote(min(offers, key=len))}" if offers else "--no-sandbox"
    advice = f"the user can start with `{option}` to have it run outside the sandbox"
    program = result.program
    if program is not None:
        program = replace(program, told=f"{program.told}\n{advice}")
    return replace(result, text=f"{result.text}\n{advice}", program=program)
