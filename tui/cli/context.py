"""`ebb context`: the contents and cost of a session's context."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict

from ebbtide.agent.headless.json_line import print_json
from ebbtide.tui.cli.arguments import parse_subcommand_args, parser_of, with_sessions
from ebbtide.tui.view.context import overview_lines


def run(arguments: Sequence[str]) -> int:
    """Run `ebb context [ID]`; return the exit code."""
    parser = parser_of("context", "What a session's context holds and what it has cost.")
    parser.add_argument("id", nargs="?", default="", help="the beginning of a session's id; the newest without it")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    overview = with_sessions(options, lambda sessions: sessions.overview(options.id))
    if options.json:
        print_json(sys.stdout, {**asdict(overview), "used": overview.used_tokens})
        return 0
    for line in overview_lines(overview, shutil.get_terminal_size().columns):
        print("".join(words for words, _ in line))
    return 0
