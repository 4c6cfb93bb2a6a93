"""Commands and skills that a message invokes as `/NAME`. They are expanded when the turn begins, with the output of
their shell commands and the files they mention."""

import re
import secrets
from dataclasses import replace

from ebbtide.agent.calls.execute import run_unrecorded
from ebbtide.agent.calls.policy import parse_rule
from ebbtide.agent.calls.skill_bounds import begin_use
from ebbtide.agent.context.mentions import note_with_heading
from ebbtide.agent.errors import UsageError
from ebbtide.agent.events.session import ToolFinished, ToolStarted
from ebbtide.agent.extensions import agent_files
from ebbtide.agent.extensions.custom_commands import CustomCommand
from ebbtide.agent.extensions.expansion import expand_arguments
from ebbtide.agent.extensions.extension_files import UnusableFile
from ebbtide.agent.extensions.front_matter import BrokenFrontMatter
from ebbtide.agent.extensions.session_extensions import SessionExtensions, UserInvocable
from ebbtide.agent.extensions.skills import body_of, line_of
from ebbtide.agent.input.attach import with_attached
from ebbtide.agent.messages import Note, Text, ToolCall, User
from ebbtide.agent.providers.fallbacks import TurnModelRequest
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.program_output import beginning_printed

MAX_COMMAND_CHARS = 200_000
"""Maximum characters of an expanded command."""
AS_USUAL, ALLOW = "ask as usual", "allow these"
WELL = "\nexit code 0"
"""End of a successful command's output, which is removed from the text."""
MAX_OUTPUT_BYTES = 30_000
"""Maximum bytes of one shell command's output."""

_FORM = re.compile(r"/(\w[\w.:-]*)(?:\s+(.*))?", re.DOTALL)


async def with_extensions(said: User, extensions: SessionExtensions, env: SessionContext) -> User:
    """Expand the command or skill that the message invokes, and announce skills that the model does not know yet.
    Raises `UsageError` if it cannot be used, because nothing would be left to send."""
    news = extensions.news(env.instructions.skills, env.watch.epoch)
    lines = "\n".join(map(line_of, news))
    told = (
        [Note(f"[The user allows these skills, too; read one before you do what it describes:\n{lines}]")]
        if news
        else []
    )
    described = next((spec.description for spec in env.own_tools if spec.name == "task"), None)
    if described is not None and (agents := extensions.agent_news(described, env.watch.epoch)):
        lines = "\n".join(map(agent_files.line_of, agents))
        told.append(Note(f"[The user allows these agents for `task`, too:\n{lines}]"))
    form = _FORM.fullmatch(said.text.strip())
    named = extensions.find(form[1]) if form is not None else None
    parts = () if named is None or form is None else await _parts(named, (form[2] or "").strip(), extensions, env)
    return replace(said, parts=(*said.parts, *parts, *told))


async def _parts(
    named: UserInvocable, written: str, extensions: SessionExtensions, env: SessionContext
) -> tuple[Note, ...]:
    kind = named.item.kind
    if extensions.standing(named) != "on":
        raise UsageError(f"the {kind} `/{named.name}` of this project is not approved; see `/trust`")
    if isinstance(named, CustomCommand):
        text, form, about = named.text, named.form, f"The user asks what the command `/{named.name}` says:\n\n"
    else:
        if not named.is_as_it_was():
            raise UsageError(
                f"the skill `/{named.name}` has changed since it was approved; start a new session to review it"
            )
        try:
            text, form = body_of(named), "markdown"
        except (UnusableFile, BrokenFrontMatter) as error:
            raise UsageError(f"the skill `/{named.name}` cannot be read: {error}") from error
        works = f" It works with {', '.join(named.tools)}; anything else is asked about." if named.tools else ""
        about = f"The user asks for the skill `{named.name}`, in `{named.path.parent}`.{works} It says:\n\n"
        begin_use(named, env.call_runner.approval)
    if named.model:
        env.targets.wish = TurnModelRequest(named.model, f"`/{named.name}`")
    await _offer_rules(named, extensions, env)
    values = {"CLAUDE_PROJECT_DIR": env.recorder.project, "CLAUDE_SESSION_ID": env.recorder.session}
    expansion = expand_arguments(text, form, written, named.arguments, values)
    pieces, size = list[str](), 0
    for part in expansion.parts:
        pieces.append(await _command_output(part.text, named, env) if part.is_shell else part.text)
        size += len(pieces[-1])
        if size > MAX_COMMAND_CHARS:
            raise UsageError(
                f"the {kind} `/{named.name}` expands to more than {MAX_COMMAND_CHARS:,} characters: not sent"
            )
    mentioned = await with_attached(User((Text(expansion.words),)), env) if "@" in expansion.words else User(())
    files = tuple(part for part in mentioned.parts[1:] if isinstance(part, Note))
    return (note_with_heading(about, "".join(pieces)), *files)


async def _offer_rules(named: UserInvocable, extensions: SessionExtensions, env: SessionContext) -> None:
    """Offer the rules that an extension asks for, if they would change anything. They apply to this session."""
    approval = env.call_runner.approval
    if approval.ask is None or approval.policy.mode not in ("ask", "accept-edits"):
        return
    allowed = {str(rule) for rule in approval.policy.allow}
    rules = [rule for rule in extensions.rules_to_offer(named) if str(parse_rule(rule)) not in allowed]
    if not rules:
        return
    lines = "\n".join(f"  {rule}" for rule in rules)
    question = f"`/{named.name}` asks to run these without asking, for this session:\n\n{lines}"
    if await env.call_runner.workspace.ask(question, (AS_USUAL, ALLOW)) == ALLOW:
        for rule in rules:
            approval.add_rule(rule)


async def _command_output(command: str, named: UserInvocable, env: SessionContext) -> str:
    """Return the output of a shell command. Like any command of the model it is checked by the policy and sandboxed.
    Raises `UsageError` if it may not run."""
    call = ToolCall(f"command-{secrets.token_hex(4)}", "bash", {"command": command})
    env.emit(ToolStarted(call.id, call.name, call.arguments))
    result = await run_unrecorded(call, env.call_runner)
    if isinstance(result, str):
        env.emit(ToolFinished(call.id, call.name, "denied", result))
        raise UsageError(f"`/{named.name}` was not sent, because `{ellipsize(command, 200)}` may not run: {result}")
    text = beginning_printed(result, MAX_OUTPUT_BYTES).removesuffix(WELL)
    env.emit(ToolFinished(call.id, call.name, "failed" if result.failed else "done", text, program=result.program))
    return text
