"""Handles commands blocked by the sandbox: if one failed, the user is asked whether to run it again outside, and may
add a rule for the future. Without a user, the output says which rule would help."""

import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from ebbtide.agent.calls.approval import ApprovalContext, Permit, keep_rule
from ebbtide.agent.calls.policy import with_resolved_paths
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.tools.base import Result


async def retry_unsandboxed(
    permit: Permit, result: Result, context: ApprovalContext, run: Callable[[], Awaitable[Result | None]]
) -> Result | None:
    """The result outside the sandbox if the user allows it, else the one inside; None if the user interrupts.
    Without a user, or if no questions are wanted, nothing is asked."""
    approval, call, ask = context.approval, permit.call, context.approval.ask
    if not result.blocked or approval.policy.mode == "plan":
        return result
    from ebbtide.agent.calls.rule_suggestions import exact_rule, offers_outside  # noqa: PLC0415  # deferred: few runs have questions

    placed, policy = with_resolved_paths(permit.asked, approval.policy)
    offers = offers_outside(placed, policy)
    if not result.failed or ask is None or approval.policy.mode == "auto":
        return _with_sandbox_advice(result, offers)
    reason = f"it failed in the sandbox, where {result.blocked}; allow it to run again, outside the sandbox"
    question = PermissionAsked(
        f"outside-{call.id}",
        call.id,
        call.name,
        call.arguments,
        f"{reason}. A rule makes such commands always run there" if offers else reason,
        offers=offers,
        rules_file=approval.rules.place if approval.rules is not None and offers else "",
        offers_exact=exact_rule(placed, policy.root) in offers,
    )
    await approval.note_asked(call.id, None)

    async def answer() -> Decision:
        return await ask(question)

    decision = await context.interrupt.race(answer())
    if decision is None or decision.verdict != "allow" or decision.arguments not in (None, call.arguments):
        return result
    if decision.rule in offers:
        keep_rule(decision, context.approval, context.emit)
    return await run()


def _with_sandbox_advice(result: Result, offers: Sequence[str]) -> Result:
    """The result with advice on how the user can run such a command outside the sandbox."""
    how = f"--allow {shlex.quote(min(offers, key=len))}" if offers else "--no-sandbox"
    told = f"the user can start with `{how}` to have it run outside the sandbox"
    program = result.program
    if program is not None:
        program = replace(program, told=f"{program.told}\n{told}")
    return replace(result, text=f"{result.text}\n{told}", program=program)
