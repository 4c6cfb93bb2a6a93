"""Permission rules (`permissions`) from Claude Code settings of the user and the project: `deny` and `ask` rules apply
here as well. `allow` rules are ignored: a clone's files may only tighten, and the user's own rules are imported."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.extension_files import UnusableFile, text_of
from ebbtide.agent.hooks.conditions import condition_result
from ebbtide.agent.hooks.tool_names import ToolView, absolute
from ebbtide.tools.commands.named_files import named_files
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize

FILES = ("settings.json", "settings.local.json")
_RULE = re.compile(r"[\w*.-]+(?:\(.*\))?", re.DOTALL)
_MAX_RULES = 1_000
"""Maximum number of rules in a file."""
_CHANGES = ("Edit", "Write", "MultiEdit", "NotebookEdit")
"""A rule for one of these tools applies to all of them, since they all change files."""
_LOOKS = ("Read", "Grep", "Glob", "LS", "NotebookRead")


@dataclass(frozen=True, slots=True)
class ClaudeRule:
    text: str
    """The rule as written."""
    verdict: Literal["deny", "ask"]
    source: str
    """The file that contains the rule, for people."""


@dataclass(frozen=True, slots=True)
class ClaudeRuling:
    verdict: Literal["deny", "ask"]
    why: str
    """The rule that decided, as the subject of a sentence."""


@dataclass(frozen=True, slots=True)
class ClaudeRules:
    """The rules of one session."""

    rules: tuple[ClaudeRule, ...] = ()
    problems: tuple[str, ...] = ()
    """What was ignored and why, one sentence each."""

    def ruling(self, views: Sequence[ToolView], root: str, project: str) -> ClaudeRuling | None:
        """Return the ruling on a call, or None if no rule matches. `views` is the call in Claude Code's terms. If a
        call hides what it runs, a possible denial becomes a question."""
        home, asked = os.path.expanduser("~"), None
        looked_at = [each for view in views for each in ((_wide(view), True), *_files_of(view, root))]
        for rule in self.rules:
            for view, is_sure in looked_at:
                met = condition_result(rule.text, view, root, project, home)
                if met == "no":
                    continue
                named = f"the rule `{rule.text}` of `{rule.source}`"
                if met == "yes" and is_sure and rule.verdict == "deny":
                    return ClaudeRuling("deny", named)
                asked = asked or ClaudeRuling("ask", named)
        return asked


def claude_rules(config: Config) -> ClaudeRules:
    """Read the rules from Claude Code's settings files in the home folder and in the project."""
    rules, problems, home = list[ClaudeRule](), list[str](), config.folders.home
    places = [(home / ".claude" / FILES[0], None, f"~/.claude/{FILES[0]}")] if home is not None else []
    of_project = [(config.project / ".claude" / name, config.project, f".claude/{name}") for name in FILES]
    for path, boundary, shown in (*places, *(of_project if config.project != home else ())):
        if not os.path.lexists(path):
            continue
        try:
            rules += _read_rules(path, boundary, shown, problems)
        except UnusableFile as error:
            problems.append(f"the rules of `{shown}` are left out: {error}")
    ordered = sorted(rules, key=lambda rule: rule.verdict != "deny")
    return ClaudeRules(tuple(ordered), tuple(problems))


def _read_rules(path: Path, boundary: Path | None, shown: str, problems: list[str]) -> Iterator[ClaudeRule]:
    text = text_of(path, boundary)
    try:
        content = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UnusableFile(f"it is not valid JSON: {error}") from error
    permissions = content.get("permissions") if isinstance(content, dict) else None
    if not isinstance(permissions, Mapping):
        return
    verdicts: tuple[Literal["deny", "ask"], ...] = ("deny", "ask")
    for verdict in verdicts:
        said = permissions.get(verdict, [])
        listed = said if isinstance(said, list) else [said]
        written = [rule.strip() for rule in listed if isinstance(rule, str)]
        found = [rule for rule in written if _RULE.fullmatch(rule)]
        if len(found) < len(listed):
            left = pluralize(len(listed) - len(found), "entry")
            problems.append(f"`permissions.{verdict}` in `{shown}`: {left} ignored, not valid rules")
        if len(found) > _MAX_RULES:
            problems.append(f"`permissions.{verdict}` in `{shown}`: only the first {_MAX_RULES:,} rules are used")
        yield from (ClaudeRule(rule, verdict, shown) for rule in found[:_MAX_RULES])


def _wide(view: ToolView) -> ToolView:
    """The call under the names of all tools that have the same effect on files."""
    for names in (_CHANGES, _LOOKS):
        if not set(names).isdisjoint(view.names):
            return ToolView(view.name, view.input, (*view.aliases, *names), view.is_whole, view.ours)
    return view


def _files_of(view: ToolView, root: str) -> Iterator[tuple[ToolView, bool]]:
    """Yield the files named in a shell command, as read or edit calls, with whether the effect is certain."""
    command = view.input.get("command")
    for file in named_files(command) if isinstance(command, str) and view.name == "Bash" else ():
        names = _CHANGES if file.changes else _LOOKS
        path = absolute(os.path.expanduser(file.path), root)
        yield ToolView(names[0], {"file_path": path}, names[1:]), file.is_sure or file.changes
