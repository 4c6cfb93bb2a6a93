"""`ebb hooks`: lists the hooks that sessions in this folder use, where they come from and whether they are approved."""

import sys
from collections.abc import Sequence

from ebbtide.agent.extensions.trust import ProjectTrust
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.hooks.approval import hook_trust_state, user_hook_trust
from ebbtide.agent.hooks.declarations import collect_hooks
from ebbtide.tui import commands
from ebbtide.tui.cli.arguments import create_subcommand_parser, parse_subcommand_args, read_settings
from ebbtide.tui.text.sanitise import sanitise_line


def run(arguments: Sequence[str]) -> int:
    """Run `ebb hooks`; return the exit code. Raises `AgentError`."""
    parser = create_subcommand_parser(
        "hooks", "List your hooks: programs and MCP servers that run on events and can veto them."
    )
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    _, config = read_settings(options)
    declarations, project_trust, user_trust = collect_hooks(config), ProjectTrust(config), user_hook_trust(config)
    if options.json:
        rows = [
            {
                "event": hook.event,
                "matcher": hook.entry.matcher,
                "if": hook.entry.condition,
                "does": hook.entry.action_text,
                "timeout": hook.timeout,
                "owner": hook.owner,
                "source": hook.declared_in,
                "standing": hook_trust_state(hook, project_trust, user_trust),
            }
            for hook in declarations.hooks
        ]
        after_tool_rows = [
            {"match": after_tool_hook.match, "command": after_tool_hook.command}
            for after_tool_hook in config.hooks_after_tool
        ]
        print_json(sys.stdout, {"hooks": rows, "after_tool": after_tool_rows, "problems": declarations.problems})
        return 0
    for hook in declarations.hooks:
        trust_state = hook_trust_state(hook, project_trust, user_trust)
        state_text = "" if trust_state == "on" else f", {trust_state}"
        print(sanitise_line(f"{hook.entry.summary}  [{hook.owner}, {hook.declared_in}{state_text}]"))
    for after_tool_hook in config.hooks_after_tool:
        print(sanitise_line(f"hooks.after_tool ({after_tool_hook.match}): {after_tool_hook.command_line}"))
    for problem in declarations.problems:
        print(f"ebb: {sanitise_line(problem)}", file=sys.stderr)
    if not (declarations.hooks or config.hooks_after_tool or declarations.problems):
        print(commands.extensions.NO_HOOKS.replace("`", ""))
    return 0
