"""Expands a command or skill that a message invokes as `/NAME`, at the beginning of the turn. The result includes the
output of its shell commands and the files that it mentions."""

import re
import secrets
from collections.abc import Callable
from dataclasses import replace

from ebbtide.agent.calls.execute import CallRunner, run_unrecorded_call
from ebbtide.agent.calls.policy import parse_rule
from ebbtide.agent.calls.skill_bounds import activate_skill
from ebbtide.agent.control_calls import TASK_TOOL
from ebbtide.agent.errors import UsageError
from ebbtide.agent.events.session import Event, ToolFinished, ToolStarted
from ebbtide.agent.extensions import agent_files
from ebbtide.agent.extensions.custom_commands import CustomCommand
from ebbtide.agent.extensions.expansion import expand_arguments
from ebbtide.agent.extensions.extension_files import UnusableFileError
from ebbtide.agent.extensions.front_matter import FrontMatterError
from ebbtide.agent.extensions.session_extensions import SessionExtensions, UserInvocable
from ebbtide.agent.extensions.skills import format_skill_line, read_skill_body
from ebbtide.agent.input.attach import attach_mentioned_files
from ebbtide.agent.messages import Note, Text, ToolCall, User
from ebbtide.agent.prompt.mentions import note_with_heading
from ebbtide.agent.providers.fallbacks import TurnModelRequest
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.bash import Bash
from ebbtide.tools.command_runs.results import truncated_output
from ebbtide.tools.outputs.extent import ellipsize

MAX_EXPANDED_CHARS = 200_000
"""Maximum length of an expanded command, in characters."""
KEEP_ASKING_OPTION = "ask as usual"
ALLOW_OPTION = "allow these"
_SUCCESS_LINE = "\nexit code 0"
"""Last line of a successful command's output, which an expanded command does not need."""
MAX_OUTPUT_BYTES = 30_000
"""Maximum size of the output of one shell command, in bytes."""

_INVOCATION = re.compile(r"/(\w[\w.:-]*)(?:\s+(.*))?", re.DOTALL)


async def expand_invocation(message: User, extensions: SessionExtensions, ctx: SessionContext) -> User:
    """Expand the command or skill that the message invokes, and announce skills that the model does not know yet.
    Raises `UsageError` if the command or skill cannot be used, because there would be no text to send."""
    window = ctx.window
    new_skills = extensions.take_new_skills(window.instructions.skills, window.prefix_watch.rewrite_count)
    listing = "\n".join(map(format_skill_line, new_skills))
    notes = (
        [Note(f"[The user also allows these skills; read a skill before you do what it describes:\n{listing}]")]
        if new_skills
        else []
    )
    task_description = next((spec.description for spec in window.tools.own_specs if spec.name == TASK_TOOL), None)
    if task_description is not None and (
        agents := extensions.take_new_agents(task_description, window.prefix_watch.rewrite_count)
    ):
        listing = "\n".join(map(agent_files.format_agent_line, agents))
        notes.append(Note(f"[The user also allows these agents for `task`:\n{listing}]"))
    invocation = _INVOCATION.fullmatch(message.text.strip())
    extension = extensions.find_by_name(invocation[1]) if invocation is not None else None
    parts = (
        ()
        if extension is None or invocation is None
        else await _expand_extension(extension, (invocation[2] or "").strip(), extensions, ctx)
    )
    return replace(message, parts=(*message.parts, *parts, *notes))


async def _expand_extension(
    extension: UserInvocable, arguments: str, extensions: SessionExtensions, ctx: SessionContext
) -> tuple[Note, ...]:
    runner, recorder, emit = ctx.calls.runner, ctx.records.recorder, ctx.turn.emit
    kind = extension.trust_item.kind
    if extensions.trust_state(extension) != "on":
        raise UsageError(f"the {kind} `/{extension.name}` of this project is not approved; see `/trust`")
    if isinstance(extension, CustomCommand):
        text = extension.text
        syntax = extension.syntax
        heading = f"The user invokes the command `/{extension.name}`, which says:\n\n"
    else:
        if not extension.is_unchanged():
            raise UsageError(
                f"the skill `/{extension.name}` has changed since it was approved; start a new session to review it"
            )
        try:
            text, syntax = read_skill_body(extension), "markdown"
        except (UnusableFileError, FrontMatterError) as error:
            raise UsageError(f"the skill `/{extension.name}` cannot be read: {error}") from error
        tool_sentence = (
            f" It works with {', '.join(extension.requested_tools)}; other tools need approval."
            if extension.requested_tools
            else ""
        )
        heading = (
            f"The user asks for the skill `{extension.name}`, in `{extension.path.parent}`.{tool_sentence} It says:\n\n"
        )
        activate_skill(extension, runner.approver)
    if extension.model:
        ctx.model.models.turn_request = TurnModelRequest(extension.model, f"`/{extension.name}`")
    await _offer_rules(extension, extensions, runner)
    variables = {"CLAUDE_PROJECT_DIR": recorder.project, "CLAUDE_SESSION_ID": recorder.session_id}
    expansion = expand_arguments(text, syntax, arguments, extension.argument_names, variables)
    pieces, expanded_chars = list[str](), 0
    for part in expansion.parts:
        pieces.append(await _run_shell_command(part.text, extension, runner, emit) if part.is_shell else part.text)
        expanded_chars += len(pieces[-1])
        if expanded_chars > MAX_EXPANDED_CHARS:
            raise UsageError(
                f"the {kind} `/{extension.name}` expands to more than {MAX_EXPANDED_CHARS:,} characters: not sent"
            )
    text_message = User((Text(expansion.text_outside_shell),) if "@" in expansion.text_outside_shell else ())
    message_with_files = (
        await attach_mentioned_files(text_message, runner, ctx.model, emit) if text_message.parts else text_message
    )
    file_notes = tuple(part for part in message_with_files.parts[1:] if isinstance(part, Note))
    return (note_with_heading(heading, "".join(pieces)), *file_notes)


async def _offer_rules(extension: UserInvocable, extensions: SessionExtensions, runner: CallRunner) -> None:
    """Ask the user whether to allow, for this session, the tools that an extension requests. Do nothing if they are
    already allowed, or if the permission mode never asks."""
    approver = runner.approver
    if approver.ask_user is None or approver.policy.mode not in ("ask", "accept-edits"):
        return
    allowed = {str(rule) for rule in approver.policy.allow_rules}
    rules = [rule for rule in extensions.take_rules_to_offer(extension) if str(parse_rule(rule)) not in allowed]
    if not rules:
        return
    listing = "\n".join(f"  {rule}" for rule in rules)
    question = f"`/{extension.name}` wants to run these without asking, for this session:\n\n{listing}"
    if await runner.workspace.ask(question, (KEEP_ASKING_OPTION, ALLOW_OPTION)) == ALLOW_OPTION:
        for rule in rules:
            approver.add_rule(rule)


async def _run_shell_command(
    command: str, extension: UserInvocable, runner: CallRunner, emit: Callable[[Event], None]
) -> str:
    """Run a shell command and return its output. It is checked against the policy and sandboxed, like the model's
    commands. Raises `UsageError` if it is not allowed."""
    call = ToolCall(f"command-{secrets.token_hex(4)}", Bash.name, {"command": command})
    emit(ToolStarted(call.id, call.name, call.arguments))
    result = await run_unrecorded_call(call, runner)
    if isinstance(result, str):
        emit(ToolFinished(call.id, call.name, "denied", result))
        raise UsageError(f"`/{extension.name}` was not sent, because `{ellipsize(command, 200)}` may not run: {result}")
    text = truncated_output(result, MAX_OUTPUT_BYTES).removesuffix(_SUCCESS_LINE)
    emit(ToolFinished(call.id, call.name, "failed" if result.has_failed else "done", text, program=result.program))
    return text
