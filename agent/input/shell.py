"""A shell command that the user runs. The model sees it and its output as one of its own calls, and long outputs are
stored as usual."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.context.mask import outputs_so_far
from ebbtide.agent.events.session import Event, TurnFinished, TurnStarted
from ebbtide.agent.messages import BY_USER, Assistant, Conversation, Note, Text, ToolCall, ToolOutput, User
from ebbtide.agent.window.measure import request_mark
from ebbtide.agent.window.model_choice import run_calls_within_budget
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.bash import MAX_TIMEOUT_S

NOT_ASKED = "[The user ran this command themselves, and no answer is wanted. What you may do has not changed.]"


@dataclass(frozen=True, slots=True)
class ShellRun:
    conversation: Conversation
    output: ToolOutput


async def run_by_user(
    conversation: Conversation, env: SessionContext, command: str, hear: Callable[[Event], None]
) -> ShellRun:
    """Run a command typed by the user and add it to the conversation. The permission rules and the sandbox for the
    model's calls do not apply. An interrupt ends it. `hear` gets the events."""
    said = User((Text(f"!{command}"), Note(NOT_ASKED)))
    number = outputs_so_far(conversation) + 1
    call = ToolCall(f"{BY_USER}{number}", "bash", {"command": command, "timeout": MAX_TIMEOUT_S})
    reply = Assistant((call,))
    hear(TurnStarted(env.recorder.session, env.provider.facts.id, said.text))
    await env.recorder.record_user_message(said)
    await env.recorder.record_reply(reply)
    conversation = conversation.plus(said, reply)
    free = Approver(Policy(env.call_runner.approval.policy.root, "auto"))
    runner = env.call_runner
    outside = replace(runner, approval=free, emit=hear, workspace=replace(runner.workspace, sandbox=None))
    outputs = await run_calls_within_budget((call,), conversation, replace(env, call_runner=outside))
    shown = User(outputs)
    conversation = conversation.plus(shown)
    await env.recorder.snapshot(conversation, shown, request_mark(env))
    hear(TurnFinished("interrupted" if outputs[0].status == "interrupted" else "answered", ""))
    return ShellRun(conversation, outputs[0])
