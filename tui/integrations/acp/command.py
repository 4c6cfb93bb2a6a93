"""`ebb acp`: its arguments, and opening the sessions of the folders that an editor names."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ebbtide.agent.config.load import find_folders
from ebbtide.agent.crash import log_stray_errors
from ebbtide.agent.errors import UsageError
from ebbtide.tui import integrations
from ebbtide.tui.cli.arguments import create_sessions, make_parser, read_settings, subcommand_parser
from ebbtide.tui.integrations import acp

if TYPE_CHECKING:  # a late import, because an editor waits for the first response
    from ebbtide.agent.config.values import Config
    from ebbtide.agent.sessions import Sessions

NO_EDITOR = "`ebb acp` is started by an editor and talks to it over stdin; see docs/editors.md"


def run(arguments: Sequence[str]) -> int:
    """Serve an editor until it disconnects; return the exit code. Raises `UsageError`."""
    parser = subcommand_parser(
        "acp", "Run as an agent for editors, over the Agent Client Protocol (ACP). Also takes the options of `ebb`."
    )
    _, others = parser.parse_known_args(arguments)
    options = make_parser().parse_args(others)
    if options.prompt is not None or options.words or options.resume is not None or options.pick is not None:
        raise UsageError("`ebb acp` accepts only settings; prompts and sessions come from the editor")
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise UsageError(NO_EDITOR)
    return asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> int:
    logs = find_folders(os.environ).logs
    log_stray_errors(logs)
    with os.fdopen(os.dup(1), "wb") as stdout:
        os.dup2(2, 1)  # output of libraries must not mix with the messages
        return await acp.server.serve(
            acp.server.AcpServer(lambda *asked: _open_folder(options, *asked), logs),
            await integrations.line_transport.open_line_transport(sys.stdin, stdout),
        )


def _open_folder(
    options: argparse.Namespace, cwd: str, change: "Callable[[Config], Config]"
) -> "tuple[Sessions, Sequence[str]]":
    """Return the sessions of a folder, with the settings of the command line, and warnings about these settings."""
    folder_options = argparse.Namespace(**{**vars(options), "cd": cwd})
    root, config = read_settings(folder_options)
    return create_sessions(root, change(config), folder_options, interactive=True), config.notices
