"""`ebb import`: shows other agents' data and imports what the user chooses."""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import get_args

from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed, UsageError
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.integrations.imports.agent_folders import AGENT_LABELS, AgentName, find_agent_folders
from ebbtide.agent.integrations.imports.session_writer import ImportResult
from ebbtide.agent.integrations.imports.transcript import ImportableTranscript, ImportProblems, format_counts
from ebbtide.agent.integrations.imports.transcripts import (
    delete_imported_sessions,
    filter_new_transcripts,
    find_transcripts,
    import_transcripts,
)
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import confirm, create_subcommand_parser, parse_subcommand_args, read_settings
from ebbtide.tui.integrations.imports.settings import ImportableSettings
from ebbtide.tui.text.sanitise import sanitise_line

_SECONDS_PER_DAY = 86_400
_DELETE_QUESTION = "Delete all imported sessions that were never continued?"
KINDS = ("conversations", "model", "key", "rules", "servers")
"""The kinds of data that can be imported. Other agents' instructions, skills, commands, agents and hooks need no
import, because they are read in place."""


def run(arguments: Sequence[str]) -> int:
    """Run `ebb import`; return the exit code."""
    parser = create_subcommand_parser(
        "import",
        "Find data of Claude Code, Codex, opencode, Gemini and aider on this machine, and import what you choose. "
        "Transcripts become sessions that you can search and resume.",
    )
    parser.add_argument(
        "--from",
        dest="agents",
        action="append",
        choices=get_args(AgentName),
        help="import only from this agent (repeatable)",
    )
    kinds_text = ", ".join(KINDS)
    parser.add_argument(
        "--what", metavar="KIND,…", default=",".join(KINDS), help=f"import only these kinds: {kinds_text}"
    )
    parser.add_argument("--project", metavar="DIR", help="import only conversations from this folder or below")
    parser.add_argument(
        "--since", metavar="DATE", help="import only conversations since DATE: 2026-01-31, or 30d for the last 30 days"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be imported, and exit")
    parser.add_argument("--yes", action="store_true", help="import everything shown without asking")
    parser.add_argument("--remove", action="store_true", help="delete imported sessions that were never continued")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings(options)
    agents: Sequence[AgentName] = options.agents or get_args(AgentName)
    if options.remove:
        return _remove_imported_sessions(config, agents, options)
    kinds_to_import = options.what.split(",")
    if unknown := [kind for kind in kinds_to_import if kind not in KINDS]:
        raise UsageError(f"`--what {unknown[0]}` is unknown; use one of {kinds_text}")
    import_problems, since = ImportProblems(), _parse_since(options.since)
    searched_agents = agents if "conversations" in kinds_to_import else ()
    transcripts = find_transcripts(
        find_agent_folders(os.environ), config.project_folder, searched_agents, import_problems
    )
    matching_transcripts = [
        transcript for transcript in transcripts if _matches_filters(transcript, options.project, since)
    ]
    new_transcripts = filter_new_transcripts(config, matching_transcripts) if matching_transcripts else []
    settings = ImportableSettings(config, options.agents, kinds_to_import)
    if not options.json:
        _show_conversations(matching_transcripts, new_transcripts)
        settings.print_all()
        if not matching_transcripts and settings.is_empty:
            print("no data of other agents found")
    skipped_text = f"skipped: {format_counts(import_problems.skipped_counts)}" if import_problems.skipped_counts else ""
    for problem in (import_problems.summary, skipped_text, *settings.problems):
        _warn(problem)
    totals: dict[str, object] = {"found": len(matching_transcripts), "new": len(new_transcripts), **settings.as_json()}

    def confirm_import(question: str) -> bool:
        return not options.dry_run and (options.yes or confirm(question, as_json=options.json))

    results = (
        _import_conversations(config, new_transcripts, options)
        if new_transcripts and confirm_import(f"Import {pluralize(len(new_transcripts), 'conversation')}?")
        else {}
    )
    results |= settings.import_with_confirmation(options, confirm_import)
    if options.json:
        print_json(sys.stdout, totals | results)
    elif not results and (new_transcripts or not settings.is_empty):
        print(
            "nothing imported; `--yes` imports everything; `--from`, `--what`, `--project` and `--since` narrow it down"
        )
    return 0


def _matches_filters(transcript: ImportableTranscript, project: str | None, since: float) -> bool:
    if transcript.updated_at < since:
        return False
    if project is None:
        return True
    root = Path(project).resolve()
    return bool(transcript.project) and (Path(transcript.project) == root or root in Path(transcript.project).parents)


def _parse_since(text: str | None) -> float:
    """Convert `--since` to Unix seconds."""
    if text is None:
        return 0.0
    try:
        if text.endswith("d") and text[:-1].isdecimal():
            return time.time() - int(text[:-1]) * _SECONDS_PER_DAY
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise UsageError(f"`--since {text}` is not a date; write 2026-01-31, or 30d for the last 30 days") from error


def _show_conversations(
    matching_transcripts: Sequence[ImportableTranscript], new_transcripts: Sequence[ImportableTranscript]
) -> None:
    """For each agent, print the number, size, dates and projects of its conversations."""
    new_ids = {(transcript.agent, transcript.id) for transcript in new_transcripts}
    for agent, label in AGENT_LABELS.items():
        agent_transcripts = [transcript for transcript in matching_transcripts if transcript.agent == agent]
        if not agent_transcripts:
            continue
        print(f"{label}: {_statistics_text(agent_transcripts, new_ids)}")
        for project, _ in Counter(transcript.project for transcript in agent_transcripts).most_common():
            project_transcripts = [transcript for transcript in agent_transcripts if transcript.project == project]
            print(sanitise_line(f"    {project or '(no folder)'}: {_statistics_text(project_transcripts, new_ids)}"))


def _statistics_text(transcripts: Sequence[ImportableTranscript], new_ids: set[tuple[AgentName, str]]) -> str:
    first_date, last_date = (
        time.strftime("%Y-%m-%d", time.localtime(transcript.updated_at))
        for transcript in (transcripts[0], transcripts[-1])
    )
    imported_count = sum((transcript.agent, transcript.id) not in new_ids for transcript in transcripts)
    megabytes = sum(transcript.size for transcript in transcripts) / 1e6
    imported_text = f"; already imported: {imported_count:,}" if imported_count else ""
    return (
        f"{pluralize(len(transcripts), 'conversation')}, {megabytes:,.1f} MB, {first_date} – {last_date}{imported_text}"
    )


def _import_conversations(
    config: Config, new_transcripts: Sequence[ImportableTranscript], options: argparse.Namespace
) -> dict[str, object]:
    """Import the conversations and return the results."""
    states, skipped = Counter[str](), Counter[str]()
    sessions, problems = list[str](), list[str]()
    failure: StoreFailed | None = None
    try:
        for count, (transcript, result, import_problems) in enumerate(import_transcripts(config, new_transcripts), 1):
            states[result.state if isinstance(result, ImportResult) else "unreadable"] += 1
            skipped.update(import_problems.skipped_counts)
            problems += _problem_messages(f"{transcript.agent}:{transcript.id}", result, import_problems)
            if isinstance(result, ImportResult) and result.state in ("new", "renewed"):
                sessions.append(result.session_id)
            _show_progress(f"imported {count:,} of {len(new_transcripts):,}", options)
    except StoreFailed as error:  # first report what was imported until then
        failure = error
    _show_progress("", options)
    if not options.json:
        imported_text = pluralize(states["new"] + states["renewed"], "session")
        updated_text = f", {states['renewed']:,} of them updated" if states["renewed"] else ""
        empty_text = f"; {states['empty']:,} empty" if states["empty"] else ""
        skipped_text = f"; skipped: {format_counts(skipped)}" if skipped else ""
        print(f"imported {imported_text}{updated_text}{empty_text}{skipped_text}")
        if sessions:
            print(f"resume the last one with `ebb -r {sessions[-1]}`; list all with `ebb sessions list --all`")
        for problem in problems:
            _warn(problem)
    if failure is not None:
        raise failure
    return {"states": states, "sessions": sessions, "problems": problems, "left_out": skipped}


def _problem_messages(label: str, result: ImportResult | str, import_problems: ImportProblems) -> list[str]:
    """Explain why a conversation was skipped or only partly imported."""
    if isinstance(result, str):
        return [f"skipped {label}: {result}"]
    if result.state == "open":
        return [f"skipped {label}: its session {result.session_id} is open in another program"]
    return [f"imported {label} in part: {import_problems.summary}"] if import_problems.summary else []


def _remove_imported_sessions(config: Config, agents: Sequence[AgentName], options: argparse.Namespace) -> int:
    if not (options.yes or confirm(_DELETE_QUESTION, as_json=options.json)):
        print("nothing removed; `--yes` removes them without asking")
        return 0
    removed, not_removed = asyncio.run(delete_imported_sessions(config, agents))
    if options.json:
        print_json(sys.stdout, {"removed": removed, "stayed": not_removed})
    else:
        not_removed_text = f"; not removed, because open or continued: {', '.join(not_removed)}" if not_removed else ""
        print(f"removed {pluralize(removed, 'imported session')}{not_removed_text}")
    return 0


def _show_progress(text: str, options: argparse.Namespace) -> None:
    if sys.stderr.isatty() and not options.json:
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _warn(text: str) -> None:
    if text:
        print(f"ebb: {sanitise_line(text)}", file=sys.stderr)
