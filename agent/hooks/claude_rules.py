"""Permission rules (`permissions`) from the Claude Code settings of the user and the project. Their `deny` and `ask`
rules apply here as well. `allow` rules are ignored: a cloned repository must not be able to grant permissions, and
users can import their own rules."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.extension_files import UnusableFileError, read_text_file
from ebbtide.agent.hooks.answers import HookRuling
from ebbtide.agent.hooks.conditions import evaluate_condition
from ebbtide.agent.hooks.tool_names import ClaudeToolCall, absolute_path
from ebbtide.tools.commands.named_files import find_named_files
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize

SETTINGS_FILE_NAMES = ("settings.json", "settings.local.json")
_RULE_PATTERN = re.compile(r"[\w*.-]+(?:\(.*\))?", re.DOTALL)
_MAX_RULES = 1_000
"""Maximum number of rules used per verdict and file."""
_CHANGING_TOOLS = ("Edit", "Write", "MultiEdit", "NotebookEdit")
"""Tools that change files. A rule for one of them applies to all of them."""
_READING_TOOLS = ("Read", "Grep", "Glob", "LS", "NotebookRead")


@dataclass(frozen=True, slots=True)
class ClaudeRule:
    text: str
    """The rule as written."""
    verdict: Literal["deny", "ask"]
    source: str
    """The file that contains the rule, for display."""


@dataclass(frozen=True, slots=True)
class ClaudeRules:
    """The rules of one session."""

    rules: tuple[ClaudeRule, ...] = ()
    problems: tuple[str, ...] = ()
    """What was ignored and why, one sentence each."""

    def decide_call(self, views: Sequence[ClaudeToolCall], root: str, project: str) -> HookRuling | None:
        """Return the ruling about a call, or None if no rule matches. `views`: the call in Claude Code's terms. If a
        call hides what it runs, a deny rule that might match results in `ask`."""
        home = os.path.expanduser("~")
        ask_ruling: HookRuling | None = None
        candidates = [
            candidate
            for view in views
            for candidate in ((_with_equivalent_names(view), True), *_implied_file_calls(view, root))
        ]
        for rule in self.rules:
            for view, is_certain in candidates:
                result = evaluate_condition(rule.text, view, root, project, home)
                if result == "no":
                    continue
                rule_name = f"the rule `{rule.text}` of `{rule.source}`"
                if result == "yes" and is_certain and rule.verdict == "deny":
                    return HookRuling("deny", is_from_user=False, decided_by=rule_name)
                ask_ruling = ask_ruling or HookRuling("ask", is_from_user=False, decided_by=rule_name)
        return ask_ruling


def load_claude_rules(config: Config) -> ClaudeRules:
    """Read the rules from Claude Code's settings files in the home folder and in the project."""
    rules: list[ClaudeRule] = []
    problems: list[str] = []
    home = config.folders.home
    home_files = (
        [(home / ".claude" / SETTINGS_FILE_NAMES[0], None, f"~/.claude/{SETTINGS_FILE_NAMES[0]}")]
        if home is not None
        else []
    )
    project_files = [
        (config.project_folder / ".claude" / name, config.project_folder, f".claude/{name}")
        for name in SETTINGS_FILE_NAMES
    ]
    for path, boundary, label in (*home_files, *(project_files if config.project_folder != home else ())):
        if not os.path.lexists(path):
            continue
        try:
            rules += _read_rules(path, boundary, label, problems)
        except UnusableFileError as error:
            problems.append(f"the rules of `{label}` are skipped: {error}")
    ordered = sorted(rules, key=lambda rule: rule.verdict != "deny")
    return ClaudeRules(tuple(ordered), tuple(problems))


def _read_rules(path: Path, boundary: Path | None, label: str, problems: list[str]) -> Iterator[ClaudeRule]:
    text = read_text_file(path, boundary)
    try:
        content = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UnusableFileError(f"it is not valid JSON: {error}") from error
    permissions = content.get("permissions") if isinstance(content, dict) else None
    if not isinstance(permissions, Mapping):
        return
    verdicts: tuple[Literal["deny", "ask"], ...] = ("deny", "ask")
    for verdict in verdicts:
        rules_value = permissions.get(verdict, [])
        entries = rules_value if isinstance(rules_value, list) else [rules_value]
        rule_texts = [rule.strip() for rule in entries if isinstance(rule, str)]
        valid_rules = [rule for rule in rule_texts if _RULE_PATTERN.fullmatch(rule)]
        if len(valid_rules) < len(entries):
            ignored_entries = pluralize(len(entries) - len(valid_rules), "entry")
            problems.append(f"`permissions.{verdict}` in `{label}`: {ignored_entries} ignored, not valid rules")
        if len(valid_rules) > _MAX_RULES:
            problems.append(f"`permissions.{verdict}` in `{label}`: only the first {_MAX_RULES:,} rules are used")
        yield from (ClaudeRule(rule, verdict, label) for rule in valid_rules[:_MAX_RULES])


def _with_equivalent_names(view: ClaudeToolCall) -> ClaudeToolCall:
    """If the call's tool reads or changes files, add the names of all tools that do, so that a rule for any of them
    applies."""
    for names in (_CHANGING_TOOLS, _READING_TOOLS):
        if not set(names).isdisjoint(view.names):
            return ClaudeToolCall(view.name, view.input, (*view.aliases, *names), view.is_complete, view.our_name)
    return view


def _implied_file_calls(view: ClaudeToolCall, root: str) -> Iterator[tuple[ClaudeToolCall, bool]]:
    """Yield a read or edit call for each file named in a shell command, and whether the command is certain to have that
    effect."""
    command = view.input.get("command")
    for file in find_named_files(command) if isinstance(command, str) and view.name == "Bash" else ():
        names = _CHANGING_TOOLS if file.is_changed else _READING_TOOLS
        path = absolute_path(os.path.expanduser(file.path), root)
        yield ClaudeToolCall(names[0], {"file_path": path}, names[1:]), file.is_certain or file.is_changed
