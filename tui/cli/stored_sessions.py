"""`ebb sessions`: its verbs, and the output of those without arguments of their own."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui.cli.arguments import first_word, parse_subcommand_args, parser_of, whole_number, with_sessions
from ebbtide.tui.cli.subcommands import subcommand_at
from ebbtide.tui.text.sanitise import sanitised, sanitised_line

if TYPE_CHECKING:  # types only: the list needs no more than its rows
    from ebbtide.agent.sessions import Sessions

MAX_LISTED_SESSIONS = 100
"""Maximum sessions listed, without sub-agent sessions."""
_VERBS: Mapping[str, str] = {
    "search": "search:search",
    "tag": "session_tags:tag",
    "untag": "session_tags:untag",
    "delete": "session_delete:delete",
    "export": "transfer:export",
    "import": "transfer:import_archive",
}
"""Verbs with arguments of their own."""


def run(arguments: Sequence[str]) -> int:
    """Run `ebb sessions [VERB …]`; return the exit code."""
    first = first_word(arguments)
    if first is not None and arguments[first] in _VERBS:
        return subcommand_at(_VERBS[arguments[first]])([*arguments[:first], *arguments[first + 1 :]])
    parser = parser_of("sessions", "The stored sessions.")
    verbs = ("list", "show", "fork", "rename", *_VERBS)
    parser.add_argument("action", nargs="?", choices=verbs, default="list")
    parser.add_argument("id", nargs="?", help="the beginning of a session's id, for all but list")
    parser.add_argument(
        "ref", nargs="?", help="for show: `r12`, `msg-…` or `sum-1`, to see all of it; for rename: the title"
    )
    parser.add_argument("--all", action="store_true", help="the sessions of all projects")
    tagged = "for list: only sessions with this tag; given twice, with both"
    parser.add_argument("--tag", action="append", default=[], metavar="TAG", help=tagged)
    most = f"for list: how many, the newest; {MAX_LISTED_SESSIONS} without it"
    parser.add_argument("--limit", type=whole_number, default=MAX_LISTED_SESSIONS, metavar="N", help=most)
    options = parse_subcommand_args(parser, arguments, "JSON lines")
    if options.limit < 1:
        parser.error("write a limit above 0")
    if options.action != "list" and not options.id:
        parser.error(f"which session? write `ebb sessions {options.action} ID`")
    match options.action:
        case "list":
            _list(options)
            return 0
        case "show":
            from ebbtide.tui.cli import session_text  # noqa: PLC0415  # deferred: the list needs none of it

            return session_text.show(options)
        case "rename" if not options.ref:
            parser.error("which title? write `ebb sessions rename ID TITLE`")
        case _:
            _change(options)
            return 0


def _list(options: argparse.Namespace) -> None:
    """List sessions. It is called often, so it imports no models, tools or event loop."""
    from ebbtide.agent.archive.session_page import newest_sessions  # noqa: PLC0415  # deferred: only the list needs it
    from ebbtide.agent.archive.tags import tags_named  # noqa: PLC0415  # deferred: as above
    from ebbtide.tui.cli.arguments import read_settings_with_warnings  # noqa: PLC0415  # deferred: as above
    from ebbtide.tui.cli.session_lines import json_fields, line_of  # noqa: PLC0415  # deferred: as above
    from ebbtide.tui.view.sessions import tags_text  # noqa: PLC0415  # deferred: as above

    tags = tags_named(options.tag)
    found, told = newest_sessions(
        read_settings_with_warnings(options)[1], options.limit + 1, everywhere=options.all, tags=tags
    )
    if told:
        print(f"ebb: {sanitised_line(told)}", file=sys.stderr)
    for info in found[: options.limit]:
        if options.json:
            print_json(sys.stdout, json_fields(info))
        else:
            print("\n".join(map(line_of, (info, *info.agents))))
    if len(found) > options.limit:
        print(f"ebb: there are more than {options.limit:,}; `--limit N` lists others", file=sys.stderr)
    if found or options.json:
        return
    if tags:
        print(f"no session in this project has {tags_text(tags)}; `--all` lists those of other projects")
    else:
        print("no sessions in this project yet; `ebb` starts one, `--all` lists those of other projects")


def _change(options: argparse.Namespace) -> None:
    """Fork or rename a session."""

    async def work(sessions: "Sessions") -> tuple[SessionInfo, str]:
        library = await sessions.library()
        if options.action == "fork":
            info = await library.fork(options.id)
            return info, f"forked {info.id}  {info.title}; `ebb -r {info.id}` goes on with it"
        info = await library.rename(options.id, options.ref)
        return info, f"renamed {info.id}  {info.title}"

    info, told = with_sessions(options, work)
    if options.json:
        print_json(sys.stdout, {"session": info.id, "title": info.title})
    else:
        print(sanitised(told))
