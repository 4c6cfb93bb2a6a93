"""`ebb mcp import`: shows other programs' MCP servers and adds those that the user chooses."""

import argparse
import os
import sys
from collections.abc import Sequence

from ebbtide.agent.config.values import Config
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.integrations.imports.agent_folders import find_agent_folders
from ebbtide.agent.integrations.imports.servers import (
    ImportableServer,
    find_importable_servers,
    import_problem,
    select_servers,
    write_imported_server,
)
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from ebbtide.tui.cli.arguments import create_subcommand_parser, parse_subcommand_args, read_settings
from ebbtide.tui.text.sanitise import sanitise_line

_SOURCES = ("vscode", "cursor", "codex", "claude", "claude-desktop", "opencode", "gemini")


def run(arguments: Sequence[str]) -> int:
    """Run `ebb mcp import`; return the exit code. It is 0 even if some servers could not be added; the output names
    them."""
    parser = create_subcommand_parser(
        "mcp import",
        "Show the MCP servers configured in VS Code, Cursor, Codex, Claude, opencode and Gemini, and add those you "
        "choose. No server is started.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="server to add: its name, AGENT:NAME, or its number in the list"
    )
    parser.add_argument("--all", action="store_true", help="add every usable server")
    parser.add_argument("--from", dest="source", choices=_SOURCES, help="show only servers of this program")
    to_help = "add to your configuration (user), or to this project's `.mcp.json`, where each server needs approval"
    parser.add_argument("--to", choices=("user", "project"), default="user", help=to_help)
    parser.add_argument("--dry-run", action="store_true", help="show what would be added, and exit")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings(options)
    servers, problems = find_importable_servers(find_agent_folders(os.environ), config)
    servers = [server for server in servers if options.source in (None, server.agent)]
    if not options.json:
        print_servers(servers)
        if not servers:
            print("no MCP servers of other programs found")
    for problem in problems:
        print(f"ebb: {sanitise_line(problem)}", file=sys.stderr)
    chosen_servers = (
        list(servers) if options.all else select_servers(servers, options.names or _ask_for_servers(servers, options))
    )
    added_names, skipped = write_servers(
        chosen_servers,
        config,
        is_for_project=options.to == "project",
        is_dry_run=options.dry_run,
        is_quiet=options.json,
    )
    if options.json:
        print_json(
            sys.stdout,
            {
                "servers": [_server_json(server) for server in servers],
                "written": added_names,
                "left": skipped,
                "problems": problems,
            },
        )
    elif servers and not chosen_servers:
        print("nothing added; name the servers to add, or use `--all`")
    return 0


def print_servers(servers: Sequence[ImportableServer]) -> None:
    """Print each server and what it starts, with secrets removed."""
    for number, server in enumerate(servers, 1):
        print(sanitise_line(f"{number:>3}  {server.name:<20}  {server.agent:<14}  {server.target or '-'}"))
        print(sanitise_line(f"     in {server.source}"))
        names_by_verb = (("sets", server.configured_names), ("reads", server.referenced_variables))
        notes = [f"{verb} {', '.join(f'`{name}`' for name in names)}" for verb, names in names_by_verb if names]
        for note in (*notes, *server.notes, *([f"cannot be used: {server.problem}"] if server.problem else [])):
            print(sanitise_line(f"     {note}"))


def _ask_for_servers(servers: Sequence[ImportableServer], options: argparse.Namespace) -> list[str]:
    """Ask the user which servers to add. Returns their numbers or names."""
    if options.json or options.dry_run or not servers or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return []
    try:
        names = input("Add which? Names, numbers or `all`; Enter for none: ").replace(",", " ").split()
    except EOFError:
        return []
    return [str(number) for number in range(1, len(servers) + 1)] if names == ["all"] else names


def write_servers(
    servers: Sequence[ImportableServer],
    config: Config,
    *,
    is_for_project: bool = False,
    is_dry_run: bool = False,
    is_quiet: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """Add the servers and print the result, unless `is_quiet`. With `is_dry_run`, nothing is added. Returns the names
    of added servers, and the reasons why others were skipped."""
    name_by_prefix = {ServerSpec(name).prefix: name for name in config.mcp_servers}
    added_names, skipped = list[str](), dict[str, str]()
    for server in servers:
        problem = import_problem(server, name_by_prefix, into_project=is_for_project)
        message = f"skipped `{server.name}` of {server.agent}: {problem}"
        if problem:
            skipped[f"{server.agent}:{server.name}"] = problem
        elif is_dry_run:
            message = f"would add `{server.name}`"
        else:
            path = write_imported_server(server, config, into_project=is_for_project)
            message = f"added `{server.name}` to `{path}`; test it with `ebb mcp test {server.name}`"
        if not problem:
            name_by_prefix[ServerSpec(server.name).prefix] = server.name
            added_names.append(server.name)
        if not is_quiet:
            print(sanitise_line(message))
    return added_names, skipped


def _server_json(server: ImportableServer) -> dict[str, object]:
    return {
        "name": server.name,
        "agent": server.agent,
        "source": server.source,
        "target": server.target,
        "sets": server.configured_names,
        "reads": server.referenced_variables,
        "notes": server.notes,
        "problem": server.problem,
    }
