"""`ebb acp`: its arguments, and the sessions of the folders that an editor names."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ebbtide.agent.config.load import find_folders
from ebbtide.agent.crash import log_stray_errors
from ebbtide.agent.errors import UsageError
from ebbtide.tui.cli.arguments import make_parser, parser_of, read_settings, sessions_of

if TYPE_CHECKING:  # types only: an editor waits for the first answer
    from ebbtide.agent.config.values import Config
    from ebbtide.agent.sessions import Sessions

BY_HAND = "`ebb acp` is started by an editor, which speaks to it over its standard input; docs/editors.md says how"


def run(arguments: Sequence[str]) -> int:
    """Serve an editor until it disconnects; return the exit code. Raises `UsageError`."""
    parser = parser_of(
        "acp", "Sessions for an editor, over the Agent Client Protocol. Other options are those of `ebb`."
    )
    _, others = parser.parse_known_args(arguments)
    options = make_parser().parse_args(others)
    if options.prompt is not None or options.words or options.resume is not None or options.pick is not None:
        raise UsageError("`ebb acp` takes settings only: prompts and sessions come from the editor")
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise UsageError(BY_HAND)
    return asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> int:
    from ebbtide.tui.acp.server import AcpServer, serve  # noqa: PLC0415  # deferred: its library takes long to load
    from ebbtide.tui.acp.transport import pipes  # noqa: PLC0415  # as above

    logs = find_folders(os.environ).logs
    log_stray_errors(logs)
    with os.fdopen(os.dup(1), "wb") as stdout:
        os.dup2(2, 1)  # whatever prints by itself must not come between the messages
        return await serve(AcpServer(lambda *asked: _folder(options, *asked), logs), await pipes(sys.stdin, stdout))


def _folder(
    options: argparse.Namespace, cwd: str, change: "Callable[[Config], Config]"
) -> "tuple[Sessions, Sequence[str]]":
    """The sessions of a folder with the settings of the command line, and warnings about them."""
    here = argparse.Namespace(**{**vars(options), "cd": cwd})
    root, config = read_settings(here)
    return sessions_of(root, change(config), here, interactive=True), config.notices
