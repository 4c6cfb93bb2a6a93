"""The tools of MCP servers in a session: those in the model's list, and those that can be called now."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal
from weakref import WeakKeyDictionary

from ebbtide.agent.calls.policy import server_of
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.window.deferral import specs_of
from ebbtide.tools.base import Arguments, Effect, Result, Tool, ToolError, Workspace
from ebbtide.tools.lazy import dataclass

TOOL_GONE = "its server has gone, or does not offer it any more"


class ServerTools:
    """The list changes only on request, because it is the beginning of every request; callable tools follow the
    servers."""

    def __init__(self) -> None:
        self.listed: tuple[Tool, ...] = ()
        self.specs: tuple[ToolSpec, ...] = ()
        """The listed tools as the model sees them."""
        self.callable: dict[str, Tool] = {}
        """By name: tools that servers offer now, and listed tools that they no longer offer."""
        self.instructions: tuple[tuple[str, str], ...] = ()
        """Servers' instructions, as pairs of name and text."""
        self._present: tuple[Tool, ...] = ()
        self._withheld: dict[str, str] = {}
        self._parts: WeakKeyDictionary[ServerTools, Callable[[str], bool]] = WeakKeyDictionary()
        """Subsets for agents, with the filter of each."""

    def subset(self, has: Callable[[str], bool]) -> "ServerTools":
        """Return the tools of an agent: those of servers whose names satisfy `has`, now and later."""
        part = ServerTools()
        self._parts[part] = has
        self._update_subset(part, has)
        return part

    def _update_subset(self, part: "ServerTools", has: Callable[[str], bool]) -> None:
        tools = [tool for tool in self._present if has(tool.name)]
        servers = {server_of(tool.name) for tool in tools}
        part.instructions = tuple(one for one in self.instructions if f"mcp__{one[0]}" in servers)
        part.offer(tools, self._withheld)

    def offer(self, tools: Sequence[Tool], withheld: Mapping[str, str] | None = None) -> None:
        """Set the tools that servers offer now. `withheld`: reasons, for tools that they would offer."""
        self._withheld = dict(withheld or {})
        self._present = tuple({tool.name: tool for tool in reversed(tools)}.values())[::-1]
        here = {tool.name: tool for tool in self._present}
        gone = {
            tool.name: UnavailableTool(tool, self._withheld.get(tool.name, TOOL_GONE))
            for tool in self.listed
            if tool.name not in here
        }
        self.callable.clear()
        self.callable.update({**here, **gone})
        for part, has in self._parts.items():
            self._update_subset(part, has)

    @property
    def present(self) -> tuple[ToolSpec, ...]:
        """The tools that servers offer now, as the model would see them."""
        return specs_of(self._present)

    @property
    def has_changed(self) -> bool:
        """Whether the servers' tools differ from the model's list."""
        return self.present != self.specs

    def accept_present(self) -> None:
        """Update the model's list to what servers offer now."""
        if self.has_changed:
            self.listed, self.specs = self._present, self.present
        self.offer(self._present, self._withheld)

    @property
    def added_tools(self) -> tuple[Tool, ...]:
        """Tools that servers offer and the model's list lacks, or has in another form."""
        known = {spec.name: spec for spec in self.specs}
        return tuple(
            tool for tool, spec in zip(self._present, self.present, strict=True) if known.get(spec.name) != spec
        )

    @property
    def removed_tools(self) -> tuple[Tool, ...]:
        """Tools in the model's list that no server offers now."""
        here = {tool.name for tool in self._present}
        return tuple(tool for tool in self.listed if tool.name not in here)

    def findable(self, held_back: AbstractSet[str]) -> tuple[Tool, ...]:
        """Return the tools that can be called although the model's list does not show them."""
        others = {tool.name for tool in (*self.added_tools, *self.removed_tools)}
        held = (tool for tool in self.listed if tool.name in held_back and tool.name not in others)
        return (*held, *self.added_tools)

    def news(self) -> str:
        """Describe how the servers' tools differ from the model's list; empty if they do not."""
        return "; ".join(
            f"{_tool_counts_text(tools)} {what}"
            for tools, what in (
                (self.added_tools, "new: tool_search finds, call_tool calls them"),
                (self.removed_tools, "gone"),
            )
            if tools
        )


def searchable_tools(tools: Sequence[Tool], served: ServerTools, names: AbstractSet[str]) -> tuple[Tool, ...]:
    """Return the hidden tools that the model may search for; `names` are those of deferred tools."""
    return (*(tool for tool in tools if tool.name in names), *served.findable(names))


@dataclass(frozen=True, slots=True)
class UnavailableTool:
    """Replacement for a tool that no server offers now."""

    tool: Tool
    why: str

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def description(self) -> str:
        return self.tool.description

    @property
    def schema(self) -> Mapping[str, object]:
        return {"type": "object"}

    @property
    def effect(self) -> Effect:
        return "none"

    @property
    def kind(self) -> Literal["skill", "mcp"]:
        return "mcp"

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        raise ToolError(f"`{self.name}` cannot be called: {self.why}")


def _tool_counts_text(tools: Sequence[Tool]) -> str:
    """Return the counts by server: `3 tools of mcp__forge and 1 of mcp__chat are`."""
    counts = Counter(server_of(tool.name) for tool in tools)
    first, *more = (f"{count} of {server}" for server, count in counts.items())
    said = " and ".join([first.replace(" of", " tools of" if not first.startswith("1 ") else " tool of", 1), *more])
    return f"{said} {'is' if len(tools) == 1 else 'are'}"
