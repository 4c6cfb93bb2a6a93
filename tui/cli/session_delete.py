"""`ebb sessions delete`: deletes sessions by id, or by filters after a preview."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ebbtide.agent.archive.bulk_delete import SkippedSession, delete_sessions, named_sessions, selected_sessions
from ebbtide.agent.archive.tags import tags_named
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed, UsageError
from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.records.session_lookup import SessionInfo, project_of
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import confirm, parse_subcommand_args, parser_of, read_settings_with_warnings
from ebbtide.tui.cli.session_lines import line_of
from ebbtide.tui.cli.time_arguments import moment_before
from ebbtide.tui.text.sanitise import sanitised, sanitised_line
from ebbtide.tui.view.sessions import deleted_message

MAX_PREVIEWED_SESSIONS = 20
"""Maximum sessions in a preview; the others are counted."""


def delete(arguments: Sequence[str]) -> int:
    """Run `ebb sessions delete ID…`, or with filters; return 2 if confirmation was impossible."""
    parser = parser_of(
        "sessions delete",
        "Deletes sessions with everything that they have kept, and those of their agents. With filters it shows them "
        "first and asks. What is open somewhere stays.",
    )
    parser.add_argument("id", nargs="*", help="the beginnings of sessions' ids: these are deleted at once")
    filters = parser.add_argument_group("in place of ids, those of this project for which all of it is true")
    age = "nothing has happened in it for so long: `30d`, `12h`, `2w`, `6mo`, `1y`; or since a day, `2026-01-31`"
    filters.add_argument("--older-than", metavar="AGE", help=age)
    filters.add_argument("--tag", action="append", default=[], metavar="TAG", help="it has this tag; repeatable")
    filters.add_argument("--untagged", action="store_true", help="it has no tag")
    filters.add_argument("--empty", action="store_true", help="no model has said anything in it")
    filters.add_argument("--project", metavar="DIR", help="of this project in place of the one here")
    filters.add_argument("--all", action="store_true", help="of all projects")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show what would be deleted, and delete nothing")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    filtered = any((options.older_than, options.tag, options.untagged, options.empty, options.project, options.all))
    if not options.id and not filtered:
        parser.error("which sessions? write their ids, or a filter such as `--older-than 30d`")
    if options.id and filtered:
        parser.error("ids and filters exclude each other: write one or the other")
    _, config = read_settings_with_warnings(options)
    if options.id:
        return _delete_named(config, options)
    found, kept = _select_sessions(config, options)
    if options.dry_run or not found or not (options.yes or _confirm(found, kept, options)):
        return _report_not_deleted(found, kept, options)
    deleted, refused = delete_sessions(config, found, _Progress(len(found)))
    _report_deleted(deleted, (*kept, *refused), options)
    return 0


def _select_sessions(
    config: Config, options: argparse.Namespace
) -> tuple[tuple[SessionInfo, ...], tuple[SkippedSession, ...]]:
    """Select the sessions to delete. Raises `UsageError`."""
    if options.project and options.all:
        raise UsageError("`--project` and `--all` exclude each other: write one or the other")
    if options.tag and options.untagged:
        raise UsageError("`--tag` and `--untagged` exclude each other: write one or the other")
    project = project_of(config)
    if options.project:
        # A folder that is gone is no reason to keep its sessions.
        project = str(Path(options.project).expanduser().resolve())
    before = moment_before(options.older_than) if options.older_than else None
    return selected_sessions(
        config,
        project=None if options.all else project,
        before=before,
        tags=tags_named(options.tag),
        untagged=options.untagged,
        unanswered=options.empty,
    )


def _delete_named(config: Config, options: argparse.Namespace) -> int:
    found = named_sessions(config, options.id)
    if options.dry_run:
        return _report_not_deleted(found, (), options)
    deleted, kept = delete_sessions(config, found, lambda number: None)
    if not options.json:
        for info in deleted:
            print(deleted_message(info))
    else:
        _report_deleted(deleted, kept, options)
    if kept:
        told = "; ".join(f"session `{one.info.id}` stays: {one.why}" for one in kept)
        raise StoreFailed(told, "in use")
    return 0


def _confirm(found: Sequence[SessionInfo], kept: Sequence[SkippedSession], options: argparse.Namespace) -> bool:
    if options.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    _preview(found, kept)
    return confirm(f"delete {pluralize(len(found), 'session')} for good?", as_json=False)


def _report_not_deleted(
    found: Sequence[SessionInfo], kept: Sequence[SkippedSession], options: argparse.Namespace
) -> int:
    """Report what would have been deleted; return the exit code."""
    asked = not options.dry_run and bool(found)
    is_answered = asked and not options.json and sys.stdin.isatty() and sys.stdout.isatty()
    if options.json:
        print_json(
            sys.stdout, {"deleted": [], "would_delete": [info.id for info in found], "kept": _skipped_json(kept)}
        )
    elif not is_answered:
        _preview(found, kept)
    if is_answered:
        print("nothing was deleted")
        return 0
    if asked and not options.id:
        print("ebb: nothing was deleted: nobody is there to agree; `--yes` deletes them", file=sys.stderr)
        return UsageError("").exit_code
    return 0


def _preview(found: Sequence[SessionInfo], kept: Sequence[SkippedSession]) -> None:
    for info in found[:MAX_PREVIEWED_SESSIONS]:
        print(line_of(info))
    if len(found) > MAX_PREVIEWED_SESSIONS:
        print(f"… and {pluralize(len(found) - MAX_PREVIEWED_SESSIONS, 'more session')}")
    if not found:
        print("no session is to be deleted")
    else:
        projects = sorted({info.project for info in found})
        agents = sum(len(info.agents) for info in found)
        parts = [
            pluralize(len(found), "session"),
            f"with {pluralize(agents, 'session')} of their agents" if agents else "",
            pluralize(sum(info.messages for info in found), "message"),
            f"of {pluralize(len(projects), 'project')}" if len(projects) > 1 else f"of {projects[0]}",
        ]
        print(sanitised_line(f"to be deleted: {', '.join(filter(None, parts))}"))
    _print_skipped(kept)


def _report_deleted(
    deleted: Sequence[SessionInfo], kept: Sequence[SkippedSession], options: argparse.Namespace
) -> None:
    if options.json:
        print_json(sys.stdout, {"deleted": [info.id for info in deleted], "kept": _skipped_json(kept)})
        return
    agents = sum(len(info.agents) for info in deleted)
    more = f", with {pluralize(agents, 'session')} of their agents" if agents else ""
    print(f"deleted {pluralize(len(deleted), 'session')}{more}")
    _print_skipped(kept)


def _print_skipped(kept: Sequence[SkippedSession]) -> None:
    for one in kept[:MAX_PREVIEWED_SESSIONS]:
        print(sanitised(f"stays: {one.info.id}  {sanitised_line(one.info.title)}: {one.why}"))
    if len(kept) > MAX_PREVIEWED_SESSIONS:
        print(f"stay: {len(kept) - MAX_PREVIEWED_SESSIONS:,} more")


def _skipped_json(kept: Sequence[SkippedSession]) -> list[dict[str, str]]:
    return [{"id": one.info.id, "why": one.why} for one in kept]


class _Progress:
    """Shows progress on a terminal if there are many sessions."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._is_shown = total > 200 and sys.stderr.isatty()

    def __call__(self, number: int) -> None:
        if self._is_shown and number % 50 == 0:
            print(f"\rdeleting {number:,} of {self._total:,}", end="\x1b[K", file=sys.stderr, flush=True)
        if self._is_shown and number == self._total - 1:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
