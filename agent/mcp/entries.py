"""One server of a session, what is known of it there, and how its user sees it. It decides nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agent.mcp.consent import digests_of, terms
from agent.mcp.declared import Declared
from agent.mcp.mentions import command_of, usage_of
from agent.mcp.status import PromptSeen, ServerStatus, ToolOffer, ToolSeen
from agent.window.deferral import specs_of
from agent.window.env import Env
from tools.mcp.reading import ReadResource, reader_of
from tools.mcp.server import Server
from tools.mcp.state import ServerState
from tools.mcp.tool import McpTool


@dataclass(slots=True)
class ServerEntry:
    """One server and what is known of it in this session."""

    declared: Declared
    server: Server | None = None
    """None while it may not be started."""
    is_refused: bool = False
    """The user does not want it in this project."""
    allowed: Mapping[str, str] | None = None
    """The digests of the tools that may be offered, by the server's own names; None where none needs to be approved."""
    postponed: frozenset[str] = frozenset()
    """Digests that the user did not want to decide about now; `declared.digest` stands for its start."""
    told: set[str] = field(default_factory=set)
    """What the user was told of it in this session."""
    is_off: bool = False
    """The user has ended it for this session."""
    _known: tuple[tuple[McpTool, ...], Mapping[str, str]] = field(default_factory=lambda: ((), {}))
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

    def offered(self) -> tuple[McpTool | ReadResource, ...]:
        """Tools that may be called now: the server's own, and one for its resources where it has any."""
        own: tuple[McpTool | ReadResource, ...] = tuple(tool for tool in self._listed() if self._is_allowed(tool))
        if self.server is None or not self._has_resources():
            return own
        reader = reader_of(self.server)
        return own if any(tool.name == reader.name for tool in own) else (*own, reader)

    def _has_resources(self) -> bool:
        state = self.state
        return state.phase in ("ready", "starting") and bool(state.resources or state.listing.templates)

    def withheld(self) -> tuple[McpTool, ...]:
        """Tools that the user has not approved, or not so."""
        return tuple(tool for tool in self._listed() if not self._is_allowed(tool))

    def _listed(self) -> tuple[McpTool, ...]:
        return self.state.tools if self.state.phase in ("ready", "starting") else ()

    def _is_allowed(self, tool: McpTool) -> bool:
        return self.allowed is None or self.allowed.get(tool.original) == self._digests()[tool.original]

    def _digests(self) -> Mapping[str, str]:
        tools = self.state.tools
        if self._known[0] is not tools:
            self._known = tools, digests_of(tools)
        return self._known[1]

    def status(self, env: Env | None = None) -> ServerStatus:
        """All that is known of it; with an `env` also its tools, with what their definitions take there."""
        declared, state = self.declared, self.state
        return ServerStatus(
            name=self.name,
            source=str(declared.source),
            runs="\n".join(terms(declared)),
            phase=state.phase,
            detail=state.detail,
            title=" ".join(filter(None, (state.name, state.version))),
            prompts=tuple(PromptSeen(command_of(declared.spec, p), usage_of(p), p.description) for p in state.prompts),
            resources=tuple(each.uri for each in state.resources),
            notes=state.listing.notes,
            log=self.server.log if self.server is not None else None,
            tools=tuple(_tools(self, env)) if env is not None else (),
        )


def _tools(entry: ServerEntry, env: Env) -> Iterator[ToolSeen]:
    late = {tool.name for tool in env.server_tools.late}
    joins: ToolOffer = "late" if env.watch.has_sent else "due"
    is_ready = entry.state.phase == "ready"
    for tool in entry.offered():
        offer: ToolOffer = "away" if not is_ready else joins if tool.name in late else "offered"
        offer = "held back" if offer == "offered" and tool.name in env.deferral.held_back else offer
        yield _tool(tool, offer, env)
    for tool in entry.withheld():
        yield _tool(tool, "not approved", env)


def _tool(tool: McpTool | ReadResource, offer: ToolOffer, env: Env) -> ToolSeen:
    (spec,) = specs_of((tool,))
    return ToolSeen(tool.original, tool.description, env.meter.size_of_tool(spec), offer)
