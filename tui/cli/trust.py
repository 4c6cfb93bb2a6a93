"""`ebb trust`: lists what a project ships, and approves, refuses or forgets it."""

import sys
from collections.abc import Iterable, Mapping, Sequence

from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.extensions.agent_files import find_agents
from ebbtide.agent.extensions.custom_commands import find_commands
from ebbtide.agent.extensions.skills import find_skills
from ebbtide.agent.extensions.trust import FolderTrust, TrustItem
from ebbtide.agent.extensions.trust_question import folder_question
from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.hooks.declarations import declared_hooks
from ebbtide.agent.lsp.find import language_server_items
from ebbtide.agent.mcp.approvals import item_of
from ebbtide.agent.mcp.declarations import DeclaredServer, UnusableServer, declared_servers
from ebbtide.tools.files.endings import endings_in
from ebbtide.tui.cli.arguments import confirm, environment_of, parse_subcommand_args, parser_of, read_settings
from ebbtide.tui.text.sanitise import sanitised, sanitised_line


def run(arguments: Sequence[str]) -> int:
    """Run `ebb trust list|approve|refuse|forget`; return the exit code. Raises `AgentError`."""
    parser = parser_of(
        "trust",
        "What this project brings (skills, commands, agents, hooks, servers), and what of it you have approved. "
        "`approve` shows all that would be used, and asks. What is forgotten is asked about again.",
    )
    parser.add_argument("action", nargs="?", choices=("list", "approve", "refuse", "forget"), default="list")
    parser.add_argument("names", nargs="*", metavar="KIND:NAME", help="as the list names them; without one, all of it")
    parser.add_argument("--yes", action="store_true", help="approve what is shown without a question")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings(options)
    trust = FolderTrust(config)
    items = {item.key: item for item in _project_items(config)}
    match options.action:
        case "approve":
            chosen = [items[key] for key in _selected_keys(items, options.names) if trust.standing(items[key]) != "on"]
            if chosen and not options.json:
                print(sanitised(folder_question([(item, trust.before(item)) for item in chosen])))
            if chosen and not (options.yes or confirm("Approve it?", as_json=options.json)):
                raise UsageError("nothing was approved: say yes in a terminal, or give `--yes`")
            trust.decide(chosen, "approved")
        case "refuse":
            trust.decide([items[key] for key in _selected_keys(items, options.names)], "refused")
        case "forget":
            trust.forget(_selected_keys(trust.decisions, options.names))
    rows = [*_rows(trust, items)]
    if options.json:
        print_json(sys.stdout, {"project": str(config.project), "brings": rows})
        return 0
    for row in rows:
        print(sanitised_line(f"{row['standing']:<12}  {row['name']:<28}  {row['source']}"))
    if not rows:
        print("this folder brings nothing that would have to be approved")
    return 0


def _project_items(config: Config) -> Iterable[TrustItem]:
    """Everything that the project ships. Reasons for skipped items are printed."""
    (skills, of_skills), (commands, of_commands) = find_skills(config), find_commands(config)
    (agents, of_agents), hooks = find_agents(config), declared_hooks(config)
    environment = environment_of(config)
    servers = declared_servers(config, environment)
    unusable = (
        one.line for one in servers if isinstance(one, UnusableServer) and one.owner == "project" and not one.is_off
    )
    for problem in (*of_skills, *of_commands, *of_agents, *hooks.problems, *unusable):
        print(f"ebb: {sanitised_line(problem)}", file=sys.stderr)
    language_servers = language_server_items(config, config.folder, environment, endings_in(config.project))
    found = (
        *(skill.item for skill in skills),
        *(command.item for command in commands),
        *(agent.item for agent in agents),
        *(hook.file.item for hook in hooks.hooks if hook.file is not None and hook.owner == "project"),
        *(item_of(one) for one in servers if isinstance(one, DeclaredServer)),
        *(language_servers if config.lsp_enabled else ()),
    )
    return (item for item in found if item.owner == "project")


def _selected_keys(known: Mapping[str, object], names: Sequence[str]) -> list[str]:
    """The keys of the named items; without names, of all. Raises `UsageError`."""
    for name in names:
        if name not in known:
            raise UsageError(f"`{name}` is none of what `ebb trust` lists: write KIND:NAME as it does")
    return list(names or known)


def _rows(trust: FolderTrust, items: Mapping[str, TrustItem]) -> Iterable[dict[str, str]]:
    """Rows for existing items, and for decisions about items that are gone."""
    for key, item in items.items():
        standing = trust.standing(item)
        yield {"name": key, "standing": "approved" if standing == "on" else standing, "source": item.source}
    for key, decided in trust.decisions.items():
        if key not in items:
            yield {"name": key, "standing": decided.verdict, "source": decided.source}
