"""`ebb mcp serve`: its arguments, and the sessions of its folder."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.agent.crash import log_stray_errors
from ebbtide.agent.errors import UsageError
from ebbtide.tui.cli.arguments import make_parser, parser_of, read_settings_with_warnings, sessions_of

if TYPE_CHECKING:  # types only: a client waits for the first answer
    from ebbtide.agent.config.values import Config
    from ebbtide.agent.sessions import Sessions

NO_CLIENT = "`ebb mcp serve` is started by another agent, which speaks to it through pipes; docs/mcp.md says how"


def serve(arguments: Sequence[str]) -> int:
    """Serve another agent until it disconnects; return the exit code. Raises `UsageError`."""
    parser = parser_of(
        "mcp serve",
        "Tools for another agent, over the Model Context Protocol on standard input and output: recall, read_result, "
        "sessions_search and task. Other options are those of `ebb`.",
    )
    parser.add_argument("--no-task", action="store_true", help="only look things up; no task is done")
    own, others = parser.parse_known_args(arguments)
    options = make_parser().parse_args(others)
    if options.prompt is not None or options.words or options.resume is not None or options.pick is not None:
        raise UsageError("`ebb mcp serve` takes settings only: tasks come from the other agent")
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise UsageError(NO_CLIENT)
    return asyncio.run(_serve(options, offers_tasks=not own.no_task))


async def _serve(options: argparse.Namespace, *, offers_tasks: bool) -> int:
    from ebbtide.tui.acp.transport import pipes  # noqa: PLC0415  # deferred: as below
    from ebbtide.tui.mcp_server.definitions import DEPTH_VARIABLE  # noqa: PLC0415  # deferred: the protocol's library takes long to load
    from ebbtide.tui.mcp_server.server import ToolServer  # noqa: PLC0415  # as above

    root, config = read_settings_with_warnings(options)
    log_stray_errors(config.folders.logs)
    # Whatever a task starts, also another server like this one, has this in its environment.
    is_within = bool(os.environ.get(DEPTH_VARIABLE))
    os.environ[DEPTH_VARIABLE] = "1"

    def opened(changed: "Config") -> "Sessions":
        return sessions_of(root, changed, options, interactive=False)

    with os.fdopen(os.dup(1), "wb") as stdout:
        os.dup2(2, 1)  # whatever prints by itself must not come between the messages
        server = ToolServer(config, opened, offers_tasks=offers_tasks and not is_within)
        return await server.serve(await pipes(sys.stdin, stdout, NO_CLIENT))
