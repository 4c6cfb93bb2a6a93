"""A command that the user runs themselves. The model sees it and what it printed as a call of its own, and long outputs
are kept like any other."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent.calls.approval import Approval
from agent.calls.policy import Policy
from agent.context.mask import outputs_so_far
from agent.events.session import Event, TurnFinished, TurnStarted
from agent.messages import BY_USER, Assistant, Conversation, Note, Text, ToolCall, ToolOutput, User
from agent.window.env import Env
from agent.window.guard import run_in_room
from agent.window.measure import remembered
from tools.bash import MOST_SECONDS

NOT_ASKED = "[The user ran this command themselves, and no answer is wanted. What you may do has not changed.]"


@dataclass(frozen=True, slots=True)
class Ran:
    conversation: Conversation
    output: ToolOutput


async def run_by_user(conversation: Conversation, env: Env, command: str, hear: Callable[[Event], None]) -> Ran:
    """Runs a command and adds it to a conversation, whatever the permission rules say of calls of the model, and
    outside their sandbox: the user has typed it. An interruption ends it. `hear` is told what happens meanwhile."""
    said = User((Text(f"!{command}"), Note(NOT_ASKED)))
    number = outputs_so_far(conversation) + 1
    call = ToolCall(f"{BY_USER}{number}", "bash", {"command": command, "timeout": MOST_SECONDS})
    reply = Assistant((call,))
    hear(TurnStarted(env.recorder.session, env.provider.facts.id, said.text))
    await env.recorder.said(said)
    await env.recorder.replied(reply)
    conversation = conversation.plus(said, reply)
    free = Approval(Policy(env.call_runner.approval.policy.root, "auto"))
    runner = env.call_runner
    outside = replace(runner, approval=free, emit=hear, workspace=replace(runner.workspace, sandbox=None))
    outputs = await run_in_room((call,), conversation, replace(env, call_runner=outside))
    shown = User(outputs)
    conversation = conversation.plus(shown)
    await env.recorder.snapshot(conversation, shown, remembered(env))
    hear(TurnFinished("interrupted" if outputs[0].status == "interrupted" else "answered", ""))
    return Ran(conversation, outputs[0])
