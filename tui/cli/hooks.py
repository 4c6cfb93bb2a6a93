"""`ebb hooks`: the hooks of a session in this folder, their sources and approval."""

import sys
from collections.abc import Sequence

from ebbtide.agent.extensions.trust import ProjectTrust
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.hooks.approval import hook_standing, user_hook_trust
from ebbtide.agent.hooks.declarations import collect_hooks
from ebbtide.tui.cli.arguments import parse_subcommand_args, read_settings, subcommand_parser
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.view.extensions import NO_HOOKS


def run(arguments: Sequence[str]) -> int:
    """Run `ebb hooks`; return the exit code. Raises `AgentError`."""
    parser = subcommand_parser(
        "hooks", "List your hooks: programs and MCP servers that run on events and can veto them."
    )
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings(options)
    declared, of_project, of_user = collect_hooks(config), ProjectTrust(config), user_hook_trust(config)
    if options.json:
        rows = [
            {
                "event": hook.event,
                "matcher": hook.entry.matcher,
                "if": hook.entry.condition,
                "does": hook.entry.action_text,
                "timeout": hook.timeout,
                "owner": hook.owner,
                "source": hook.source,
                "standing": hook_standing(hook, of_project, of_user),
            }
            for hook in declared.hooks
        ]
        after = [{"match": each.match, "command": each.command} for each in config.hooks_after_tool]
        print_json(sys.stdout, {"hooks": rows, "after_tool": after, "problems": declared.problems})
        return 0
    for hook in declared.hooks:
        state = hook_standing(hook, of_project, of_user)
        print(
            sanitised_line(
                f"{hook.entry.summary}  [{hook.owner}, {hook.source}{'' if state == 'on' else f', {state}'}]"
            )
        )
    for each in config.hooks_after_tool:
        print(sanitised_line(f"hooks.after_tool ({each.match}): {each.command_line}"))
    for problem in declared.problems:
        print(f"ebb: {sanitised_line(problem)}", file=sys.stderr)
    if not (declared.hooks or config.hooks_after_tool or declared.problems):
        print(NO_HOOKS.replace("`", ""))
    return 0
