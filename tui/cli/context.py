"""`ebb context`: what is in a session's context, and what it costs."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict

from ebbtide.agent.headless.printing import print_json
from ebbtide.tui.cli.arguments import create_subcommand_parser, parse_subcommand_args, run_with_sessions
from ebbtide.tui.text.spans import line_text
from ebbtide.tui.view.context import overview_lines


def run(arguments: Sequence[str]) -> int:
    """Run `ebb context [ID]`; return the exit code."""
    parser = create_subcommand_parser("context", "Show what fills a session's context and what it has cost.")
    parser.add_argument(
        "id", nargs="?", default="", help="beginning of a session id (default: the most recent session)"
    )
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    overview = run_with_sessions(options, lambda sessions: sessions.overview(options.id))
    if options.json:
        print_json(sys.stdout, {**asdict(overview), "used": overview.used_tokens})
        return 0
    for line in overview_lines(overview, shutil.get_terminal_size().columns):
        print(line_text(line))
    return 0
