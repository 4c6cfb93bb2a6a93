"""The state of each MCP server in a session, and how it is displayed to the user."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.integrations.mcp.approvals import approval_lines, compute_tool_digests
from ebbtide.agent.integrations.mcp.declarations import DeclaredServer
from ebbtide.agent.window.deferral import create_specs
from ebbtide.agent.window.session_context import ModelContext, WindowContext
from ebbtide.tools.integrations.mcp.offers import McpPrompt, McpTool, ReadResourceTool, ServerState
from ebbtide.tools.integrations.mcp.server import McpServer

ToolAvailability: TypeAlias = Literal[
    "offered", "deferred", "next request", "after compaction", "not approved", "server not ready"
]
"""Whether and when the model sees a tool. `deferred`: only a tool search finds it."""


@dataclass(frozen=True, slots=True)
class ToolStatus:
    name: str
    """The server's own name for the tool."""
    description: str
    token_count: int
    """Estimated tokens of its definition."""
    availability: ToolAvailability


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A server's status for display."""

    declared_server: DeclaredServer
    state: ServerState
    log_path: Path | None
    """The file with its standard error; None if the server is not running."""
    tools: tuple[ToolStatus, ...] = ()
    """Its tools in the session; empty unless they were requested."""

    @property
    def name(self) -> str:
        return self.declared_server.name

    @property
    def phase(self) -> str:
        return self.state.phase

    @property
    def tool_count(self) -> int:
        return len(self.state.tools)

    @property
    def prompts(self) -> tuple[McpPrompt, ...]:
        return self.state.prompts

    @property
    def resources(self) -> tuple[str, ...]:
        return tuple(resource.uri for resource in self.state.resources)

    @property
    def description_lines(self) -> tuple[str, ...]:
        """Its command or address with all settings, one line each."""
        return approval_lines(self.declared_server)

    @property
    def is_enabled(self) -> bool:
        """Whether it is switched on in this session."""
        return self.log_path is not None

    @property
    def token_count(self) -> int:
        """Tokens of the tool definitions that every request contains."""
        return sum(tool.token_count for tool in self.tools if tool.availability == "offered")


@dataclass(slots=True)
class ServerEntry:
    """A server and its state in this session."""

    declared_server: DeclaredServer
    server: McpServer | None = None
    """The server object; None while the server is not allowed to start."""
    is_refused: bool = False
    """Whether the user refused it in this project."""
    allowed_digests: Mapping[str, str] | None = None
    """Digests of the allowed tools, by the server's own names; None if the user has allowed all tools for this run."""
    postponed_digests: frozenset[str] = frozenset()
    """Digests of the tools whose approval the user has postponed."""
    reported_lines: set[str] = field(default_factory=set)
    """Notices already shown in this session."""
    is_disabled: bool = False
    """Whether the user stopped it for this session."""
    _digest_cache: tuple[tuple[McpTool, ...], McpTool | None, Mapping[str, str]] = field(
        default_factory=lambda: ((), None, {})
    )
    """The latest tools and instructions with their digests, cached because digests are slow to compute."""

    @property
    def name(self) -> str:
        return self.declared_server.name

    @property
    def state(self) -> ServerState:
        return self.server.state if self.server is not None else ServerState("disabled", self._disabled_reason())

    def _disabled_reason(self) -> str:
        if self.is_disabled:
            return "switched off in this session"
        return "refused in this project" if self.is_refused else "not approved"

    def offered_tools(self) -> tuple[McpTool | ReadResourceTool, ...]:
        """Return the tools that can be called now: the server's own and, if it has resources, a tool that reads
        them."""
        state = self.state
        server_tools: tuple[McpTool | ReadResourceTool, ...] = tuple(
            tool for tool in self._listed_tools() if tool.name and self._is_allowed(tool)
        )
        if self.server is None or state.phase not in ("ready", "starting") or not (state.resources or state.templates):
            return server_tools
        resource_tool = ReadResourceTool(self.server)
        return (
            server_tools
            if any(tool.name == resource_tool.name for tool in server_tools)
            else (*server_tools, resource_tool)
        )

    @property
    def instructions(self) -> str:
        """The server's instructions, if the user approved them."""
        instructions = self.state.instructions
        return (
            instructions.description
            if instructions is not None and instructions in self._listed_tools() and self._is_allowed(instructions)
            else ""
        )

    def unapproved_tools(self) -> tuple[McpTool, ...]:
        """Return the tools and instructions that are not approved in their current form."""
        return tuple(tool for tool in self._listed_tools() if not self._is_allowed(tool))

    def _listed_tools(self) -> tuple[McpTool, ...]:
        return self.state.approvable_tools if self.state.phase in ("ready", "starting") else ()

    def _is_allowed(self, tool: McpTool) -> bool:
        return (
            self.allowed_digests is None
            or self.allowed_digests.get(tool.original_name) == self._digests()[tool.original_name]
        )

    def allow_new_tools(self) -> tuple[McpTool, ...]:
        """Allow and return the tools that this program has never seen before. Applies only to the user's own
        servers."""
        new_tools = tuple(
            tool
            for tool in self._listed_tools()
            if self.allowed_digests is not None and tool.original_name not in self.allowed_digests
        )
        self.allowed_digests = {
            **(self.allowed_digests or {}),
            **{tool.original_name: self._digests()[tool.original_name] for tool in new_tools},
        }
        return new_tools

    def _digests(self) -> Mapping[str, str]:
        state = self.state
        if self._digest_cache[0] is not state.tools or self._digest_cache[1] != state.instructions:
            self._digest_cache = state.tools, state.instructions, compute_tool_digests(state.approvable_tools)
        return self._digest_cache[2]

    def status(self, window: WindowContext | None = None) -> ServerStatus:
        """Return the status for display. With a `window`, it includes the tools and their sizes."""
        log_path = self.server.log if self.server is not None else None
        return ServerStatus(
            self.declared_server, self.state, log_path, tuple(self._tool_statuses(window)) if window is not None else ()
        )

    def _tool_statuses(self, window: WindowContext) -> Iterator[ToolStatus]:
        added_names = {tool.name for tool in window.tools.server_tools.added_tools}
        added_availability: ToolAvailability = "after compaction" if window.prefix_watch.has_sent else "next request"
        is_ready = self.state.phase == "ready"
        for tool in self.offered_tools():
            availability: ToolAvailability = (
                "server not ready" if not is_ready else added_availability if tool.name in added_names else "offered"
            )
            availability = (
                "deferred"
                if availability == "offered" and tool.name in window.tools.deferral.deferred_names
                else availability
            )
            yield _tool_status(tool, availability, window.model)
        for tool in self.unapproved_tools():
            yield _tool_status(tool, "not approved", window.model)


def _tool_status(tool: McpTool | ReadResourceTool, availability: ToolAvailability, model: ModelContext) -> ToolStatus:
    (spec,) = create_specs((tool,))
    return ToolStatus(tool.original_name, tool.description, model.meter.estimate_definition(spec), availability)
