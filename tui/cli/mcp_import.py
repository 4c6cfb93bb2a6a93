"""`ebb mcp import`: shows the servers of other programs and adds those that are chosen."""

import argparse
import os
import sys
from collections.abc import Sequence

from ebbtide.agent.config.values import Config
from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.imports.agent_folders import agent_folders
from ebbtide.agent.imports.servers import ServerOffer, chosen_offers, server_offers, why_not, write_offer
from ebbtide.tools.mcp.spec import ServerSpec
from ebbtide.tui.cli.arguments import parse_subcommand_args, parser_of, read_settings
from ebbtide.tui.text.sanitise import sanitised_line

_SOURCES = ("vscode", "cursor", "codex", "claude", "claude-desktop", "opencode", "gemini")


def run(arguments: Sequence[str]) -> int:
    """Run `ebb mcp import`; return the exit code, 0 even if some servers could not be added (each is named)."""
    parser = parser_of(
        "mcp import",
        "Shows the servers that VS Code, Cursor, Codex, Claude, opencode and Gemini know, and writes down those that "
        "are chosen. None is started.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a server, AGENT:NAME, or its number in the list")
    parser.add_argument("--all", action="store_true", help="every one that can be used")
    parser.add_argument("--from", dest="source", choices=_SOURCES, help="only those of one program")
    into = "your configuration (user), or this project's `.mcp.json`, where each is asked about before it starts"
    parser.add_argument("--to", choices=("user", "project"), default="user", help=into)
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings(options)
    offers, problems = server_offers(agent_folders(os.environ), config)
    offers = [one for one in offers if options.source in (None, one.agent)]
    if not options.json:
        show_servers(offers)
        if not offers:
            print("no other program on this machine has servers configured")
    for problem in problems:
        print(f"ebb: {sanitised_line(problem)}", file=sys.stderr)
    chosen = list(offers) if options.all else chosen_offers(offers, options.names or _ask_which(offers, options))
    written, left = write_servers(
        chosen, config, into_project=options.to == "project", tries=options.dry_run, quiet=options.json
    )
    if options.json:
        print_json(
            sys.stdout,
            {"servers": [_row(one) for one in offers], "written": written, "left": left, "problems": problems},
        )
    elif offers and not chosen:
        print("nothing was written; name those that you want, or `--all`")
    return 0


def show_servers(offers: Sequence[ServerOffer]) -> None:
    """Print what each server is and what it starts, without secrets."""
    for number, one in enumerate(offers, 1):
        print(sanitised_line(f"{number:>3}  {one.name:<20}  {one.agent:<14}  {one.target or '-'}"))
        print(sanitised_line(f"     in {one.source}"))
        told = (("sets", one.sets), ("reads", one.reads))
        notes = [f"{word} {', '.join(f'`{name}`' for name in names)}" for word, names in told if names]
        for note in (*notes, *one.notes, *([f"cannot be used: {one.problem}"] if one.problem else [])):
            print(sanitised_line(f"     {note}"))


def _ask_which(offers: Sequence[ServerOffer], options: argparse.Namespace) -> list[str]:
    """Ask which servers to add."""
    if options.json or options.dry_run or not offers or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return []
    try:
        said = input("Which? Names or numbers, `all`, or Enter for none: ").replace(",", " ").split()
    except EOFError:
        return []
    return [str(number) for number in range(1, len(offers) + 1)] if said == ["all"] else said


def write_servers(
    chosen: Sequence[ServerOffer],
    config: Config,
    *,
    into_project: bool = False,
    tries: bool = False,
    quiet: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """Add the servers, and report it unless `quiet` or `tries` (dry run). Return the names added, and why others
    were not."""
    taken = {ServerSpec(name).prefix: name for name in config.servers}
    written, left = list[str](), dict[str, str]()
    for one in chosen:
        why = why_not(one, taken, into_project=into_project)
        said = f"left out `{one.name}` of {one.agent}: {why}"
        if why:
            left[f"{one.agent}:{one.name}"] = why
        elif tries:
            said = f"would add `{one.name}`"
        else:
            path = write_offer(one, config, into_project=into_project)
            said = f"added `{one.name}` to `{path}`; `ebb mcp test {one.name}` tries it"
        if not why:
            taken[ServerSpec(one.name).prefix] = one.name
            written.append(one.name)
        if not quiet:
            print(sanitised_line(said))
    return written, left


def _row(one: ServerOffer) -> dict[str, object]:
    return {
        "name": one.name,
        "agent": one.agent,
        "source": one.source,
        "target": one.target,
        "sets": one.sets,
        "reads": one.reads,
        "notes": one.notes,
        "problem": one.problem,
    }
