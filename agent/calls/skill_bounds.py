"""Tracks which skills are active. A skill becomes active when the user names it or the model reads it, and remains
active until the turn ends. While it is active, the mode allows only tools that the skill lists. A skill never allows
anything that the mode does not allow."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.policy import Rule, SkillBounds, parse_rule, skill_bounds_text
from ebbtide.agent.calls.tool_aliases import tool_for_alias
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.events.session import Event, ToolStarted, TurnFailed, TurnFinished, TurnStarted
from ebbtide.agent.extensions.expansion import rules_for_tools
from ebbtide.agent.hooks.tool_names import to_our_names
from ebbtide.tools.apply_patch import ApplyPatch
from ebbtide.tools.bash import Bash
from ebbtide.tools.edit import Edit
from ebbtide.tools.read import Read
from ebbtide.tools.write import Write

if TYPE_CHECKING:  # imported only for their types, because few users have skills
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.skills import Skill

_MODES_THAT_ASK = ("ask", "plan")
_FILE_CHANGING_TOOLS = (Edit.name, Write.name)


def build_skill_bounds(skill: "Skill", *, is_read_by_model: bool = False) -> SkillBounds:
    """Return the bounds of a skill, as rules. Tools without an exactly equivalent rule are skipped, so that they need
    approval. `is_read_by_model`: the model read the skill on its own initiative."""
    rules = [rule for tool in skill.requested_tools for rule in rules_for_claude_tool(tool)]
    if {Rule(name) for name in _FILE_CHANGING_TOOLS} <= {*rules}:
        rules.append(Rule(ApplyPatch.name))
    return SkillBounds(skill.name, tuple(dict.fromkeys(rules)), is_read_by_model)


def rules_for_claude_tool(tool: str) -> Sequence[Rule]:
    """Return the rules for a tool in Claude Code's notation, `Read` or `Bash(git log:*)`; empty if there is no exact
    equivalent."""
    name, _, pattern_text = tool.strip().partition("(")
    our_name, pattern = tool_for_alias(to_our_names([name])[0]), pattern_text.removesuffix(")").strip()
    try:
        if pattern in ("", "*", "**"):
            return (parse_rule(our_name),)
        if our_name == Bash.name:
            return tuple(map(parse_rule, rules_for_tools([f"Bash({pattern})"])))
        pattern = pattern.removeprefix("domain:").removesuffix("**")
        return (parse_rule(f"{our_name}({pattern})"),) if pattern and "*" not in pattern else ()
    except ConfigError:
        return ()


class ActiveSkills:
    """The active skills of one session."""

    def __init__(
        self, extensions: "SessionExtensions", approver: Approver, root: str, notify: Callable[[str], None]
    ) -> None:
        """`notify`: receives notices for the user about skills that the model activated."""
        self._extensions = extensions
        self._approver = approver
        self._root = root
        self._notify = notify

    def observe(self, event: Event) -> None:
        match event:
            case TurnStarted() | TurnFinished() | TurnFailed() if self._approver.policy.skill_bounds:
                self._approver.policy = replace(self._approver.policy, skill_bounds=())
            case ToolStarted(name=Read.name | Bash.name):
                subject = event.arguments.get("path" if event.name == Read.name else "command")
                if isinstance(subject, str) and "skill.md" in subject.lower():
                    self._activate_read_skills(subject, event.name)
            case _:
                pass

    def _activate_read_skills(self, subject: str, tool: str) -> None:
        for skill in self._extensions.skills:
            active_names = {bounds.skill for bounds in self._approver.policy.skill_bounds}
            if not skill.requested_tools or skill.name in active_names or self._extensions.trust_state(skill) != "on":
                continue
            path = str(skill.path)
            is_read_by_model = os.path.realpath(os.path.join(self._root, subject)) == os.path.realpath(path)
            if is_read_by_model or (
                tool == Bash.name and (path in subject or os.path.relpath(path, self._root) in subject)
            ):
                activate_skill(skill, self._approver, is_read_by_model=True)
                self._report_limits(skill)

    def _report_limits(self, skill: "Skill") -> None:
        policy = self._approver.policy
        if policy.mode in _MODES_THAT_ASK:
            return
        consequence = (
            "is asked about" if self._approver.ask_user is not None else "is denied unless an `--allow` rule names it"
        )
        self._notify(
            f"{skill_bounds_text(policy.skill_bounds[-1:])}; anything else that changes or runs something {consequence}"
        )


def activate_skill(skill: "Skill", approver: Approver, *, is_read_by_model: bool = False) -> None:
    """Activate a skill until the turn ends. `is_read_by_model`: the model read it, without the user naming it."""
    if skill.requested_tools and skill.name not in (bounds.skill for bounds in approver.policy.skill_bounds):
        approver.policy = replace(
            approver.policy,
            skill_bounds=(*approver.policy.skill_bounds, build_skill_bounds(skill, is_read_by_model=is_read_by_model)),
        )
