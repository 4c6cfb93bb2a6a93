"""`ebb permissions test`: shows the decision about a command and why, without running it."""

import argparse
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ebbtide.agent.calls.command_rules import stays_in_workspace
from ebbtide.agent.calls.hook_rulings import apply_hook_decision, rule_decision
from ebbtide.agent.calls.permission_request import PermissionRequest, request_for
from ebbtide.agent.calls.policy import (
    Policy,
    Ruling,
    covered_by_rules,
    parse_rule,
    runs_unsandboxed,
    with_resolved_paths,
)
from ebbtide.agent.calls.project_rules import ProjectRules
from ebbtide.agent.calls.reach import ruling_on
from ebbtide.agent.config.options import MODES
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.hooks.claude_rules import ClaudeRuling, claude_rules
from ebbtide.agent.hooks.tool_names import views_of
from ebbtide.agent.messages import ToolCall
from ebbtide.agent.session_settings import mode_of, no_sandbox_reason, policy_of
from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.dangers import dangers_in
from ebbtide.tools.commands.doubts import doubt_about_look
from ebbtide.tools.commands.git_commands import git_doubt, is_git_look
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.here_documents import without_here_documents
from ebbtide.tools.commands.launchers import git_behind
from ebbtide.tools.commands.proof import check_read_only
from ebbtide.tools.network.places import USUAL, place_of
from ebbtide.tools.sandbox.system import sandbox_kind
from ebbtide.tui.cli.arguments import first_word, parse_subcommand_args, parser_of, read_settings_with_warnings
from ebbtide.tui.text.sanitise import sanitised_line

_PLACES = {
    "off": "it would run without a sandbox, as `agent.sandbox` says",
    "none": "it would run without a sandbox, since there is none here",
    "outside": "it would run outside the sandbox, by a rule of yours",
}
_CODES = {"allow": 0, "ask": 1, "deny": 5}


def run(arguments: Sequence[str]) -> int:
    """Run `ebb permissions`; the exit code is the decision."""
    first = first_word(arguments)
    rest = [*arguments[:first], *arguments[first + 1 :]] if first is not None and arguments[first] == "test" else None
    parser = parser_of(
        "permissions test" if rest is not None else "permissions",
        "Says what would be decided about a command or a host, and why, as in the terminal. Nothing is run.",
        "Exit codes: 0 it would run, 1 it would be asked about, 2 usage, 5 it would be denied.",
    )
    if rest is None:
        parser.add_argument("action", choices=("test",), help="`ebb permissions test COMMAND`")
        parse_subcommand_args(parser, arguments, "one JSON object")  # ends here with `--help` or a wrong word
        raise UsageError("write `ebb permissions test COMMAND`")
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("command", metavar="COMMAND", nargs="?", help="a command line, in one word: quote it")
    wanted.add_argument("--host", metavar="HOST[:PORT]", help="what commands and web_fetch want to reach")
    parser.add_argument("--rules", metavar="FILE", help="`allow` and `deny` of this TOML file, in place of yours")
    parser.add_argument("--mode", choices=MODES, help="another mode than yours")
    options = parse_subcommand_args(parser, rest, "one JSON object", has_one_word=True)
    return _test(options)


def _test(options: argparse.Namespace) -> int:
    folder, config = read_settings_with_warnings(options)
    root = folder.resolve()
    policy = replace(
        policy_of(config, root, options.mode or mode_of(config, ""), root), sandbox_problem=no_sandbox_reason(config)
    )
    kept = ProjectRules(config.folders.config, root).read()
    if kept.problem and not options.rules:
        print(f"ebb: {sanitised_line(kept.problem)}", file=sys.stderr)
    policy = replace(policy, allow=(*policy.allow, *map(parse_rule, kept.allow)))
    if options.rules:
        policy = _with_rules(policy, Path(options.rules))
    if options.host is not None:
        return _test_host(options.host, policy, config.web_private, as_json=options.json)
    try:
        asked = request_for(Bash(), {"command": options.command}, Workspace(root, root), policy.mode)
        said = None if options.rules else _of_claude(config, options.command, root)
        ruling = apply_hook_decision(asked, policy, rule_decision(said))
    except ToolError as error:
        asked, ruling = PermissionRequest("bash", "run", (options.command,)), Ruling("deny", str(error))
    place = "off" if config.sandbox == "off" else "outside" if runs_unsandboxed(asked, policy) else sandbox_kind()
    _print(options, policy, asked, ruling, place)
    return _CODES[ruling.verdict]


def _of_claude(config: Config, command: str, root: Path) -> ClaudeRuling | None:
    """The matching rules from Claude Code's files."""
    views = views_of(ToolCall("", "bash", {"command": command}), str(root))
    return claude_rules(config).ruling(views, str(root), str(config.project))


def _test_host(host: str, policy: Policy, private: Sequence[str], *, as_json: bool) -> int:
    try:
        place = place_of(host, USUAL[-1])
    except ValueError as error:
        raise UsageError(f"`{host}` is no host: {error}") from error
    ruling = ruling_on(place, policy, private)
    if as_json:
        print_json(sys.stdout, {"decision": ruling.verdict, "why": ruling.rule, "place": str(place)})
    else:
        print(sanitised_line(f"{ruling.verdict}: {ruling.rule}"))
    return _CODES[ruling.verdict]


def _with_rules(policy: Policy, file: Path) -> Policy:
    """The policy with only the rules of a file. Raises `UsageError`."""
    try:
        found: Mapping[str, object] = tomllib.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"cannot read the rules `{file}`: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"the rules `{file}` are not TOML: {error}") from error
    table = found.get("permissions", found)
    listed = {name: table.get(name, []) if isinstance(table, dict) else None for name in ("allow", "deny")}
    for name, rules in listed.items():
        if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
            raise UsageError(f'`{name}` in `{file}` must be a list of rules, such as ["bash(git status)"]')
    allow, deny = (tuple(map(parse_rule, listed[name] or ())) for name in ("allow", "deny"))
    return replace(policy, allow=allow, deny=deny)


def _uncovered_commands(asked: PermissionRequest, policy: Policy) -> list[str]:
    """The commands of a line that no rule matches, in backticks, each with the word that keeps a prefix rule from
    matching; empty if there is no such rule."""
    covered, found = covered_by_rules(asked, policy), list[str]()
    beginnings = [rule.words for rule in policy.allow if rule.tool == asked.tool and rule.words]
    for command in (one.command for one in covered if one.prefix is None and beginnings):
        words = git_behind(command.words) or command.words
        texts = [word.text for word in words]
        begun = [rule for rule in beginnings if texts[: len(rule)] == rule]
        found.append(f"`{' '.join(command.texts)}`{_why_uncovered(words) if begun else ''}")
    return found


def _why_uncovered(words: Sequence[Word]) -> str:
    """The word that keeps a prefix rule from matching, and why if known."""
    doubt = git_doubt(words) if words[0].text == "git" else None
    proof = check_read_only(words, is_fed=True)
    if doubt is not None and (proof is None or proof.beyond is None or not is_git_look(words)):
        at, why = doubt
        return f": `{words[at].text}` {why}"
    beyond = words[proof.beyond].text if proof is not None and proof.beyond is not None else ""
    if not beyond:
        return ""
    return f", because of `{beyond}`" + (f": `{words[doubt[0]].text}` {doubt[1]}" if doubt is not None else "")


def _doubts(command: str, asked: PermissionRequest, policy: Policy) -> list[str]:
    """Why a command that looks read-only is not known to be."""
    if asked.read_only is not None and asked.read_only.paths != ("/",):
        return []
    root = Path(policy.root)
    try:
        Bash().read_only_access({"command": command}, Workspace(root, root))
    except ToolError as error:
        return [f"it is not proved to only look: {error}"]
    found = (
        (one.texts, doubt_about_look(one.texts)) for one in parse_command_line(without_here_documents(command)).commands
    )
    return [f"`{' '.join(texts)}` {doubt}" for texts, doubt in found if doubt]


def _why_sandboxed(asked: PermissionRequest, policy: Policy) -> str:
    """Why an `outside` rule does not move the whole line out of the sandbox; empty if no rule applies."""
    placed, rules = with_resolved_paths(asked, policy)
    covered = covered_by_rules(placed, rules)
    left = [f"`{' '.join(one.command.texts)}`" for one in covered if one.prefix is None]
    is_begun = any(one.prefix for one in covered)
    return f"it stays in the sandbox, since no `outside` rule covers {' and '.join(left)}" if is_begun and left else ""


def _print(options: argparse.Namespace, policy: Policy, asked: PermissionRequest, ruling: Ruling, place: str) -> None:
    line, dangers = (
        parse_command_line(without_here_documents(options.command)),
        dangers_in(options.command, policy.root),
    )
    is_proved = asked.read_only is not None and asked.read_only.paths != ("/",)
    if options.json:
        facts = {
            "decision": ruling.verdict,
            "why": ruling.rule,
            "mode": policy.mode,
            "sandbox": place,
            "only_looks": is_proved,
            "not_plain": line.problem,
            "uncovered": _uncovered_commands(asked, policy),
            "commands": [list(command.texts) for command in line.commands],
            "files": list(asked.read_only.paths) if asked.read_only is not None and is_proved else [],
            "dangers": [asdict(danger) for danger in dangers],
            "doubts": _doubts(options.command, asked, policy),
        }
        print_json(sys.stdout, facts)
        return
    print(sanitised_line(f"{ruling.verdict}: {ruling.rule}"))
    if ruling.verdict != "deny":
        print(_PLACES.get(place, f"it would run in a sandbox, by {place}"))
    if place not in _PLACES and (held := _why_sandboxed(asked, policy)):
        print(sanitised_line(held))
    if is_proved:
        print("it is proved to look and to do nothing else")
    for doubt in _doubts(options.command, asked, policy) if ruling.verdict != "allow" else ():
        print(sanitised_line(doubt))
    if line.problem:
        print(sanitised_line(f"rules for how commands begin do not cover it: {line.problem}"))
    for command in _uncovered_commands(asked, policy) if ruling.verdict == "ask" else ():
        print(sanitised_line(f"no rule covers {command}"))
    if ruling.verdict == "ask" and not line.problem and not stays_in_workspace(options.command, policy.root):
        print("no rule covers `cd` here: the folder can be outside the project, or another repository")
    for danger in dangers:
        print(sanitised_line(f"dangerous: `{options.command[danger.start : danger.end]}` {danger.why}"))
