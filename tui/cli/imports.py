"""`ebb import`: shows data of other agents and imports what is chosen."""

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
from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.imports.agent_folders import AGENTS, AgentName, agent_folders
from ebbtide.agent.imports.session_writer import ImportResult
from ebbtide.agent.imports.transcript import ForeignTranscript, ImportProblems, counts_line
from ebbtide.agent.imports.transcripts import (
    find_transcripts,
    import_transcripts,
    index_imported,
    new_transcripts,
    remove_imported,
)
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import confirm, parse_subcommand_args, parser_of, read_settings
from ebbtide.tui.cli.import_settings import OtherSettings
from ebbtide.tui.text.sanitise import sanitised_line

_DAY = 86_400
_DELETE = "Delete all imported sessions that nobody has gone on with?"
KINDS = ("conversations", "model", "rules", "servers")
"""What can be imported. Instructions, skills, commands, agents and hooks of other agents are read in place."""


def run(arguments: Sequence[str]) -> int:
    """Run `ebb import`; return the exit code."""
    parser = parser_of(
        "import",
        "Shows what Claude Code, Codex, opencode, Gemini and aider have kept here, and takes what is chosen: "
        "transcripts become sessions, which searches find and which can be gone on with.",
    )
    parser.add_argument(
        "--from", dest="agents", action="append", choices=get_args(AgentName), help="only of this agent; several times"
    )
    kinds = ", ".join(KINDS)
    parser.add_argument("--what", metavar="KIND,…", default=",".join(KINDS), help=f"only some of {kinds}")
    parser.add_argument("--project", metavar="DIR", help="only conversations held in this folder or below it")
    parser.add_argument(
        "--since", metavar="DATE", help="only conversations that are newer: 2026-01-31, or 30d for days"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show it")
    parser.add_argument("--yes", action="store_true", help="take all that is shown, without a question")
    parser.add_argument("--remove", action="store_true", help="delete imported sessions that nobody has gone on with")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings(options)
    agents: Sequence[AgentName] = options.agents or get_args(AgentName)
    if options.remove:
        return _remove(config, agents, options)
    what = options.what.split(",")
    if unknown := [kind for kind in what if kind not in KINDS]:
        raise UsageError(f"`--what {unknown[0]}` is none of {kinds}")
    troubles, since = ImportProblems(), _since(options.since)
    looked_for = agents if "conversations" in what else ()
    found = find_transcripts(agent_folders(os.environ), config.project, looked_for, troubles)
    chosen = [one for one in found if _is_chosen(one, options.project, since)]
    new = new_transcripts(config, chosen) if chosen else []
    settings = OtherSettings(config, options.agents, what)
    if not options.json:
        _show(chosen, new)
        settings.show()
        if not chosen and settings.is_empty:
            print("nothing of other agents was found")
    left_out = f"left out: {counts_line(troubles.left_out)}" if troubles.left_out else ""
    for problem in (troubles.line, left_out, *settings.problems):
        _warn(problem)
    told: dict[str, object] = {"found": len(chosen), "new": len(new), **settings.as_json()}

    def asked(question: str) -> bool:
        return not options.dry_run and (options.yes or confirm(question, as_json=options.json))

    taken = _take(config, new, options) if new and asked(f"Import {pluralize(len(new), 'conversation')}?") else {}
    taken |= settings.take(options, asked)
    if options.json:
        print_json(sys.stdout, told | taken)
    elif not taken and (new or not settings.is_empty):
        print("nothing was imported; `--yes` takes all of it; `--from`, `--what`, `--project` and `--since` show less")
    return 0


def _is_chosen(one: ForeignTranscript, project: str | None, since: float) -> bool:
    if one.updated < since:
        return False
    if project is None:
        return True
    top = Path(project).resolve()
    return bool(one.project) and (Path(one.project) == top or top in Path(one.project).parents)


def _since(text: str | None) -> float:
    """Parse `--since` to Unix seconds."""
    if text is None:
        return 0.0
    try:
        if text.endswith("d") and text[:-1].isdecimal():
            return time.time() - int(text[:-1]) * _DAY
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise UsageError(f"`--since {text}` is no date: write 2026-01-31, or 30d for the last 30 days") from error


def _show(chosen: Sequence[ForeignTranscript], new: Sequence[ForeignTranscript]) -> None:
    """Print the number, size, date and projects of the conversations of each agent."""
    fresh = {(one.agent, one.id) for one in new}
    for agent, label in AGENTS.items():
        of_agent = [one for one in chosen if one.agent == agent]
        if not of_agent:
            continue
        print(f"{label}: {_figures(of_agent, fresh)}")
        for project, _ in Counter(one.project for one in of_agent).most_common():
            inner = [one for one in of_agent if one.project == project]
            print(sanitised_line(f"    {project or '(no folder named)'}: {_figures(inner, fresh)}"))


def _figures(some: Sequence[ForeignTranscript], fresh: set[tuple[AgentName, str]]) -> str:
    first, last = (time.strftime("%Y-%m-%d", time.localtime(one.updated)) for one in (some[0], some[-1]))
    known = sum((one.agent, one.id) not in fresh for one in some)
    size = sum(one.size for one in some) / 1e6
    here = f"; here already: {known:,}" if known else ""
    return f"{pluralize(len(some), 'conversation')}, {size:,.1f} MB, {first} – {last}{here}"


def _take(config: Config, new: Sequence[ForeignTranscript], options: argparse.Namespace) -> dict[str, object]:
    """Import the conversations and return the results."""
    states, left_out = Counter[str](), Counter[str]()
    sessions, problems = list[str](), list[str]()
    failure: StoreFailed | None = None
    try:
        for number, (one, taken, troubles) in enumerate(import_transcripts(config, new), 1):
            states[taken.state if isinstance(taken, ImportResult) else "unreadable"] += 1
            left_out.update(troubles.left_out)
            problems += _problems(f"{one.agent}:{one.id}", taken, troubles)
            if isinstance(taken, ImportResult) and taken.state in ("new", "renewed"):
                sessions.append(taken.session)
            _progress(f"imported {number:,} of {len(new):,}", options)
        asyncio.run(index_imported(config, lambda done, total: _progress(f"indexed {done:,} of {total:,}", options)))
    except StoreFailed as error:  # what was imported by then is told first
        failure = error
    _progress("", options)
    if not options.json:
        made = pluralize(states["new"] + states["renewed"], "session")
        again = f", {states['renewed']:,} of them anew" if states["renewed"] else ""
        empty = f"; {states['empty']:,} in which nothing was said" if states["empty"] else ""
        omitted = f"; left out: {counts_line(left_out)}" if left_out else ""
        print(f"imported {made}{again}{empty}{omitted}")
        if sessions:
            print(
                f"`ebb -r {sessions[-1]}` goes on with the newest; `/sessions` and `ebb sessions list --all` show all"
            )
        for problem in problems:
            _warn(problem)
    if failure is not None:
        raise failure
    return {"states": states, "sessions": sessions, "problems": problems, "left_out": left_out}


def _problems(label: str, taken: ImportResult | str, troubles: ImportProblems) -> list[str]:
    """Messages about a conversation that was skipped or imported in part."""
    if isinstance(taken, str):
        return [f"{label} was left out: {taken}"]
    if taken.state == "open":
        return [f"{label} was left out: its session {taken.session} is open in another program"]
    return [f"{label} is imported without all of it: {troubles.line}"] if troubles.line else []


def _remove(config: Config, agents: Sequence[AgentName], options: argparse.Namespace) -> int:
    if not (options.yes or confirm(_DELETE, as_json=options.json)):
        print("nothing was removed; `--yes` removes them without a question")
        return 0
    removed, stayed = asyncio.run(remove_imported(config, agents))
    if options.json:
        print_json(sys.stdout, {"removed": removed, "stayed": stayed})
    else:
        stay = f"; these stay, since they are open or were gone on with: {', '.join(stayed)}" if stayed else ""
        print(f"removed {pluralize(removed, 'imported session')}{stay}")
    return 0


def _progress(text: str, options: argparse.Namespace) -> None:
    if sys.stderr.isatty() and not options.json:
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _warn(text: str) -> None:
    if text:
        print(f"ebb: {sanitised_line(text)}", file=sys.stderr)
