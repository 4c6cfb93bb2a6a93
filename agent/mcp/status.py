"""The state of each MCP server in a session, and its display for the user. Makes no decisions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.mcp.approvals import digests_of, terms
from ebbtide.agent.mcp.declarations import DeclaredServer
from ebbtide.agent.window.deferral import specs_of
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.mcp.offers import McpTool, ReadResource, ServerState
from ebbtide.tools.mcp.server import Server

ToolOffer: TypeAlias = Literal["offered", "held back", "due", "late", "not approved", "away"]
"""Whether the model sees a tool. held back: found by search only; due: offered from the next request; late: offered
after the next rewrite of the context; away: the server is not ready."""


@dataclass(frozen=True, slots=True)
class ToolStatus:
    name: str
    """The server's own name of the tool."""
    description: str
    tokens: int
    """Estimated tokens of its definition."""
    offer: ToolOffer


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A server's status for display."""

    declared: DeclaredServer
    state: ServerState
    log: Path | None
    """The file with its standard error; None if it is not running."""
    tools: tuple[ToolStatus, ...] = ()
    """Its tools in the session, if they were requested."""

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def runs(self) -> tuple[str, ...]:
        """Its command or address with all settings, one line each."""
        return terms(self.declared)

    @property
    def is_on(self) -> bool:
        """Whether it should run in this session."""
        return self.log is not None

    @property
    def tokens(self) -> int:
        """Tokens of its definitions in every request."""
        return sum(tool.tokens for tool in self.tools if tool.offer == "offered")


@dataclass(slots=True)
class ServerEntry:
    """A server and its state in this session."""

    declared: DeclaredServer
    server: Server | None = None
    """None while it may not be started."""
    is_refused: bool = False
    """Whether the user refused it in this project."""
    allowed: Mapping[str, str] | None = None
    """Digests of the allowed tools, by the server's own names; None if the user allowed all tools for this run."""
    postponed: frozenset[str] = frozenset()
    """Digests of the tools that the user postponed."""
    reported_lines: set[str] = field(default_factory=set)
    """Notices already shown in this session."""
    is_off: bool = False
    """Whether the user stopped it for this session."""
    _known: tuple[tuple[McpTool, ...], McpTool | None, Mapping[str, str]] = field(
        default_factory=lambda: ((), None, {})
    )
    """The latest tools and their digests, cached since computing them takes long."""

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def state(self) -> ServerState:
        return self.server.state if self.server is not None else ServerState("disabled", self._why_not())

    def _why_not(self) -> str:
        if self.is_off:
            return "switched off in this session"
        return "refused in this project" if self.is_refused else "not approved"

    def offered_tools(self) -> tuple[McpTool | ReadResource, ...]:
        """Tools that may be called now: the server's own, and a reader if it has resources."""
        state = self.state
        own: tuple[McpTool | ReadResource, ...] = tuple(
            tool for tool in self._listed_tools() if tool.name and self._is_allowed(tool)
        )
        if self.server is None or state.phase not in ("ready", "starting") or not (state.resources or state.templates):
            return own
        reader = ReadResource(self.server)
        return own if any(tool.name == reader.name for tool in own) else (*own, reader)

    @property
    def instructions(self) -> str:
        """The server's instructions, if the user approved them."""
        said = self.state.instructions
        return said.description if said is not None and said in self._listed_tools() and self._is_allowed(said) else ""

    def withheld(self) -> tuple[McpTool, ...]:
        """Tools, and instructions, that are not approved in their current form."""
        return tuple(tool for tool in self._listed_tools() if not self._is_allowed(tool))

    def _listed_tools(self) -> tuple[McpTool, ...]:
        return self.state.approvable if self.state.phase in ("ready", "starting") else ()

    def _is_allowed(self, tool: McpTool) -> bool:
        return self.allowed is None or self.allowed.get(tool.original) == self._digests()[tool.original]

    def note_new(self) -> tuple[McpTool, ...]:
        """Allow tools of the user's own server that were never seen before, and return them."""
        new = tuple(
            tool for tool in self._listed_tools() if self.allowed is not None and tool.original not in self.allowed
        )
        self.allowed = {**(self.allowed or {}), **{tool.original: self._digests()[tool.original] for tool in new}}
        return new

    def _digests(self) -> Mapping[str, str]:
        state = self.state
        if self._known[0] is not state.tools or self._known[1] != state.instructions:
            self._known = state.tools, state.instructions, digests_of(state.approvable)
        return self._known[2]

    def status(self, env: SessionContext | None = None) -> ServerStatus:
        """The status for display; with an `env` including the tools and their sizes."""
        log = self.server.log if self.server is not None else None
        return ServerStatus(self.declared, self.state, log, tuple(self._tools(env)) if env is not None else ())

    def _tools(self, env: SessionContext) -> Iterator[ToolStatus]:
        late = {tool.name for tool in env.server_tools.added_tools}
        joins: ToolOffer = "late" if env.watch.has_sent else "due"
        is_ready = self.state.phase == "ready"
        for tool in self.offered_tools():
            offer: ToolOffer = "away" if not is_ready else joins if tool.name in late else "offered"
            offer = "held back" if offer == "offered" and tool.name in env.deferral.held_back else offer
            yield _tool(tool, offer, env)
        for tool in self.withheld():
            yield _tool(tool, "not approved", env)


def _tool(tool: McpTool | ReadResource, offer: ToolOffer, env: SessionContext) -> ToolStatus:
    (spec,) = specs_of((tool,))
    return ToolStatus(tool.original, tool.description, env.meter.size_of_tool(spec), offer)
