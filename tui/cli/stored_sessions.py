"""`ebb sessions`: lists, shows, forks and renames stored sessions. Other actions are imported when needed."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ebbtide.agent import archive
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui import cli, integration_registry, view
from ebbtide.tui.cli.arguments import (
    create_subcommand_parser,
    first_positional_index,
    parse_integer,
    parse_subcommand_args,
    run_with_sessions,
)
from ebbtide.tui.cli.subcommands import Subcommand, load_subcommand
from ebbtide.tui.text.sanitise import sanitise, sanitise_line

if TYPE_CHECKING:  # imported for types only: listing needs only the rows
    from ebbtide.agent.compose.sessions import ProjectSessions

MAX_LISTED_SESSIONS = 100
"""Maximum number of sessions listed, not counting sub-agent sessions."""
_ACTION_FUNCTIONS: Mapping[str, str] = {
    "search": "search:search",
    "tag": "session_tags:tag",
    "untag": "session_tags:untag",
    "delete": "session_delete:delete",
}
"""Actions that parse their own arguments, with their functions as `MODULE:NAME`."""


def run(arguments: Sequence[str]) -> int:
    """Run `ebb sessions [ACTION …]`; return the exit code."""
    action_index = first_positional_index(arguments)
    if action_index is not None and (action := _action_function(arguments[action_index])) is not None:
        return action([*arguments[:action_index], *arguments[action_index + 1 :]])
    parser = create_subcommand_parser("sessions", "List and manage stored sessions.")
    actions = ("list", "show", "fork", "rename", *_ACTION_FUNCTIONS, *integration_registry.SESSION_ACTIONS)
    parser.add_argument("action", nargs="?", choices=actions, default="list")
    parser.add_argument("id", nargs="?", help="beginning of a session id (for all actions except list)")
    parser.add_argument(
        "ref", nargs="?", help="for show: print `r12`, `msg-…` or `sum-1` in full; for rename: the new title"
    )
    parser.add_argument("--all", action="store_true", help="include the sessions of all projects")
    tag_help = "for list: show only sessions with this tag (repeatable)"
    parser.add_argument("--tag", action="append", default=[], metavar="TAG", help=tag_help)
    limit_help = f"for list: show the N most recent (default: {MAX_LISTED_SESSIONS})"
    parser.add_argument("--limit", type=parse_integer, default=MAX_LISTED_SESSIONS, metavar="N", help=limit_help)
    options = parse_subcommand_args(parser, arguments, "JSON lines")
    if options.limit < 1:
        parser.error("`--limit` must be above 0")
    if options.action != "list" and not options.id:
        parser.error(f"no session named; write `ebb sessions {options.action} ID`")
    match options.action:
        case "list":
            _list(options)
            return 0
        case "show":
            return cli.session_text.show(options)
        case "rename" if not options.ref:
            parser.error("no title; write `ebb sessions rename ID TITLE`")
        case _:
            _fork_or_rename(options)
            return 0


def _action_function(name: str) -> Subcommand | None:
    """Load the function of an action that parses its own arguments; None for other actions."""
    if name in integration_registry.SESSION_ACTIONS:
        return integration_registry.SESSION_ACTIONS[name].load()
    return load_subcommand(_ACTION_FUNCTIONS[name]) if name in _ACTION_FUNCTIONS else None


def _list(options: argparse.Namespace) -> None:
    """List sessions. This is run often, so it does not import models, tools or the event loop."""
    tags = archive.tags.normalise_tags(options.tag)
    sessions, problem = archive.session_listing.newest_sessions(
        cli.arguments.read_settings_with_warnings(options)[1], options.limit + 1, in_all_projects=options.all, tags=tags
    )
    if problem:
        print(f"ebb: {sanitise_line(problem)}", file=sys.stderr)
    for info in sessions[: options.limit]:
        if options.json:
            print_json(sys.stdout, cli.session_lines.json_fields(info))
        else:
            print("\n".join(map(cli.session_lines.session_line, (info, *info.agents))))
    if len(sessions) > options.limit:
        print(f"ebb: there are more than {options.limit:,} sessions; `--limit N` lists more", file=sys.stderr)
    if sessions or options.json:
        return
    if tags:
        print(f"no session in this project has {view.sessions.tags_text(tags)}; `--all` includes other projects")
    else:
        print("no sessions in this project yet; start one with `ebb`, or list those of all projects with `--all`")


def _fork_or_rename(options: argparse.Namespace) -> None:
    async def work(sessions: "ProjectSessions") -> tuple[SessionInfo, str]:
        library = await sessions.open_library()
        if options.action == "fork":
            info = await library.fork(options.id)
            return info, f"forked {info.id}  {info.title}; resume it with `ebb -r {info.id}`"
        info = await library.rename(options.id, options.ref)
        return info, f"renamed {info.id}  {info.title}"

    info, message = run_with_sessions(options, work)
    if options.json:
        print_json(sys.stdout, {"session": info.id, "title": info.title})
    else:
        print(sanitise(message))
