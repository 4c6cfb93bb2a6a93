"""The `ebb acp` command: parses its arguments and opens sessions in the folders that the editor names."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ebbtide.agent.config.load import find_folders
from ebbtide.agent.errors import UsageError
from ebbtide.agent.logs.crash_reports import install_crash_handlers
from ebbtide.tui import integrations
from ebbtide.tui.cli.arguments import create_sessions, create_subcommand_parser, make_parser, read_settings
from ebbtide.tui.integrations import acp

if TYPE_CHECKING:  # a late import, because an editor waits for the first response
    from ebbtide.agent.compose.sessions import ProjectSessions
    from ebbtide.agent.config.values import Config

NO_EDITOR = "`ebb acp` is started by an editor and talks to it over stdin; see docs/editors.md"


def run(arguments: Sequence[str]) -> int:
    """Serve an editor until it disconnects; return the exit code. Raises `UsageError`."""
    parser = create_subcommand_parser(
        "acp", "Run as an agent for editors, over the Agent Client Protocol (ACP). Also takes the options of `ebb`."
    )
    _, remaining = parser.parse_known_args(arguments)
    options = make_parser().parse_args(remaining)
    if options.prompt is not None or options.words or options.resume is not None or options.pick is not None:
        raise UsageError("`ebb acp` accepts only settings; prompts and sessions come from the editor")
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise UsageError(NO_EDITOR)
    return asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> int:
    logs = find_folders(os.environ).logs
    install_crash_handlers(logs)
    with os.fdopen(os.dup(1), "wb") as stdout:
        os.dup2(2, 1)  # output of libraries must not mix with the messages
        return await acp.server.serve(
            acp.server.AcpServer(lambda *folder_arguments: _open_folder(options, *folder_arguments), logs),
            await integrations.line_transport.open_line_transport(sys.stdin, stdout),
        )


def _open_folder(
    options: argparse.Namespace, cwd: str, change_config: "Callable[[Config], Config]"
) -> "tuple[ProjectSessions, Sequence[str]]":
    """Open the sessions of the folder `cwd`. Also returns warnings about its settings. `change_config` adds the
    editor's settings."""
    folder_options = argparse.Namespace(**{**vars(options), "cd": cwd})
    root, config = read_settings(folder_options)
    return create_sessions(root, change_config(config), folder_options, is_interactive=True), config.notices
