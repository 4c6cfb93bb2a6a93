"""`ebb trust`: lists what a project ships, and approves, refuses or forgets items."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, cast

from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.extensions.agent_files import find_agents
from ebbtide.agent.extensions.custom_commands import find_custom_commands
from ebbtide.agent.extensions.skills import find_skills
from ebbtide.agent.extensions.trust import ProjectTrust, TrustItem
from ebbtide.agent.extensions.trust_question import build_project_question
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.hooks.declarations import collect_hooks
from ebbtide.agent.integration_registry import TRUST_ITEMS, load_integration
from ebbtide.tui.cli.arguments import (
    confirm,
    create_subcommand_parser,
    environment_with_keys,
    parse_subcommand_args,
    read_settings,
)
from ebbtide.tui.text.sanitise import sanitise, sanitise_line

FindProjectItems: TypeAlias = Callable[[Config, Mapping[str, str]], tuple[Sequence[TrustItem], Sequence[str]]]
"""Finds the items to approve. Also returns the reasons why others were skipped."""


def run(arguments: Sequence[str]) -> int:
    """Run `ebb trust list|approve|refuse|forget`; return the exit code. Raises `AgentError`."""
    parser = create_subcommand_parser(
        "trust",
        "Review what this project ships: skills, commands, agents, hooks and MCP servers. `approve` shows everything "
        "that would be used, and asks. `forget` deletes your decision, so you are asked again.",
    )
    parser.add_argument("action", nargs="?", choices=("list", "approve", "refuse", "forget"), default="list")
    parser.add_argument("names", nargs="*", metavar="KIND:NAME", help="items as in the list (default: all)")
    parser.add_argument("--yes", action="store_true", help="approve without asking")
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings(options)
    trust = ProjectTrust(config)
    items = {item.key: item for item in _project_items(config)}
    match options.action:
        case "approve":
            items_to_approve = [
                items[key] for key in _selected_keys(items, options.names) if trust.trust_state(items[key]) != "on"
            ]
            if items_to_approve and not options.json:
                print(
                    sanitise(
                        build_project_question([(item, trust.previous_approval(item)) for item in items_to_approve])
                    )
                )
            if items_to_approve and not (options.yes or confirm("Approve it?", as_json=options.json)):
                raise UsageError("nothing approved; confirm in a terminal, or use `--yes`")
            trust.decide(items_to_approve, "approved")
        case "refuse":
            trust.decide([items[key] for key in _selected_keys(items, options.names)], "refused")
        case "forget":
            trust.forget(_selected_keys(trust.records, options.names))
    rows = [*_rows(trust, items)]
    if options.json:
        print_json(sys.stdout, {"project": str(config.project_folder), "brings": rows})
        return 0
    for row in rows:
        print(sanitise_line(f"{row['standing']:<12}  {row['name']:<28}  {row['source']}"))
    if not rows:
        print("nothing to approve in this project")
    return 0


def _project_items(config: Config) -> Iterable[TrustItem]:
    """Find everything that the project ships, and print why items were skipped."""
    (skills, skill_problems), (commands, command_problems) = find_skills(config), find_custom_commands(config)
    (agents, agent_problems), hooks = find_agents(config), collect_hooks(config)
    environment = environment_with_keys(config)
    integration_items = [
        cast(FindProjectItems, load_integration(target))(config, environment) for target in TRUST_ITEMS.values()
    ]
    integration_problems = (message for _, messages in integration_items for message in messages)
    for problem in (*skill_problems, *command_problems, *agent_problems, *hooks.problems, *integration_problems):
        print(f"ebb: {sanitise_line(problem)}", file=sys.stderr)
    all_items = (
        *(skill.trust_item for skill in skills),
        *(command.trust_item for command in commands),
        *(agent.trust_item for agent in agents),
        *(hook.hook_file.trust_item for hook in hooks.hooks if hook.hook_file is not None and hook.owner == "project"),
        *(item for items, _ in integration_items for item in items),
    )
    return (item for item in all_items if item.owner == "project")


def _selected_keys(available: Mapping[str, object], names: Sequence[str]) -> list[str]:
    """Get the keys of the named items, or of all items if no names are given. Raises `UsageError`."""
    for name in names:
        if name not in available:
            raise UsageError(f"`{name}` is not listed; write KIND:NAME as in `ebb trust`")
    return list(names or available)


def _rows(trust: ProjectTrust, items: Mapping[str, TrustItem]) -> Iterable[dict[str, str]]:
    """Yield a row for each existing item, and for each decision about an item that no longer exists."""
    for key, item in items.items():
        trust_state = trust.trust_state(item)
        yield {"name": key, "standing": "approved" if trust_state == "on" else trust_state, "source": item.source}
    for key, decision in trust.records.items():
        if key not in items:
            yield {"name": key, "standing": decision.verdict, "source": decision.source}
