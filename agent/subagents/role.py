"""The parts from which a sub-agent's session is composed: its definition, and what it shares with the parent
session."""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent import providers, subagents
from ebbtide.agent.calls.execute import CheckpointGuard, no_checkpoint
from ebbtide.agent.config.options import PermissionMode, stricter_mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.input.instructions import replace_mode
from ebbtide.agent.prompt.build import Instructions
from ebbtide.agent.subagents.approval import AgentApprover
from ebbtide.agent.subagents.definitions import FINAL_MESSAGE_INSTRUCTIONS, AgentDefinition, built_in_agents
from ebbtide.agent.tool_specs import CALL_TOOL, SEARCH_TOOL
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.store.session_rows import SessionRow
from ebbtide.tools.base import Tool, Workspace
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.tool_traits import role_of

if TYPE_CHECKING:  # imported only for their types, because few sessions have extensions or hooks
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.hooks.session_hooks import SessionHooks

_ROLES_DENIED_TO_AGENTS = ("ask_question", "start_agent")


@dataclass(frozen=True, slots=True)
class SubagentContext:
    definition: AgentDefinition
    parent: SessionContext
    """The context of the parent session."""
    id: str = field(default_factory=partial(secrets.token_hex, 6))
    """Id of the sub-agent's session."""

    def session_row(self, config: Config) -> SessionRow:
        """Return the database row of the sub-agent's session, which names the parent session as its owner."""
        parent_recorder, now = self.parent.records.recorder, time.time()
        default_model = config.agents_model or self.parent.model.facts.id
        model = resolve_model(self.definition.model, default_model)
        mode = stricter_mode(self.parent.calls.runner.approver.policy.mode, self.definition.most_permissive_mode)
        name = self.definition.name
        return SessionRow(
            self.id, parent_recorder.project, "", model, mode, now, now, owner=parent_recorder.session_id, agent=name
        )

    def select_tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Return the tools of the parent session that the sub-agent gets."""
        candidates = (tool for tool in tools if role_of(tool.name) not in _ROLES_DENIED_TO_AGENTS)
        return tuple(
            tool
            for tool in candidates
            if tool.name in (SEARCH_TOOL, CALL_TOOL) or self.definition.allows_tool(tool.name)
        )

    def server_tools(self) -> ServerTools:
        """Return the server tools that the sub-agent gets."""
        return self.parent.window.tools.server_tools.create_subset(self.definition.allows_tool)

    def create_approver(self, outputs_folder: Path) -> AgentApprover:
        """Return the sub-agent's approver, which also permits reading `outputs_folder`."""
        parent_approver, definition = self.parent.calls.runner.approver, self.definition
        return AgentApprover(
            parent_approver,
            definition.most_permissive_mode,
            (str(outputs_folder),),
            definition.name,
            self.id,
            self.parent.turn.emit,
        )

    def with_parent_variables(self, workspace: Workspace) -> Workspace:
        """Return `workspace` with the environment variables that the parent session's commands use."""
        parent_workspace, sandbox = self.parent.calls.runner.workspace, workspace.sandbox
        if sandbox is not None and parent_workspace.sandbox is not None:
            sandbox = replace(
                sandbox,
                variables=parent_workspace.sandbox.variables,
                repositories_by_folder=parent_workspace.sandbox.repositories_by_folder,
            )
        return replace(workspace, sandbox=sandbox, environment_variables=parent_workspace.environment_variables)

    @property
    def checkpoint_guard(self) -> CheckpointGuard:
        """Saves checkpoints before the sub-agent changes files, as part of the parent session's current turn."""
        checkpoints = self.parent.records.checkpoints
        return checkpoints.guard_call if checkpoints is not None else no_checkpoint

    @property
    def hooks(self) -> "SessionHooks | None":
        """The hooks that run for the sub-agent's calls: the parent session's hooks, or None if none run."""
        return self.parent.turn.hooks if self.definition.runs_hooks else None

    @property
    def hook_fields(self) -> Mapping[str, object]:
        """Fields that describe the sub-agent to hooks."""
        return {"agent_id": self.id, "agent_type": self.definition.name}

    def add_agent_prompt(self, instructions: Instructions, mode: PermissionMode) -> Instructions:
        """Add the agent's own prompt to the system prompt. Plan mode is not mentioned, because an agent cannot submit a
        plan."""
        base = f"{instructions.base_text}\n\n{self.definition.prompt}\n\n{FINAL_MESSAGE_INSTRUCTIONS}"
        adapted_instructions = replace_mode(instructions, mode, "") if mode == "plan" else instructions
        return replace(adapted_instructions, base_text=base, skills="")

    def turn_limits(self, config: Config) -> TurnLimits:
        limits = (limit for limit in (config.agents_max_turns, self.definition.max_requests) if limit is not None)
        return TurnLimits(min(limits, default=None))


def resolve_model(name: str | None, default_model: str) -> str:
    """Return the model named in a definition, as PROVIDER/NAME. A single word such as `haiku` means the newest matching
    model from the default model's provider. If no model matches, return `default_model`."""
    if name is None or "/" in name:
        return name or default_model
    return providers.choices.resolve_model_name(name, default_model) or default_model


def startable_agents(extensions: "SessionExtensions | None") -> tuple[AgentDefinition, ...]:
    """Return the agents that a session may start now."""
    if extensions is None or not extensions.agents:
        return built_in_agents()
    return subagents.file_definitions.all_definitions(extensions.usable_agents(), extensions.usable_skills())
