"""The skills, commands and agents of one session, and which of them may be used now."""

from collections.abc import Set
from typing import TypeAlias

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.agent_files import AgentFile, find_agents, is_named
from ebbtide.agent.extensions.custom_commands import CustomCommand, find_commands
from ebbtide.agent.extensions.expansion import rules_of
from ebbtide.agent.extensions.session_trust import SessionTrust
from ebbtide.agent.extensions.skills import Skill, find_skills
from ebbtide.agent.extensions.trust import Standing

MAX_PROBLEM_LINES = 10
"""Maximum number of lines about extensions that are left out."""

UserInvocable: TypeAlias = CustomCommand | Skill
"""Extensions that the user can invoke by name."""


class SessionExtensions:
    """Loads the extensions when the session is opened. The project's extensions are approved together."""

    def __init__(self, config: Config, trust: SessionTrust) -> None:
        self.skills, of_skills = find_skills(config)
        self.commands, of_commands = find_commands(config)
        self.agents, of_agents = find_agents(config)
        problems = (*of_skills, *of_commands, *of_agents)
        left = len(problems) - MAX_PROBLEM_LINES
        more = (f"{left} more skills, commands and agents are left out",) if left > 0 else ()
        self.problems = (*problems[:MAX_PROBLEM_LINES], *more)
        """What is left out and why, one line each."""
        self._trust = trust
        self._told: dict[str, int] = {}
        self._told_agents: dict[str, int] = {}
        self._offered: set[str] = set()
        of_files = (*(command.item for command in self.commands), *(agent.item for agent in self.agents))
        trust.add((*(skill.item for skill in self.skills), *of_files))
        self._named: list[UserInvocable] = [*self.commands, *(skill for skill in self.skills if skill.for_user)]

    def standing(self, named: UserInvocable | AgentFile) -> Standing:
        return self._trust.standing(named.item)

    def usable(self, taken: Set[str] = frozenset()) -> tuple[UserInvocable, ...]:
        """Return what the user may invoke now. `taken` are names with another meaning."""
        found: dict[str, UserInvocable] = {}
        for each in self._named:
            if each.name not in taken and self.standing(each) == "on":
                found.setdefault(each.name, each)
        return tuple(found.values())

    def find(self, name: str) -> UserInvocable | None:
        """Find an extension by name: exact, case-insensitive, or prefixed with its plugin's name. It may not be
        approved."""
        exact = next((each for each in self._named if each.name == name), None)
        plain = name.lower()
        alike = (each for each in self._named if each.name.lower() == plain)
        of_plugins = (each for each in self._named if each.plugin and f"{each.plugin}:{each.name}".lower() == plain)
        return exact or next(alike, None) or next(of_plugins, None)

    def rules_to_offer(self, named: UserInvocable) -> tuple[str, ...]:
        """Return the permission rules that the extension asks for, once per session."""
        rules = rules_of(named.tools) if named.item.key not in self._offered else ()
        self._offered.add(named.item.key)
        return rules

    def news(self, known: str, epoch: int) -> tuple[Skill, ...]:
        """Return the usable skills that the model does not know yet. `known` is its system text; announcements from an
        earlier epoch have left the context."""
        new = [
            skill
            for skill in self.skills
            if skill.for_model
            and self.standing(skill) == "on"
            and f"({skill.path})" not in known
            and self._told.get(skill.name) != epoch
        ]
        self._told |= {skill.name: epoch for skill in new}
        return tuple(new)

    def usable_skills(self) -> tuple[Skill, ...]:
        """The skills that may be used now."""
        return tuple(skill for skill in self.skills if self.standing(skill) == "on")

    def usable_agents(self) -> tuple[AgentFile, ...]:
        """The agents that may be used now."""
        return tuple(agent for agent in self.agents if self.standing(agent) == "on")

    def agent_news(self, known: str, epoch: int) -> tuple[AgentFile, ...]:
        """Return the usable agents that the model does not know yet. `known` is the text of its tool definitions."""
        new = [
            agent
            for agent in self.usable_agents()
            if not is_named(agent, known) and self._told_agents.get(agent.name) != epoch
        ]
        self._told_agents |= {agent.name: epoch for agent in new}
        return tuple(new)
