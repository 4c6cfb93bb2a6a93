"""How each server of a session stands: what is known of it, and what its user sees of that. It decides nothing."""

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
"""Whether the model is shown a tool; held back, it finds it by a search; due, it is shown it from the next request on;
late, after the next rewrite of the view; away, the server that offered it is not ready."""


@dataclass(frozen=True, slots=True)
class ToolStatus:
    name: str
    """The server's own name of it."""
    description: str
    tokens: int
    """Estimated, of its definition."""
    offer: ToolOffer


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server as its user sees it."""

    declared: DeclaredServer
    state: ServerState
    log: Path | None
    """What it printed on its error output; None while it does not run."""
    tools: tuple[ToolStatus, ...] = ()
    """Those that it brings into the session, where that was asked for."""

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def runs(self) -> tuple[str, ...]:
        """Its command or address and all that goes with it, a line each."""
        return terms(self.declared)

    @property
    def is_on(self) -> bool:
        """Whether it is to run in this session."""
        return self.log is not None

    @property
    def tokens(self) -> int:
        """What its definitions take of every request."""
        return sum(tool.tokens for tool in self.tools if tool.offer == "offered")


@dataclass(slots=True)
class ServerEntry:
    """One server and what is known of it in this session."""

    declared: DeclaredServer
    server: Server | None = None
    """None while it may not be started."""
    is_refused: bool = False
    """The user does not want it in this project."""
    allowed: Mapping[str, str] | None = None
    """The digests of the tools that may be offered, by the server's own names; None where none needs to be approved:
    the user has said so for this run."""
    postponed: frozenset[str] = frozenset()
    """Digests of the tools that the user did not want to decide about now."""
    reported_lines: set[str] = field(default_factory=set)
    """What the user was told of it in this session."""
    is_off: bool = False
    """The user has ended it for this session."""
    _known: tuple[tuple[McpTool, ...], McpTool | None, Mapping[str, str]] = field(
        default_factory=lambda: ((), None, {})
    )
    """The tools that were looked at last and their digests, which take too long to be made at every look."""

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
        """Tools that may be called now: the server's own, and one for its resources where it has any."""
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
        """What the server says of itself, where the user has approved that."""
        said = self.state.instructions
        return said.description if said is not None and said in self._listed_tools() and self._is_allowed(said) else ""

    def withheld(self) -> tuple[McpTool, ...]:
        """Tools that the user has not approved, or not so, and instructions."""
        return tuple(tool for tool in self._listed_tools() if not self._is_allowed(tool))

    def _listed_tools(self) -> tuple[McpTool, ...]:
        return self.state.approvable if self.state.phase in ("ready", "starting") else ()

    def _is_allowed(self, tool: McpTool) -> bool:
        return self.allowed is None or self.allowed.get(tool.original) == self._digests()[tool.original]

    def note_new(self) -> tuple[McpTool, ...]:
        """The tools of a server of the user's own that were never seen before: they may be offered from now on."""
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
        """As its user sees it; with an `env` also its tools, with what their definitions take there."""
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
