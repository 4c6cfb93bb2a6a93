"""The `ebb mcp serve` command: parses its arguments and serves the working folder's sessions."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.agent.errors import UsageError
from ebbtide.agent.logs.crash_reports import install_crash_handlers
from ebbtide.tui import integrations
from ebbtide.tui.cli.arguments import (
    create_sessions,
    create_subcommand_parser,
    make_parser,
    read_settings_with_warnings,
)
from ebbtide.tui.integrations import mcp_server

if TYPE_CHECKING:  # a late import, because a client waits for the first response
    from ebbtide.agent.compose.sessions import ProjectSessions
    from ebbtide.agent.config.values import Config

NO_CLIENT = "`ebb mcp serve` is started by another agent and talks to it over pipes; see docs/mcp.md"


def serve(arguments: Sequence[str]) -> int:
    """Serve another agent until it disconnects; return the exit code. Raises `UsageError`."""
    parser = create_subcommand_parser(
        "mcp serve",
        "Run as an MCP server for another agent, on stdin and stdout. Offers the tools recall, read_result, "
        "sessions_search and task. Also takes the options of `ebb`.",
    )
    parser.add_argument("--no-task", action="store_true", help="only look things up: do not offer `task`")
    server_options, remaining = parser.parse_known_args(arguments)
    options = make_parser().parse_args(remaining)
    if options.prompt is not None or options.words or options.resume is not None or options.pick is not None:
        raise UsageError("`ebb mcp serve` accepts only settings; tasks come from the other agent")
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise UsageError(NO_CLIENT)
    return asyncio.run(_serve(options, offers_tasks=not server_options.no_task))


async def _serve(options: argparse.Namespace, *, offers_tasks: bool) -> int:
    root, config = read_settings_with_warnings(options)
    install_crash_handlers(config.folders.logs)
    # Every program that a task starts inherits this variable, including another `ebb mcp serve`.
    is_inside_task = bool(os.environ.get(mcp_server.definitions.DEPTH_VARIABLE))
    os.environ[mcp_server.definitions.DEPTH_VARIABLE] = "1"

    def open_sessions(session_config: "Config") -> "ProjectSessions":
        return create_sessions(root, session_config, options, is_interactive=False)

    with os.fdopen(os.dup(1), "wb") as stdout:
        os.dup2(2, 1)  # output of libraries must not mix with the messages
        server = mcp_server.server.ToolServer(config, open_sessions, offers_tasks=offers_tasks and not is_inside_task)
        return await server.serve(await integrations.line_transport.open_line_transport(sys.stdin, stdout, NO_CLIENT))
