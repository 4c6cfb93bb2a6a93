"""`ebb serve`: its arguments and requirements."""

from collections.abc import Sequence

from ebbtide.agent.errors import UsageError
from ebbtide.tui.cli.arguments import make_parser, parser_of, read_settings, whole_number, with_resume


def run(arguments: Sequence[str]) -> int:
    """Serve the interface until Ctrl-C; return the exit code. Raises `UsageError`."""
    parser = parser_of("serve", "The terminal in a browser on this machine. Other options are those of `ebb`.")
    parser.add_argument("--port", type=whole_number, default=0, help="any free one without it")
    options, others = parser.parse_known_args(arguments)
    read_settings(make_parser().parse_args(with_resume(others)))  # told here, not in every browser
    try:
        from ebbtide.tui.web.server import serve  # noqa: PLC0415  # deferred: an extra that few have
    except ImportError as error:
        from ebbtide.agent.extras import install_command  # noqa: PLC0415  # deferred: few lack it

        raise UsageError(
            f"`ebb serve` needs packages that are not installed. Run: {install_command('serve')}"
        ) from error
    return serve(others, options.port)
