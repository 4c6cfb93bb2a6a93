"""The skills, commands and agents of one session, and which of them may be used now."""

from collections.abc import Set
from typing import TypeAlias

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.agent_files import AgentFile, find_agents, is_listed
from ebbtide.agent.extensions.custom_commands import CustomCommand, find_custom_commands
from ebbtide.agent.extensions.expansion import rules_for_tools
from ebbtide.agent.extensions.session_trust import SessionTrust
from ebbtide.agent.extensions.skills import Skill, find_skills
from ebbtide.agent.extensions.trust import TrustState

MAX_EXTENSION_PROBLEMS = 10
"""Maximum number of lines about skipped extensions."""

UserInvocable: TypeAlias = CustomCommand | Skill
"""Extensions that the user can invoke by name."""


class SessionExtensions:
    """The extensions of a session, loaded when it is opened. The project's extensions are approved together."""

    def __init__(self, config: Config, trust: SessionTrust) -> None:
        self.skills, skill_problems = find_skills(config)
        self.commands, command_problems = find_custom_commands(config)
        self.agents, agent_problems = find_agents(config)
        problems = (*skill_problems, *command_problems, *agent_problems)
        hidden_count = len(problems) - MAX_EXTENSION_PROBLEMS
        cut_note = (f"{hidden_count} more skills, commands and agents are skipped",) if hidden_count > 0 else ()
        self.problems = (*problems[:MAX_EXTENSION_PROBLEMS], *cut_note)
        """One line for each skipped extension, with the reason."""
        self._trust = trust
        self._announced_skills: dict[str, int] = {}
        self._announced_agents: dict[str, int] = {}
        self._offered_rule_keys: set[str] = set()
        file_items = (*(command.trust_item for command in self.commands), *(agent.trust_item for agent in self.agents))
        trust.add((*(skill.trust_item for skill in self.skills), *file_items))
        self._user_invocable: list[UserInvocable] = [
            *self.commands,
            *(skill for skill in self.skills if skill.is_user_invocable),
        ]

    def trust_state(self, extension: UserInvocable | AgentFile) -> TrustState:
        return self._trust.trust_state(extension.trust_item)

    def usable_by_user(self, reserved_names: Set[str] = frozenset()) -> tuple[UserInvocable, ...]:
        """Return the extensions that the user may invoke now. `reserved_names`: names that mean something else, such as
        built-in commands."""
        extensions_by_name: dict[str, UserInvocable] = {}
        for extension in self._user_invocable:
            if extension.name not in reserved_names and self.trust_state(extension) == "on":
                extensions_by_name.setdefault(extension.name, extension)
        return tuple(extensions_by_name.values())

    def find_by_name(self, name: str) -> UserInvocable | None:
        """Find an extension by name: exact, ignoring case, or prefixed with its plugin's name. None if there is none.
        The extension is not necessarily approved."""
        exact_match = next((extension for extension in self._user_invocable if extension.name == name), None)
        lower_name = name.lower()
        case_insensitive_matches = (
            extension for extension in self._user_invocable if extension.name.lower() == lower_name
        )
        plugin_matches = (
            extension
            for extension in self._user_invocable
            if extension.plugin_name and f"{extension.plugin_name}:{extension.name}".lower() == lower_name
        )
        return exact_match or next(case_insensitive_matches, None) or next(plugin_matches, None)

    def take_rules_to_offer(self, extension: UserInvocable) -> tuple[str, ...]:
        """Return the permission rules that the extension asks for; empty if they were already returned in this
        session."""
        rules = (
            rules_for_tools(extension.requested_tools)
            if extension.trust_item.key not in self._offered_rule_keys
            else ()
        )
        self._offered_rule_keys.add(extension.trust_item.key)
        return rules

    def take_new_skills(self, system_prompt: str, rewrite_count: int) -> tuple[Skill, ...]:
        """Return the usable skills that the model does not know yet, and mark them as announced. `system_prompt`: the
        model's system prompt. `rewrite_count`: number of context rewrites so far. Skills announced before the last
        rewrite are no longer in the context."""
        new_skills = [
            skill
            for skill in self.skills
            if skill.is_listed_for_model
            and self.trust_state(skill) == "on"
            and f"({skill.path})" not in system_prompt
            and self._announced_skills.get(skill.name) != rewrite_count
        ]
        self._announced_skills |= {skill.name: rewrite_count for skill in new_skills}
        return tuple(new_skills)

    def usable_skills(self) -> tuple[Skill, ...]:
        """Return the skills that can be used now."""
        return tuple(skill for skill in self.skills if self.trust_state(skill) == "on")

    def usable_agents(self) -> tuple[AgentFile, ...]:
        """Return the agents that can be used now."""
        return tuple(agent for agent in self.agents if self.trust_state(agent) == "on")

    def take_new_agents(self, tool_definitions: str, rewrite_count: int) -> tuple[AgentFile, ...]:
        """Return the usable agents that the model does not know yet, and mark them as announced. `tool_definitions`:
        the text of the model's tool definitions."""
        new_agents = [
            agent
            for agent in self.usable_agents()
            if not is_listed(agent, tool_definitions) and self._announced_agents.get(agent.name) != rewrite_count
        ]
        self._announced_agents |= {agent.name: rewrite_count for agent in new_agents}
        return tuple(new_agents)
