"""Tracks which skills are active, and the tools that each uses: from when the user names one, or the model reads it,
until the turn ends. A skill's tools narrow what the mode allows, and allow nothing themselves."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.policy import Rule, SkillBounds, parse_rule, skill_limits_text
from ebbtide.agent.calls.tool_aliases import by_their_name
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.events.session import Event, ToolStarted, TurnFailed, TurnFinished, TurnStarted
from ebbtide.agent.extensions.expansion import rules_of
from ebbtide.agent.hooks.tool_names import our_names

if TYPE_CHECKING:  # types only: few users have skills
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.skills import Skill

_ASKS_ANYWAY = ("ask", "plan")
_WRITERS = ("edit", "write")


def bounds_of(skill: "Skill", *, is_read: bool = False) -> SkillBounds:
    """The bounds of a skill, as rules. Tools that no rule describes exactly are left out, so that they need
    approval. `is_read`: the model read the skill by itself."""
    rules = [rule for tool in skill.tools for rule in our_rules(tool)]
    if {Rule(name) for name in _WRITERS} <= {*rules}:
        rules.append(Rule("apply_patch"))
    return SkillBounds(skill.name, tuple(dict.fromkeys(rules)), is_read)


def our_rules(tool: str) -> Sequence[Rule]:
    """The rules for a tool in Claude Code's notation, `Read` or `Bash(git log:*)`; none if there is no exact
    equivalent."""
    name, _, rest = tool.strip().partition("(")
    ours, pattern = by_their_name(our_names([name])[0]), rest.removesuffix(")").strip()
    try:
        if pattern in ("", "*", "**"):
            return (parse_rule(ours),)
        if ours == "bash":
            return tuple(map(parse_rule, rules_of([f"Bash({pattern})"])))
        pattern = pattern.removeprefix("domain:").removesuffix("**")
        return (parse_rule(f"{ours}({pattern})"),) if pattern and "*" not in pattern else ()
    except ConfigError:
        return ()


class SkillUse:
    """The active skills of one session."""

    def __init__(
        self, extensions: "SessionExtensions", approval: Approver, root: str, tell: Callable[[str], None]
    ) -> None:
        """`tell`: receives notices for the user about skills that the model activated."""
        self._extensions, self._approval, self._root, self._tell = extensions, approval, root, tell

    def note(self, event: Event) -> None:
        match event:
            case TurnStarted() | TurnFinished() | TurnFailed() if self._approval.policy.bounds:
                self._approval.policy = replace(self._approval.policy, bounds=())
            case ToolStarted(name="read" | "bash"):
                said = event.arguments.get("path" if event.name == "read" else "command")
                if isinstance(said, str) and "skill.md" in said.lower():
                    self._note_read(said, event.name)
            case _:
                pass

    def _note_read(self, said: str, by: str) -> None:
        for skill in self._extensions.skills:
            in_use = {each.skill for each in self._approval.policy.bounds}
            if not skill.tools or skill.name in in_use or self._extensions.standing(skill) != "on":
                continue
            path = str(skill.path)
            is_read = os.path.realpath(os.path.join(self._root, said)) == os.path.realpath(path)
            if is_read or (by == "bash" and (path in said or os.path.relpath(path, self._root) in said)):
                begin_use(skill, self._approval, is_read=True)
                self._report_limits(skill)

    def _report_limits(self, skill: "Skill") -> None:
        policy = self._approval.policy
        if policy.mode in _ASKS_ANYWAY:
            return
        else_ = "is asked about" if self._approval.ask is not None else "is denied unless an `--allow` rule names it"
        self._tell(f"{skill_limits_text(policy.bounds[-1:])}; anything else that changes or runs something {else_}")


def begin_use(skill: "Skill", approval: Approver, *, is_read: bool = False) -> None:
    """Activate a skill until the turn ends. `is_read`: the model read it, and the user did not name it."""
    if skill.tools and skill.name not in (each.skill for each in approval.policy.bounds):
        approval.policy = replace(approval.policy, bounds=(*approval.policy.bounds, bounds_of(skill, is_read=is_read)))
