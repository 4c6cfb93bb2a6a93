"""Runs a shell command that the user typed. The model sees the command and its output as if it had made the call
itself; long outputs are stored as usual."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.events.session import Event, TurnFinished, TurnStarted
from ebbtide.agent.messages import USER_CALL_PREFIX, Assistant, Conversation, Note, Text, ToolCall, ToolOutput, User
from ebbtide.agent.request.output_room import run_calls_within_budget
from ebbtide.agent.view.visible import outputs_so_far
from ebbtide.agent.window.measure import request_mark
from ebbtide.agent.window.session_context import CallContext, TurnContext, WindowContext
from ebbtide.tools.bash import MAX_TIMEOUT_S, Bash

RUN_BY_USER_NOTE = "[The user ran this command and expects no answer. Your permissions have not changed.]"


@dataclass(frozen=True, slots=True)
class ShellRun:
    conversation: Conversation
    output: ToolOutput


async def run_user_command(
    conversation: Conversation,
    window: WindowContext,
    turn: TurnContext,
    calls: CallContext,
    command: str,
    emit: Callable[[Event], None],
) -> ShellRun:
    """Run a command typed by the user, and add the command and its output to the conversation. The permission rules and
    the sandbox for the model's calls do not apply. An interrupt stops the command. `emit` receives the events."""
    message = User((Text(f"!{command}"), Note(RUN_BY_USER_NOTE)))
    output_number = outputs_so_far(conversation) + 1
    call = ToolCall(f"{USER_CALL_PREFIX}{output_number}", Bash.name, {"command": command, "timeout": MAX_TIMEOUT_S})
    reply = Assistant((call,))
    emit(TurnStarted(turn.recorder.session_id, window.model.facts.id, message.text))
    await turn.recorder.record_user_message(message)
    await turn.recorder.record_reply(reply)
    conversation = conversation.plus(message, reply)
    unrestricted_approver = Approver(Policy(calls.runner.approver.policy.root, "auto"))
    runner = calls.runner
    unrestricted_runner = replace(
        runner, approver=unrestricted_approver, emit=emit, workspace=replace(runner.workspace, sandbox=None)
    )
    outputs = await run_calls_within_budget((call,), conversation, unrestricted_runner, window)
    output_message = User(outputs)
    conversation = conversation.plus(output_message)
    await turn.recorder.record_snapshot(conversation, output_message, request_mark(window))
    emit(TurnFinished("interrupted" if outputs[0].status == "interrupted" else "answered", ""))
    return ShellRun(conversation, outputs[0])
