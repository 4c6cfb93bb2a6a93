"""Actions that users take themselves between turns: running a shell command, and restoring files. A message informs the
model about them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event, TurnFinished, TurnStarted
from ebbtide.agent.messages import USER_CALL_PREFIX, Assistant, Conversation, Note, Text, ToolCall, ToolOutput, User
from ebbtide.agent.request.output_room import run_calls_within_budget
from ebbtide.agent.view.visible import count_outputs
from ebbtide.agent.window.measure import last_request_record
from ebbtide.agent.window.session_context import CallContext, TurnContext, WindowContext
from ebbtide.tools.base import AppliedChange, ToolError
from ebbtide.tools.bash import MAX_TIMEOUT_S, Bash
from ebbtide.tools.files.change import Change, apply_changes, diff_changes
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.outputs.extent import join_limited

_MAX_LISTED_FILES = 20
RUN_BY_USER_NOTE = "[The user ran this command and expects no answer. Your permissions have not changed.]"


@dataclass(frozen=True, slots=True)
class UserCommandResult:
    conversation: Conversation
    output: ToolOutput


async def run_user_command(
    conversation: Conversation,
    window: WindowContext,
    turn: TurnContext,
    calls: CallContext,
    command: str,
    emit: Callable[[Event], None],
) -> UserCommandResult:
    """Run a command typed by the user, and add the command and its output to the conversation, as if the model had made
    the call. The permission rules and the sandbox for the model's calls do not apply. An interrupt stops the command.
    `emit` receives the events."""
    message = User((Text(f"!{command}"), Note(RUN_BY_USER_NOTE)))
    output_number = count_outputs(conversation) + 1
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
    await turn.recorder.record_snapshot(conversation, output_message, last_request_record(window))
    emit(TurnFinished("interrupted" if outputs[0].status == "interrupted" else "answered", ""))
    return UserCommandResult(conversation, outputs[0])


@dataclass(frozen=True, slots=True)
class RestoreAnnouncement:
    conversation: Conversation


async def announce_restored_files(
    conversation: Conversation, window: WindowContext, turn: TurnContext, calls: CallContext, files: Sequence[str]
) -> RestoreAnnouncement:
    """Inform the model which files the user has restored, so that it reads them again."""
    if not files:
        return RestoreAnnouncement(conversation)
    names = join_limited(files, _MAX_LISTED_FILES)
    text = f"[The user restored earlier versions of these files; read them again: {names}]"
    return RestoreAnnouncement(await _announce_changed_files(conversation, turn, calls, files, text))


async def revert_file_change(
    conversation: Conversation,
    window: WindowContext,
    turn: TurnContext,
    calls: CallContext,
    checkpoints: SessionCheckpoints,
    change: Change,
) -> RestoreAnnouncement:
    """Write a file as the user wants it, with one change less, and inform the model. `/undo` restores the change.
    Raises `AgentError` if the file has changed since."""
    workspace = calls.runner.workspace
    name = display_path(change.path, workspace.root)
    try:
        await checkpoints.record_user_change(
            f"revert a change in {name}",
            (str(change.path),),
            lambda: apply_changes((change,), workspace.seen_files),
        )
    except ToolError as error:
        raise AgentError(str(error)) from error
    await calls.runner.record_file_changes((AppliedChange(change.path, change.old_content, change.new_content),))
    diff = diff_changes((change,), workspace.root)
    text = f"[The user reverted a change in this file; do not make it again unless asked, and read it again:\n{diff}]"
    return RestoreAnnouncement(await _announce_changed_files(conversation, turn, calls, (name,), text))


async def _announce_changed_files(
    conversation: Conversation, turn: TurnContext, calls: CallContext, files: Sequence[str], text: str
) -> Conversation:
    message = User((Note(text.encode(errors="replace").decode()),))
    await turn.recorder.record_user_message(message)
    # Forget the versions that the model has seen. A resumed session would otherwise report these files as changed by
    # another program.
    workspace = calls.runner.workspace
    paths = [workspace.root / name for name in files]
    for path in paths:
        workspace.seen_files.forget(path)
    await turn.recorder.forget_files(paths)
    return conversation.plus(message)
