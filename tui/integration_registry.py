"""The subcommands and slash commands that each integration adds. An integration is a folder in
`ebbtide.tui.integrations`; it can be deleted, together with its rows here, without affecting the others."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple, cast


class SubcommandRow(NamedTuple):
    """A subcommand of `ebb` or `ebb mcp`."""

    description: str
    target: str
    """The function to run, as `MODULE:NAME` within `ebbtide.tui.integrations`."""
    handles_signals: bool = False
    """Whether the subcommand handles Ctrl-C itself. Otherwise Ctrl-C raises an exception in it."""

    def load(self) -> Callable[[Sequence[str]], int]:
        """Import the function. It takes the command-line arguments without the subcommand's name, and returns the exit
        code."""
        return cast(Callable[[Sequence[str]], int], load_integration(self.target))


class SlashCommandRow(NamedTuple):
    """A slash command. It is allowed to run during a turn."""

    preceding_command: str
    """The command below which it is listed."""
    argument_hint: str
    """The arguments as shown in help and completion."""
    description: str
    target: str
    """The function to run, as `MODULE:NAME`. It takes the command context and the argument."""
    needs_session: bool = True
    """Whether the command acts on a session."""


SUBCOMMANDS: Mapping[str, SubcommandRow] = {
    "doctor": SubcommandRow(
        "check settings, keys, network, terminal, servers and stored data", "doctor.subcommand:run"
    ),
    "review": SubcommandRow("review a change, also in CI", "review.command:run"),
    "models": SubcommandRow("list models with their windows and prices", "models.command:run"),
    "mcp": SubcommandRow("manage MCP servers, or run as one (`ebb mcp serve`)", "mcp.command:run"),
    "import": SubcommandRow("import from other agents", "imports.command:run"),
    "batch": SubcommandRow("run many tasks from a file", "batch.command:run"),
    "claude-code": SubcommandRow("drop-in for `claude -p`", "claude_code.command:run"),
    "serve": SubcommandRow("open the interface in a browser", "browser.command:run", handles_signals=True),
    "acp": SubcommandRow("run as an ACP agent for editors", "acp.command:run", handles_signals=True),
}

SESSION_ACTIONS: Mapping[str, SubcommandRow] = {
    "export": SubcommandRow("save a session to a file", "export.subcommands:export"),
    "import": SubcommandRow("import an exported session", "export.subcommands:import_archive"),
}

MCP_ACTIONS: Mapping[str, SubcommandRow] = {
    "import": SubcommandRow("add servers of other agents", "imports.servers:run"),
    "serve": SubcommandRow("offer this agent's tools to another agent", "mcp_server.command:serve"),
}

KEY_ACTIONS: Mapping[str, SubcommandRow] = {
    "sign-in": SubcommandRow("sign in with a subscription", "sign_in.command:run"),
}

SLASH_COMMANDS: Mapping[str, SlashCommandRow] = {
    "mcp": SlashCommandRow(
        "bring", "", "show MCP servers, their tools, prompts and state", "mcp.server_list:show_mcp_servers"
    ),
    "export": SlashCommandRow(
        "fork",
        "[file]",
        "save the conversation to a file (.md, .html, .json), with secrets masked",
        "export.command:export",
    ),
    "doctor": SlashCommandRow(
        "settings",
        "",
        "check settings, keys, folders and stored data",
        "doctor.command:show_checks",
        needs_session=False,
    ),
}


def load_integration(target: str) -> object:
    """Import the object at `MODULE:NAME` within the integrations. Raises `ImportError`."""
    module_name, _, name = target.partition(":")
    return getattr(import_module(f"ebbtide.tui.integrations.{module_name}"), name)
