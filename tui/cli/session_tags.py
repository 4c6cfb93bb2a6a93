"""`ebb sessions tag` and `untag`."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.agent.archive.tags import normalise_tags
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui.cli.arguments import create_subcommand_parser, parse_subcommand_args, run_with_sessions
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.view.sessions import tags_text

if TYPE_CHECKING:  # types only
    from ebbtide.agent.compose.sessions import ProjectSessions


def tag(arguments: Sequence[str]) -> int:
    """Run `ebb sessions tag ID TAG…`; return the exit code."""
    parser = create_subcommand_parser(
        "sessions tag", "Add tags to a session, for `ebb sessions list --tag` and /sessions."
    )
    parser.add_argument("id", help="beginning of the session id")
    parser.add_argument("tags", nargs="+", metavar="TAG", help="tags to add, one word each")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    return _change(options, added=options.tags)


def untag(arguments: Sequence[str]) -> int:
    """Run `ebb sessions untag ID [TAG…]`; return the exit code."""
    parser = create_subcommand_parser("sessions untag", "Remove tags from a session.")
    parser.add_argument("id", help="beginning of the session id")
    parser.add_argument("tags", nargs="*", metavar="TAG", help="tags to remove (default: all)")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    return _change(options, removed=options.tags or None)


def _change(options: argparse.Namespace, added: Sequence[str] = (), removed: Sequence[str] | None = ()) -> int:
    """Change a session's tags. `removed`: None removes all tags."""

    async def work(sessions: "ProjectSessions") -> SessionInfo:
        removed_tags = None if removed is None else normalise_tags(removed)
        return await (await sessions.open_library()).change_tags(options.id, normalise_tags(added), removed_tags)

    info = run_with_sessions(options, work)
    if options.json:
        print_json(sys.stdout, {"session": info.id, "title": info.title, "tags": info.tags})
    else:
        print(sanitise_line(f"{info.id}  {info.title}  {tags_text(info.tags) or '(no tags)'}"))
    return 0
