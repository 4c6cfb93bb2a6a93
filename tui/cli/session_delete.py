"""`ebb sessions delete`: deletes sessions by id, or by filters after a preview."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ebbtide.agent.archive.bulk_delete import SkippedSession, delete_sessions, select_sessions, sessions_by_prefix
from ebbtide.agent.archive.tags import normalise_tags
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed, UsageError
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.records.session_lookup import SessionInfo, project_name
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import (
    confirm,
    create_subcommand_parser,
    parse_subcommand_args,
    read_settings_with_warnings,
)
from ebbtide.tui.cli.session_lines import session_line
from ebbtide.tui.cli.time_arguments import parse_time_argument
from ebbtide.tui.text.sanitise import sanitise, sanitise_line
from ebbtide.tui.view.sessions import deleted_message

MAX_PREVIEWED_SESSIONS = 20
"""Maximum number of sessions listed in a preview. The rest are only counted."""


def delete(arguments: Sequence[str]) -> int:
    """Run `ebb sessions delete` with ids or filters; return the exit code, which is 2 if the user could not be asked to
    confirm."""
    parser = create_subcommand_parser(
        "sessions delete",
        "Delete sessions with their stored data and sub-agent sessions. Filters list them first and ask. "
        "Open sessions are skipped.",
    )
    parser.add_argument("id", nargs="*", help="beginning of a session id; deleted without asking")
    filters = parser.add_argument_group("filters, instead of ids; sessions of this project must match all of them")
    older_than_help = "not used for AGE (`30d`, `12h`, `2w`, `6mo`, `1y`) or since a date (`2026-01-31`)"
    filters.add_argument("--older-than", metavar="AGE", help=older_than_help)
    filters.add_argument("--tag", action="append", default=[], metavar="TAG", help="has this tag (repeatable)")
    filters.add_argument("--untagged", action="store_true", help="has no tags")
    filters.add_argument("--empty", action="store_true", help="has no model reply")
    filters.add_argument("--project", metavar="DIR", help="delete from this project instead of the current one")
    filters.add_argument("--all", action="store_true", help="delete from all projects")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show what would be deleted, and exit")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    has_filters = any((options.older_than, options.tag, options.untagged, options.empty, options.project, options.all))
    if not options.id and not has_filters:
        parser.error("no sessions named; give ids, or a filter such as `--older-than 30d`")
    if options.id and has_filters:
        parser.error("use either ids or filters, not both")
    _, config = read_settings_with_warnings(options)
    if options.id:
        return _delete_named(config, options)
    sessions, skipped = _select_sessions(config, options)
    if options.dry_run or not sessions or not (options.yes or _confirm_deletion(sessions, skipped, options)):
        return _report_not_deleted(sessions, skipped, options)
    deleted, refused = delete_sessions(config, sessions, _DeleteProgress(len(sessions)))
    _report_deleted(deleted, (*skipped, *refused), options)
    return 0


def _select_sessions(
    config: Config, options: argparse.Namespace
) -> tuple[tuple[SessionInfo, ...], tuple[SkippedSession, ...]]:
    """Select the sessions to delete. Raises `UsageError`."""
    if options.project and options.all:
        raise UsageError("use either `--project` or `--all`, not both")
    if options.tag and options.untagged:
        raise UsageError("use either `--tag` or `--untagged`, not both")
    project = project_name(config)
    if options.project:
        # The folder need not exist: sessions of deleted folders can be selected too.
        project = str(Path(options.project).expanduser().resolve())
    cutoff = parse_time_argument(options.older_than) if options.older_than else None
    return select_sessions(
        config,
        project=None if options.all else project,
        updated_before=cutoff,
        tags=normalise_tags(options.tag),
        is_untagged=options.untagged,
        is_unanswered=options.empty,
    )


def _delete_named(config: Config, options: argparse.Namespace) -> int:
    sessions = sessions_by_prefix(config, options.id)
    if options.dry_run:
        return _report_not_deleted(sessions, (), options)
    deleted, skipped = delete_sessions(config, sessions, lambda index: None)
    if not options.json:
        for info in deleted:
            print(deleted_message(info))
    else:
        _report_deleted(deleted, skipped, options)
    if skipped:
        reasons = "; ".join(
            f"session `{skipped_session.info.id}` was not deleted: {skipped_session.reason}"
            for skipped_session in skipped
        )
        raise StoreFailed(reasons, "in use")
    return 0


def _confirm_deletion(
    sessions: Sequence[SessionInfo], skipped: Sequence[SkippedSession], options: argparse.Namespace
) -> bool:
    if options.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    _preview(sessions, skipped)
    return confirm(f"delete {pluralize(len(sessions), 'session')} permanently?", as_json=False)


def _report_not_deleted(
    sessions: Sequence[SessionInfo], skipped: Sequence[SkippedSession], options: argparse.Namespace
) -> int:
    """Report which sessions would have been deleted; return the exit code."""
    needs_confirmation = not options.dry_run and bool(sessions)
    was_declined = needs_confirmation and not options.json and sys.stdin.isatty() and sys.stdout.isatty()
    if options.json:
        print_json(
            sys.stdout, {"deleted": [], "would_delete": [info.id for info in sessions], "kept": _skipped_json(skipped)}
        )
    elif not was_declined:
        _preview(sessions, skipped)
    if was_declined:
        print("nothing deleted")
        return 0
    if needs_confirmation and not options.id:
        print("ebb: nothing deleted: no terminal to confirm in; use `--yes`", file=sys.stderr)
        return UsageError("").exit_code
    return 0


def _preview(sessions: Sequence[SessionInfo], skipped: Sequence[SkippedSession]) -> None:
    for info in sessions[:MAX_PREVIEWED_SESSIONS]:
        print(session_line(info))
    if len(sessions) > MAX_PREVIEWED_SESSIONS:
        print(f"… and {pluralize(len(sessions) - MAX_PREVIEWED_SESSIONS, 'more session')}")
    if not sessions:
        print("no matching sessions")
    else:
        projects = sorted({info.project for info in sessions})
        agent_count = sum(len(info.agents) for info in sessions)
        phrases = [
            pluralize(len(sessions), "session"),
            f"with {pluralize(agent_count, 'sub-agent session')}" if agent_count else "",
            pluralize(sum(info.messages for info in sessions), "message"),
            f"of {pluralize(len(projects), 'project')}" if len(projects) > 1 else f"of {projects[0]}",
        ]
        print(sanitise_line(f"to be deleted: {', '.join(filter(None, phrases))}"))
    _print_skipped(skipped)


def _report_deleted(
    deleted: Sequence[SessionInfo], skipped: Sequence[SkippedSession], options: argparse.Namespace
) -> None:
    if options.json:
        print_json(sys.stdout, {"deleted": [info.id for info in deleted], "kept": _skipped_json(skipped)})
        return
    agent_count = sum(len(info.agents) for info in deleted)
    agents_text = f", with {pluralize(agent_count, 'sub-agent session')}" if agent_count else ""
    print(f"deleted {pluralize(len(deleted), 'session')}{agents_text}")
    _print_skipped(skipped)


def _print_skipped(skipped: Sequence[SkippedSession]) -> None:
    for entry in skipped[:MAX_PREVIEWED_SESSIONS]:
        print(sanitise(f"skipped: {entry.info.id}  {sanitise_line(entry.info.title)}: {entry.reason}"))
    if len(skipped) > MAX_PREVIEWED_SESSIONS:
        print(f"skipped: {len(skipped) - MAX_PREVIEWED_SESSIONS:,} more")


def _skipped_json(skipped: Sequence[SkippedSession]) -> list[dict[str, str]]:
    return [{"id": entry.info.id, "why": entry.reason} for entry in skipped]


class _DeleteProgress:
    """Shows progress on a terminal if there are many sessions to delete."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._is_visible = total > 200 and sys.stderr.isatty()

    def __call__(self, index: int) -> None:
        if self._is_visible and index % 50 == 0:
            print(f"\rdeleting {index:,} of {self._total:,}", end="\x1b[K", file=sys.stderr, flush=True)
        if self._is_visible and index == self._total - 1:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
