"""`ebb serve`: its arguments and what it requires."""

from collections.abc import Sequence

from ebbtide.agent.errors import UsageError
from ebbtide.tui.cli.arguments import (
    create_subcommand_parser,
    join_resume_id,
    make_parser,
    parse_integer,
    read_settings,
)


def run(arguments: Sequence[str]) -> int:
    """Serve the interface until Ctrl-C; return the exit code. Raises `UsageError`."""
    parser = create_subcommand_parser(
        "serve", "Serve the interface to a browser on this machine. Also takes the options of `ebb`."
    )
    parser.add_argument("--port", type=parse_integer, default=0, help="listen on this port (default: any free one)")
    options, remaining = parser.parse_known_args(arguments)
    read_settings(make_parser().parse_args(join_resume_id(remaining)))  # errors are reported here, not in the browser
    try:
        from ebbtide.tui.integrations.browser.server import serve  # noqa: PLC0415  # deferred: an extra that few have
    except ImportError as error:
        from ebbtide.tools.process.install_command import install_command  # noqa: PLC0415  # deferred: few lack it

        raise UsageError(
            f"`ebb serve` needs additional packages; install them with: {install_command('serve')}"
        ) from error
    return serve(remaining, options.port)
