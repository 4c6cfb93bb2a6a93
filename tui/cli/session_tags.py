"""`ebb sessions tag` and `untag`."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.agent.archive.tags import tags_named
from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui.cli.arguments import parse_subcommand_args, parser_of, with_sessions
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.view.sessions import tags_text

if TYPE_CHECKING:  # types only
    from ebbtide.agent.sessions import Sessions


def tag(arguments: Sequence[str]) -> int:
    """Run `ebb sessions tag ID TAG…`; return the exit code."""
    parser = parser_of(
        "sessions tag", "Gives a session tags, by which `ebb sessions list --tag` and /sessions find it."
    )
    parser.add_argument("id", help="the beginning of the session's id")
    parser.add_argument("tags", nargs="+", metavar="TAG", help="one word each")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    return _change(options, added=options.tags)


def untag(arguments: Sequence[str]) -> int:
    """Run `ebb sessions untag ID [TAG…]`; return the exit code."""
    parser = parser_of("sessions untag", "Takes tags from a session.")
    parser.add_argument("id", help="the beginning of the session's id")
    parser.add_argument("tags", nargs="*", metavar="TAG", help="those that it has without one of these: all")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    return _change(options, removed=options.tags or None)


def _change(options: argparse.Namespace, added: Sequence[str] = (), removed: Sequence[str] | None = ()) -> int:
    """`removed`: None removes all tags."""

    async def work(sessions: "Sessions") -> SessionInfo:
        gone = None if removed is None else tags_named(removed)
        return await (await sessions.library()).tag(options.id, tags_named(added), gone)

    info = with_sessions(options, work)
    if options.json:
        print_json(sys.stdout, {"session": info.id, "title": info.title, "tags": info.tags})
    else:
        print(sanitised_line(f"{info.id}  {info.title}  {tags_text(info.tags) or '(no tags)'}"))
    return 0
