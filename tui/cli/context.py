"""`ebb context`: what is in a session's context, and what it costs."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ebbtide.agent.headless.printing import print_json
from ebbtide.tui.cli.arguments import create_subcommand_parser, parse_subcommand_args, run_with_sessions
from ebbtide.tui.text.spans import line_text
from ebbtide.tui.view.context import overview_lines

if TYPE_CHECKING:  # types only
    from ebbtide.agent.compaction.style_costs import StyleCosts
    from ebbtide.agent.compose.sessions import ProjectSessions
    from ebbtide.agent.window.overview import Overview


def run(arguments: Sequence[str]) -> int:
    """Run `ebb context [ID]`; return the exit code."""
    parser = create_subcommand_parser("context", "Show what fills a session's context and what it has cost.")
    parser.add_argument(
        "id", nargs="?", default="", help="beginning of a session id (default: the most recent session)"
    )
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    overview, style_costs = run_with_sessions(options, lambda sessions: _measure(sessions, options.id))
    if options.json:
        print_json(sys.stdout, {**asdict(overview), "used": overview.used_tokens, "style_costs": asdict(style_costs)})
        return 0
    for line in overview_lines(overview, shutil.get_terminal_size().columns, style_costs):
        print(line_text(line))
    return 0


async def _measure(sessions: "ProjectSessions", id_prefix: str) -> "tuple[Overview, StyleCosts]":
    overview = await sessions.overview(id_prefix)
    return overview, await sessions.style_costs(overview)
