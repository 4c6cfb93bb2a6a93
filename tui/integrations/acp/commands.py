"""The slash commands offered to an editor: some built-in ones, custom commands and MCP prompts."""

import re
from collections.abc import Callable

from acp.schema import AvailableCommand, AvailableCommandInput, UnstructuredCommandInput

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.events.session import Event
from ebbtide.agent.prompt.code_blocks import fenced_lines
from ebbtide.agent.session import Session
from ebbtide.tui.commands.messages import command_prompt
from ebbtide.tui.prompt.pastes import Pastes
from ebbtide.tui.session.completion import COMMAND_NAMES
from ebbtide.tui.slash_commands import COMMANDS
from ebbtide.tui.text.spans import line_text
from ebbtide.tui.view.context import overview_lines

EDITOR_COMMANDS = ("compact", "context", "review", "init")
"""Built-in commands that are useful in an editor."""
TEXT_WIDTH = 100
"""Line width of the output of `/context`."""

_COMMAND_LINE = re.compile(r"/(\w+)(?:\s+(.*))?", re.DOTALL)


def available_commands(session: Session) -> list[AvailableCommand]:
    """Return all commands that are available now."""
    built_in = [
        _create_command(command.name, command.help, command.argument_hint)
        for command in COMMANDS
        if command.name in EDITOR_COMMANDS
    ]
    extensions, servers = session.extensions, session.servers
    extension_commands = extensions.usable_by_user(COMMAND_NAMES) if extensions is not None else ()
    custom_commands = [
        _create_command(command.name, command.description, command.argument_hint) for command in extension_commands
    ]
    server_statuses = servers.statuses() if servers is not None else ()
    prompt_commands = [
        _create_command(prompt.command, prompt.description, prompt.usage)
        for status in server_statuses
        for prompt in status.prompts
    ]
    return [*built_in, *custom_commands, *prompt_commands]


def parse_command(text: str) -> tuple[str, str] | None:
    """Split a prompt into a command's name and argument; None if it is not one of `EDITOR_COMMANDS`."""
    match = _COMMAND_LINE.fullmatch(text.strip())
    return (match[1], (match[2] or "").strip()) if match is not None and match[1] in EDITOR_COMMANDS else None


def model_prompt(name: str, argument: str, pastes: Pastes) -> str:
    """Get the prompt that a command sends to the model; empty if it sends none."""
    if name in ("review", "init"):
        return pastes.with_prompt_placeholder(f"/{name} {argument}", command_prompt(name, argument))
    return ""


async def run_command(
    name: str, argument: str, sessions: ProjectSessions, session: Session, emit: Callable[[Event], None]
) -> str:
    """Run a command and return its output as Markdown. Raises `AgentError`."""
    if name == "context":
        lines = overview_lines(await sessions.overview(session.id), TEXT_WIDTH)
        return "\n".join(fenced_lines("\n".join(line_text(line).rstrip() for line in lines)))
    result = await session.compact(argument or None, emit)
    if result.is_interrupted:
        return "Compaction interrupted; nothing changed."
    return "Compacted." if result.strategies else "Nothing to compact yet."


def _create_command(name: str, description: str, hint: str) -> AvailableCommand:
    argument = AvailableCommandInput(root=UnstructuredCommandInput(hint=hint)) if hint else None
    return AvailableCommand(name=name, description=" ".join(description.split()), input=argument)
