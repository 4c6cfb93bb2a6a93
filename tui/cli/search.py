"""`ebb sessions search`: searches stored sessions."""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ebbtide.agent.headless.printing import print_json
from ebbtide.tools.outputs.recall_results import RecalledItem, RecallQuery, RecallResult
from ebbtide.tui.cli.arguments import create_subcommand_parser, parse_integer, parse_subcommand_args, run_with_sessions
from ebbtide.tui.text.sanitise import sanitise, sanitise_line

if TYPE_CHECKING:  # types only
    from ebbtide.agent.compose.sessions import ProjectSessions

DEFAULT_MAX_RESULTS = 20


def search(arguments: Sequence[str]) -> int:
    """Run `ebb sessions search`; return the exit code."""
    parser = create_subcommand_parser("sessions search", "Search stored sessions: messages, tool calls and outputs.")
    parser.add_argument("query", nargs="+", help="words to find; quote a phrase")
    parser.add_argument("--all", action="store_true", help="search the sessions of all projects")
    parser.add_argument(
        "--limit",
        type=parse_integer,
        default=DEFAULT_MAX_RESULTS,
        metavar="N",
        help=f"show at most N results (default: {DEFAULT_MAX_RESULTS})",
    )
    options = parse_subcommand_args(parser, arguments, "JSON lines")
    if not " ".join(options.query).strip() or options.limit < 1:
        parser.error("give words to search for, and a limit above 0")

    async def work(sessions: "ProjectSessions") -> RecallResult:
        recall = await sessions.open_recall(in_all_projects=options.all)
        return await recall.search(RecallQuery(" ".join(options.query), limit=options.limit))

    recall_result = run_with_sessions(options, work)
    for note in recall_result.notes:
        print(f"ebb: {note}", file=sys.stderr)
    for result in recall_result.items:
        if options.json:
            print_json(sys.stdout, asdict(result))
        else:
            print("\n".join(result_lines(result)))
    if not recall_result.items and not options.json:
        print("nothing found; `--all` searches the sessions of all projects")
    return 0


def result_lines(item: RecalledItem) -> list[str]:
    """Format a search result: its reference, time, kind, title and matching excerpt."""
    time_text = time.strftime("%Y-%m-%d %H:%M", time.localtime(item.at))
    kind = f"{item.kind} of {item.tool}" if item.tool else item.kind
    heading = "  ".join(
        filter(None, (item.ref, time_text, kind, item.title, "(similar meaning)" if item.by_meaning else ""))
    )
    return [sanitise_line(heading), *(f"    {line}" for line in sanitise(item.excerpt).split("\n") if line.strip())]
