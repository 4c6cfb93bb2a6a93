"""A command that failed for what the sandbox keeps from it: the user is asked whether it runs again outside."""

from collections.abc import Awaitable, Callable

from agent.calls.approval import ApprovalContext, Permit
from agent.events import Decision, PermissionAsked
from tools.base import Result


async def again_outside(
    permit: Permit, result: Result, context: ApprovalContext, run: Callable[[], Awaitable[Result | None]]
) -> Result | None:
    """What the call gives outside the sandbox, where the user wants that, and else what it gave inside; None when the
    user interrupts. Where nobody is there, or has asked for no questions, nobody is asked."""
    approval, call, ask = context.approval, permit.call, context.approval.ask
    if not result.blocked or not result.failed or ask is None or approval.policy.mode in ("auto", "plan"):
        return result
    reason = f"in the sandbox it failed, where {result.blocked}; allow it to run once more, outside the sandbox"
    question = PermissionAsked(f"outside-{call.id}", call.id, call.name, call.arguments, reason)
    await approval.note_asked(call.id)

    async def answer() -> Decision:
        return await ask(question)

    decision = await context.interrupt.race(answer())
    if decision is None or decision.verdict != "allow" or decision.arguments not in (None, call.arguments):
        return result
    return await run()
