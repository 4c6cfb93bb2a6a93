"""What an agent is composed with: its definition, and what it has of the session that sends it off."""

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

if TYPE_CHECKING:  # types only: who brings some pays for them
    from ebbtide.agent.calls.tool_hooks import ToolHooks
    from ebbtide.agent.extensions.session_extensions import SessionExtensions

NOT_FOR_AGENTS = ("ask_user", "task")


@dataclass(frozen=True, slots=True)
class AgentRole:
    definition: AgentDefinition
    parent: SessionContext
    """What the session is made of for which it works."""
    id: str = field(default_factory=partial(secrets.token_hex, 6))
    """Of its own session."""

    def row(self, config: Config) -> SessionRow:
        """A new session of its own, which belongs to the one that sends it off."""
        of, now = self.parent.recorder, time.time()
        usual = config.agents_model or self.parent.provider.facts.id
        model = model_of(self.definition.model, usual)
        mode = stricter_mode(self.parent.call_runner.approval.policy.mode, self.definition.mode)
        name = self.definition.name
        return SessionRow(self.id, of.project, "", model, mode, now, now, owner=of.session, agent=name)

    def tools_of(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Those of its session that it is given."""
        own = (tool for tool in tools if tool.name not in NOT_FOR_AGENTS)
        return tuple(tool for tool in own if tool.name in (SEARCH, CALL) or self.definition.has(tool.name))

    def server_tools(self) -> ServerTools:
        """What servers of its session offer and it is given."""
        return self.parent.server_tools.subset(self.definition.has)

    def approval(self, outputs: Path) -> AgentApproval:
        """What its calls may do; what is in `outputs` it may read."""
        of, definition = self.parent.call_runner.approval, self.definition
        return AgentApproval(of, definition.mode, (str(outputs),), definition.name, self.id, self.parent.emit)

    def workspace(self, own: Workspace) -> Workspace:
        """`own`, whose commands have the variables of those of its session."""
        of, sandbox = self.parent.call_runner.workspace, own.sandbox
        if sandbox is not None and of.sandbox is not None:
            sandbox = replace(sandbox, variables=of.sandbox.variables, known=of.sandbox.known)
        return replace(own, sandbox=sandbox, variables=of.variables)

    @property
    def guard(self) -> Guard:
        """Files that it changes are kept for the turn of its session."""
        return self.parent.checkpoints.around if self.parent.checkpoints is not None else no_checkpoint

    def tool_hooks(self, workspace: Workspace, emit: Callable[[Event], None]) -> "ToolHooks | None":
        """Those of its session, which are told whose calls they are."""
        told = {"agent_id": self.id, "agent_type": self.definition.name}
        hooks = self.parent.hooks if self.definition.runs_hooks else None
        return around_calls(hooks, workspace, emit, self.guard, told)

    def instructions(self, instructions: Instructions, mode: Mode) -> Instructions:
        """The system text with what the agent is told. A plan is nothing that it could hand in."""
        base = f"{instructions.base}\n\n{self.definition.prompt}\n\n{HAND_BACK}"
        placed = in_mode(instructions, mode, "") if mode == "plan" else instructions
        return replace(placed, base=base, skills="")

    def limits(self, config: Config) -> TurnLimits:
        said = (most for most in (config.agents_max_turns, self.definition.max_turns) if most is not None)
        return TurnLimits(min(said, default=None))


def model_of(said: str | None, usual: str) -> str:
    """PROVIDER/NAME for what a definition says. A word alone, such as `haiku`, is the newest model of the usual one's
    provider that is called so, or else the usual one."""
    if said is None or "/" in said:
        return said or usual
    from ebbtide.agent.providers.choices import model_called  # noqa: PLC0415  # deferred: few definitions name a model

    return model_called(said, usual) or usual


def usable_agents(extensions: "SessionExtensions | None") -> tuple[AgentDefinition, ...]:
    """The agents that a session may send off now."""
    if extensions is None or not extensions.agents:
        return built_in()
    from ebbtide.agent.subagents.file_definitions import with_files  # noqa: PLC0415  # deferred: few users have some

    return with_files(extensions.usable_agents(), extensions.usable_skills())
