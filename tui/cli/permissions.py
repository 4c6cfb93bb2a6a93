"""`ebb permissions test`: shows whether a command or host would be allowed, and why. Nothing is run."""

import argparse
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ebbtide.agent.calls.command_rules import stays_in_workspace
from ebbtide.agent.calls.network_access import destination_ruling
from ebbtide.agent.calls.permission_request import PermissionRequest, build_permission_request
from ebbtide.agent.calls.policy import (
    Policy,
    Ruling,
    apply_hook_ruling,
    command_coverage,
    parse_rule,
    runs_unsandboxed,
    unsandboxed_variant,
)
from ebbtide.agent.calls.project_rules import ProjectRules
from ebbtide.agent.compose.settings import build_policy, choose_mode, no_sandbox_reason
from ebbtide.agent.config.options import PERMISSION_MODES
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.hooks.answers import HookRuling
from ebbtide.agent.hooks.claude_rules import load_claude_rules
from ebbtide.agent.hooks.tool_names import to_claude_calls
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.commands.approval_reasons import possible_side_effect
from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.dangers import find_dangers
from ebbtide.tools.commands.git_commands import find_uncovered_git_word, runs_without_repository_programs
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.here_documents import inline_here_documents
from ebbtide.tools.commands.launchers import find_wrapped_git_call
from ebbtide.tools.commands.proof import check_read_only
from ebbtide.tools.network.destinations import DEFAULT_PORTS, parse_destination
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.sandbox.system import sandbox_kind
from ebbtide.tui.cli.arguments import (
    create_subcommand_parser,
    first_positional_index,
    parse_subcommand_args,
    read_settings_with_warnings,
)
from ebbtide.tui.text.sanitise import sanitise_line

_SANDBOX_TEXTS = {
    "off": "it would run without a sandbox: `agent.sandbox` is off",
    "none": "it would run without a sandbox: none is available",
    "outside": "it would run outside the sandbox: one of your rules says so",
}
_EXIT_CODES = {"allow": 0, "ask": 1, "deny": 5}


def run(arguments: Sequence[str]) -> int:
    """Run `ebb permissions`; return the exit code, which depends on the decision."""
    action_index = first_positional_index(arguments)
    test_arguments = (
        [*arguments[:action_index], *arguments[action_index + 1 :]]
        if action_index is not None and arguments[action_index] == "test"
        else None
    )
    parser = create_subcommand_parser(
        "permissions test" if test_arguments is not None else "permissions",
        "Show whether a command or host would be allowed, and why. Nothing is run.",
        "Exit codes: 0 allowed, 1 would ask, 2 usage, 5 denied.",
    )
    if test_arguments is None:
        parser.add_argument("action", choices=("test",), help="`ebb permissions test COMMAND`")
        parse_subcommand_args(parser, arguments, "one JSON object")  # exits on `--help` or a wrong word
        raise UsageError("write `ebb permissions test COMMAND`")
    subject_group = parser.add_mutually_exclusive_group(required=True)
    subject_group.add_argument("command", metavar="COMMAND", nargs="?", help="command line to check, in quotes")
    subject_group.add_argument(
        "--host", metavar="HOST[:PORT]", help="check whether commands and web_fetch may reach this host"
    )
    parser.add_argument("--rules", metavar="FILE", help="use `allow` and `deny` of this TOML file instead of yours")
    parser.add_argument("--mode", choices=PERMISSION_MODES, help="use this mode instead of yours")
    options = parse_subcommand_args(parser, test_arguments, "one JSON object", has_one_word=True)
    return _test_command(options)


def _test_command(options: argparse.Namespace) -> int:
    folder, config = read_settings_with_warnings(options)
    root = folder.resolve()
    policy = replace(
        build_policy(config, root, options.mode or choose_mode(config, ""), root),
        sandbox_problem=no_sandbox_reason(config),
    )
    saved = ProjectRules(config.folders.config, root).read()
    if saved.problem and not options.rules:
        print(f"ebb: {sanitise_line(saved.problem)}", file=sys.stderr)
    policy = replace(policy, allow_rules=(*policy.allow_rules, *map(parse_rule, saved.allow)))
    if options.rules:
        policy = _with_rules_from_file(policy, Path(options.rules))
    if options.host is not None:
        return _test_host(options.host, policy, config.web_private, as_json=options.json)
    try:
        request = build_permission_request(Bash(), {"command": options.command}, _workspace(root, config), policy.mode)
        hook_ruling = None if options.rules else _claude_rules_ruling(config, options.command, root)
        ruling = apply_hook_ruling(request, policy, hook_ruling)
    except ToolError as error:
        request, ruling = PermissionRequest(Bash.name, "run", (options.command,)), Ruling("deny", str(error))
    sandbox_state = (
        "off" if config.sandbox == "off" else "outside" if runs_unsandboxed(request, policy) else sandbox_kind()
    )
    _print_decision(options, policy, request, ruling, sandbox_state)
    return _EXIT_CODES[ruling.verdict]


def _workspace(root: Path, config: Config) -> Workspace:
    """Create a workspace in which to decide about a command. Nothing runs in it."""
    return Workspace(root, root, sandbox=None if config.sandbox == "off" else Sandbox(root, root))


def _claude_rules_ruling(config: Config, command: str, root: Path) -> HookRuling | None:
    """Apply the permission rules in Claude Code's settings; None if no rule matches."""
    claude_calls = to_claude_calls(ToolCall("", Bash.name, {"command": command}), str(root))
    return load_claude_rules(config).decide_call(claude_calls, str(root), str(config.project_folder))


def _test_host(host: str, policy: Policy, private_hosts: Sequence[str], *, as_json: bool) -> int:
    try:
        destination = parse_destination(host, DEFAULT_PORTS[-1])
    except ValueError as error:
        raise UsageError(f"`{host}` is not a host: {error}") from error
    ruling = destination_ruling(destination, policy, private_hosts)
    if as_json:
        print_json(sys.stdout, {"decision": ruling.verdict, "why": ruling.decided_by, "place": str(destination)})
    else:
        print(sanitise_line(f"{ruling.verdict}: {ruling.decided_by}"))
    return _EXIT_CODES[ruling.verdict]


def _with_rules_from_file(policy: Policy, file: Path) -> Policy:
    """Replace the policy's rules with those from a file. Raises `UsageError`."""
    try:
        document: Mapping[str, object] = tomllib.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"cannot read the rules `{file}`: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"the rules `{file}` are not TOML: {error}") from error
    table = document.get("permissions", document)
    rules_by_name = {name: table.get(name, []) if isinstance(table, dict) else None for name in ("allow", "deny")}
    for name, rules in rules_by_name.items():
        if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
            raise UsageError(f'`{name}` in `{file}` must be a list of rules, such as ["bash(git status)"]')
    allow, deny = (tuple(map(parse_rule, rules_by_name[name] or ())) for name in ("allow", "deny"))
    return replace(policy, allow_rules=allow, deny_rules=deny)


def _uncovered_commands(request: PermissionRequest, policy: Policy) -> list[str]:
    """List the commands in a command line that no rule matches. Each is in backticks, followed by the word (if any)
    that keeps a prefix rule from matching. Empty if there are no prefix rules."""
    coverages = command_coverage(request, policy)
    descriptions: list[str] = []
    prefixes = [rule.words for rule in policy.allow_rules if rule.tool == request.tool and rule.words]
    for command in (coverage.command for coverage in coverages if coverage.prefix is None and prefixes):
        words = find_wrapped_git_call(command.words) or command.words
        texts = [word.text for word in words]
        matching_prefixes = [prefix for prefix in prefixes if texts[: len(prefix)] == prefix]
        descriptions.append(f"`{' '.join(command.texts)}`{_uncovered_reason(words) if matching_prefixes else ''}")
    return descriptions


def _uncovered_reason(words: Sequence[Word]) -> str:
    """Explain which word keeps a prefix rule from matching and, if known, why."""
    uncovered_word = find_uncovered_git_word(words) if words[0].text == "git" else None
    proof = check_read_only(words, has_input=True)
    word_index, reason = uncovered_word or (0, "")
    uncovered_text = f": `{words[word_index].text}` {reason}" if uncovered_word is not None else ""
    if uncovered_word is not None and (
        proof is None or proof.last_unproved_index is None or not runs_without_repository_programs(words)
    ):
        return uncovered_text
    unproved_word = (
        words[proof.last_unproved_index].text if proof is not None and proof.last_unproved_index is not None else ""
    )
    if not unproved_word:
        return ""
    return f", because of `{unproved_word}`{uncovered_text}"


def _possible_side_effects(command: str, request: PermissionRequest, policy: Policy) -> list[str]:
    """List the reasons why a command that looks read-only might not be."""
    if request.read_only_access is not None and request.read_only_access.paths != ("/",):
        return []
    root = Path(policy.root)
    try:
        Bash().read_only_access({"command": command}, Workspace(root, root))
    except ToolError as error:
        return [f"not known to be read-only: {error}"]
    side_effects = (
        (parsed_command.texts, possible_side_effect(parsed_command.texts))
        for parsed_command in parse_command_line(inline_here_documents(command)).commands
    )
    return [f"`{' '.join(texts)}` {side_effect}" for texts, side_effect in side_effects if side_effect]


def _sandboxed_reason(request: PermissionRequest, policy: Policy) -> str:
    """Explain why the line stays in the sandbox although an `outside` rule matches part of it. Empty if no `outside`
    rule matches."""
    unsandboxed_request, unsandboxed_policy = unsandboxed_variant(request, policy)
    coverages = command_coverage(unsandboxed_request, unsandboxed_policy)
    uncovered = [f"`{' '.join(coverage.command.texts)}`" for coverage in coverages if coverage.prefix is None]
    is_partly_covered = any(coverage.prefix for coverage in coverages)
    return (
        f"it stays in the sandbox: no `outside` rule covers {' and '.join(uncovered)}"
        if is_partly_covered and uncovered
        else ""
    )


def _print_decision(
    options: argparse.Namespace, policy: Policy, request: PermissionRequest, ruling: Ruling, sandbox_state: str
) -> None:
    line = parse_command_line(inline_here_documents(options.command))
    dangers = find_dangers(options.command, policy.root)
    is_read_only = request.read_only_access is not None and request.read_only_access.paths != ("/",)
    if options.json:
        facts = {
            "decision": ruling.verdict,
            "why": ruling.decided_by,
            "mode": policy.mode,
            "sandbox": sandbox_state,
            "only_looks": is_read_only,
            "not_plain": line.problem,
            "uncovered": _uncovered_commands(request, policy),
            "commands": [list(command.texts) for command in line.commands],
            "files": list(request.read_only_access.paths)
            if request.read_only_access is not None and is_read_only
            else [],
            "dangers": [asdict(danger) for danger in dangers],
            "doubts": _possible_side_effects(options.command, request, policy),
        }
        print_json(sys.stdout, facts)
        return
    print(sanitise_line(f"{ruling.verdict}: {ruling.decided_by}"))
    if ruling.verdict != "deny":
        print(_SANDBOX_TEXTS.get(sandbox_state, f"it would run in a sandbox ({sandbox_state})"))
    if sandbox_state not in _SANDBOX_TEXTS and (reason := _sandboxed_reason(request, policy)):
        print(sanitise_line(reason))
    if is_read_only:
        print(
            "it can only look: you are asked if it needs more"
            if request.runs_in_read_only_sandbox
            else "known to be read-only"
        )
    for side_effect in _possible_side_effects(options.command, request, policy) if ruling.verdict != "allow" else ():
        print(sanitise_line(side_effect))
    if line.problem:
        print(sanitise_line(f"prefix rules do not apply: {line.problem}"))
    for command in _uncovered_commands(request, policy) if ruling.verdict == "ask" else ():
        print(sanitise_line(f"no rule covers {command}"))
    if ruling.verdict == "ask" and not line.problem and not stays_in_workspace(options.command, policy.root):
        print("no rule covers `cd` here: its target may be outside the project or in another repository")
    for danger in dangers:
        print(sanitise_line(f"dangerous: `{options.command[danger.start : danger.end]}` {danger.why}"))
