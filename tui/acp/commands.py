"""The slash commands offered to an editor: some of the interface's, custom commands and MCP prompts."""

import re
from collections.abc import Callable

from acp.schema import AvailableCommand, AvailableCommandInput, UnstructuredCommandInput

from ebbtide.agent.archive.markdown import fenced_lines
from ebbtide.agent.events.session import Event
from ebbtide.agent.session import Session
from ebbtide.agent.sessions import Sessions
from ebbtide.tui.actions.messages import prompt_of
from ebbtide.tui.commands import COMMANDS
from ebbtide.tui.prompt.pastes import Pastes
from ebbtide.tui.session.completion import COMMAND_NAMES
from ebbtide.tui.view.context import overview_lines

OWN = ("compact", "context", "review", "init")
"""Commands of the interface that are useful in an editor."""
WIDTH = 100
"""Line width for `/context`."""

_FORM = re.compile(r"/(\w+)(?:\s+(.*))?", re.DOTALL)


def available_commands(session: Session) -> list[AvailableCommand]:
    """All commands that are available now."""
    own = [_command(one.name, one.help, one.hint) for one in COMMANDS if one.name in OWN]
    extensions, servers = session.extensions, session.servers
    named = extensions.usable(COMMAND_NAMES) if extensions is not None else ()
    theirs = [_command(one.name, one.description, one.hint) for one in named]
    running = servers.statuses() if servers is not None else ()
    prompts = [_command(one.command, one.description, one.usage) for each in running for one in each.state.prompts]
    return [*own, *theirs, *prompts]


def own_command(text: str) -> tuple[str, str] | None:
    """The name and argument of one of our commands in a prompt."""
    form = _FORM.fullmatch(text.strip())
    return (form[1], (form[2] or "").strip()) if form is not None and form[1] in OWN else None


def prompt_for_model(name: str, argument: str, pastes: Pastes) -> str:
    """The prompt of a command for the model; empty if the command does something itself."""
    if name in ("review", "init"):
        return pastes.with_prompt(f"/{name} {argument}", prompt_of(name, argument))
    return ""


async def run_command(
    name: str, argument: str, sessions: Sessions, session: Session, hear: Callable[[Event], None]
) -> str:
    """Run a command and return its output as Markdown. Raises `AgentError`."""
    if name == "context":
        lines = overview_lines(await sessions.overview(session.id), WIDTH)
        return "\n".join(fenced_lines("\n".join("".join(words for words, _ in line).rstrip() for line in lines)))
    result = await session.compact(argument or None, hear)
    if result.is_interrupted:
        return "The compaction was interrupted: nothing has changed."
    return "Compacted." if result.strategies else "There is nothing yet that a summary would make smaller."


def _command(name: str, description: str, hint: str) -> AvailableCommand:
    wanted = AvailableCommandInput(root=UnstructuredCommandInput(hint=hint)) if hint else None
    return AvailableCommand(name=name, description=" ".join(description.split()), input=wanted)
