"""What a sub-agent is composed of: its definition, and what it shares with its parent session."""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent.calls.execute import Guard, no_checkpoint
from ebbtide.agent.calls.output_view import around_calls
from ebbtide.agent.config.options import Mode, stricter_mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.context.prompt import Instructions
from ebbtide.agent.context.tool_selection import CALL, SEARCH
from ebbtide.agent.events.session import Event
from ebbtide.agent.input.instructions import in_mode
from ebbtide.agent.subagents.approval import AgentApproval
from ebbtide.agent.subagents.definitions import HAND_BACK, AgentDefinition, built_in
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.store.session_rows import SessionRow
from ebbtide.tools.base import Tool, Workspace
from ebbtide.tools.lazy import dataclass

if TYPE_CHECKING:  # types only: few sessions have these
    from ebbtide.agent.calls.tool_hooks import ToolHooks
    from ebbtide.agent.extensions.session_extensions import SessionExtensions

NOT_FOR_AGENTS = ("ask_user", "task")


@dataclass(frozen=True, slots=True)
class AgentRole:
    definition: AgentDefinition
    parent: SessionContext
    """The context of its parent session."""
    id: str = field(default_factory=partial(secrets.token_hex, 6))
    """Id of its own session."""

    def row(self, config: Config) -> SessionRow:
        """Return the row of its own session, which belongs to the parent session."""
        of, now = self.parent.recorder, time.time()
        usual = config.agents_model or self.parent.provider.facts.id
        model = model_of(self.definition.model, usual)
        mode = stricter_mode(self.parent.call_runner.approval.policy.mode, self.definition.mode)
        name = self.definition.name
        return SessionRow(self.id, of.project, "", model, mode, now, now, owner=of.session, agent=name)

    def tools_of(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Return the parent session's tools that it gets."""
        own = (tool for tool in tools if tool.name not in NOT_FOR_AGENTS)
        return tuple(tool for tool in own if tool.name in (SEARCH, CALL) or self.definition.has(tool.name))

    def server_tools(self) -> ServerTools:
        """Return the server tools that it gets."""
        return self.parent.server_tools.subset(self.definition.has)

    def approval(self, outputs: Path) -> AgentApproval:
        """Return its approver; it may read `outputs`."""
        of, definition = self.parent.call_runner.approval, self.definition
        return AgentApproval(of, definition.mode, (str(outputs),), definition.name, self.id, self.parent.emit)

    def workspace(self, own: Workspace) -> Workspace:
        """Return `own` with the environment variables of the parent session's commands."""
        of, sandbox = self.parent.call_runner.workspace, own.sandbox
        if sandbox is not None and of.sandbox is not None:
            sandbox = replace(sandbox, variables=of.sandbox.variables, known=of.sandbox.known)
        return replace(own, sandbox=sandbox, variables=of.variables)

    @property
    def guard(self) -> Guard:
        """Checkpoints of its file changes belong to the parent session's turn."""
        return self.parent.checkpoints.around if self.parent.checkpoints is not None else no_checkpoint

    def tool_hooks(self, workspace: Workspace, emit: Callable[[Event], None]) -> "ToolHooks | None":
        """Return the parent session's hooks, which get the agent's id and type."""
        told = {"agent_id": self.id, "agent_type": self.definition.name}
        hooks = self.parent.hooks if self.definition.runs_hooks else None
        return around_calls(hooks, workspace, emit, self.guard, told)

    def instructions(self, instructions: Instructions, mode: Mode) -> Instructions:
        """Return the system prompt with the agent's own. It cannot submit a plan, so the plan mode is not mentioned."""
        base = f"{instructions.base}\n\n{self.definition.prompt}\n\n{HAND_BACK}"
        placed = in_mode(instructions, mode, "") if mode == "plan" else instructions
        return replace(placed, base=base, skills="")

    def limits(self, config: Config) -> TurnLimits:
        said = (most for most in (config.agents_max_turns, self.definition.max_turns) if most is not None)
        return TurnLimits(min(said, default=None))


def model_of(said: str | None, usual: str) -> str:
    """Return PROVIDER/NAME for the model in a definition. A single word such as `haiku` means the newest matching model
    of the default's provider, or else the default."""
    if said is None or "/" in said:
        return said or usual
    from ebbtide.agent.providers.choices import model_called  # noqa: PLC0415  # deferred: few definitions name a model

    return model_called(said, usual) or usual


def usable_agents(extensions: "SessionExtensions | None") -> tuple[AgentDefinition, ...]:
    """Return the agents that a session may start now."""
    if extensions is None or not extensions.agents:
        return built_in()
    from ebbtide.agent.subagents.file_definitions import with_files  # noqa: PLC0415  # deferred: few users define agents

    return with_files(extensions.usable_agents(), extensions.usable_skills())
