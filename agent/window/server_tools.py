"""A session's MCP server tools: those listed for the model, and those that can be called now."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal
from weakref import WeakKeyDictionary

from ebbtide.agent.calls.policy import server_prefix
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.window.deferral import create_specs
from ebbtide.tools.base import Arguments, Effect, Result, Tool, ToolError, Workspace
from ebbtide.tools.lazy import dataclass

TOOL_GONE_REASON = "its server is gone or no longer offers it"


class ServerTools:
    """The tools of a session's servers. The model's list is at the start of every request, so it changes only when
    `update_listed` is called. The callable tools change whenever a server changes."""

    def __init__(self) -> None:
        self.listed_tools: tuple[Tool, ...] = ()
        self.listed_specs: tuple[ToolSpec, ...] = ()
        """The listed tools as the model sees them."""
        self.callable_tools: dict[str, Tool] = {}
        """Tools by name: those that servers offer now, and listed ones that are no longer offered."""
        self.instructions: tuple[tuple[str, str], ...] = ()
        """The servers' instructions, as pairs of server name and text."""
        self._offered_tools: tuple[Tool, ...] = ()
        self._withheld_reasons: dict[str, str] = {}
        self._subsets: WeakKeyDictionary[ServerTools, Callable[[str], bool]] = WeakKeyDictionary()
        """Subsets for sub-agents, each with its filter."""

    def create_subset(self, includes: Callable[[str], bool]) -> "ServerTools":
        """Create the tools for a sub-agent: those whose names satisfy `includes`. They are updated when the servers
        change."""
        subset = ServerTools()
        self._subsets[subset] = includes
        self._update_subset(subset, includes)
        return subset

    def _update_subset(self, subset: "ServerTools", includes: Callable[[str], bool]) -> None:
        tools = [tool for tool in self._offered_tools if includes(tool.name)]
        servers = {server_prefix(tool.name) for tool in tools}
        subset.instructions = tuple(
            instruction for instruction in self.instructions if f"mcp__{instruction[0]}" in servers
        )
        subset.offer(tools, self._withheld_reasons)

    def offer(self, tools: Sequence[Tool], withheld_reasons: Mapping[str, str] | None = None) -> None:
        """Set the tools that servers offer now. `withheld_reasons`: reasons why other tools are not offered, by tool
        name."""
        self._withheld_reasons = dict(withheld_reasons or {})
        self._offered_tools = tuple({tool.name: tool for tool in reversed(tools)}.values())[::-1]
        offered = {tool.name: tool for tool in self._offered_tools}
        unavailable = {
            tool.name: UnavailableTool(tool, self._withheld_reasons.get(tool.name, TOOL_GONE_REASON))
            for tool in self.listed_tools
            if tool.name not in offered
        }
        self.callable_tools.clear()
        self.callable_tools.update({**offered, **unavailable})
        for subset, includes in self._subsets.items():
            self._update_subset(subset, includes)

    @property
    def available_specs(self) -> tuple[ToolSpec, ...]:
        """The tools that servers offer now, as the model would see them."""
        return create_specs(self._offered_tools)

    @property
    def has_changed(self) -> bool:
        """Whether the servers' tools differ from the model's list."""
        return self.available_specs != self.listed_specs

    def update_listed(self) -> None:
        """Update the model's list to what servers offer now."""
        if self.has_changed:
            self.listed_tools, self.listed_specs = self._offered_tools, self.available_specs
        self.offer(self._offered_tools, self._withheld_reasons)

    @property
    def added_tools(self) -> tuple[Tool, ...]:
        """Tools that servers offer now but that the model's list lacks or describes differently."""
        listed_specs = {spec.name: spec for spec in self.listed_specs}
        return tuple(
            tool
            for tool, spec in zip(self._offered_tools, self.available_specs, strict=True)
            if listed_specs.get(spec.name) != spec
        )

    @property
    def removed_tools(self) -> tuple[Tool, ...]:
        """Tools in the model's list that no server offers now."""
        offered_names = {tool.name for tool in self._offered_tools}
        return tuple(tool for tool in self.listed_tools if tool.name not in offered_names)

    def findable_tools(self, deferred: AbstractSet[str]) -> tuple[Tool, ...]:
        """Return the tools that can be called although they are not in the model's list."""
        changed_names = {tool.name for tool in (*self.added_tools, *self.removed_tools)}
        deferred_tools = (
            tool for tool in self.listed_tools if tool.name in deferred and tool.name not in changed_names
        )
        return (*deferred_tools, *self.added_tools)

    def change_summary(self) -> str:
        """Describe how the servers' tools differ from the model's list. Empty if they do not."""
        return "; ".join(
            f"{_tool_counts_text(tools)} {description}"
            for tools, description in (
                (self.added_tools, "new: tool_search finds, call_tool calls them"),
                (self.removed_tools, "gone"),
            )
            if tools
        )


def searchable_tools(
    tools: Sequence[Tool], server_tools: ServerTools, deferred_names: AbstractSet[str]
) -> tuple[Tool, ...]:
    """Return the tools that the model can find only by searching. `deferred_names`: names of deferred tools."""
    return (*(tool for tool in tools if tool.name in deferred_names), *server_tools.findable_tools(deferred_names))


@dataclass(frozen=True, slots=True)
class UnavailableTool:
    """A listed tool that no server offers any more. Calls to it fail with a reason."""

    tool: Tool
    reason: str

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
        raise ToolError(f"`{self.name}` cannot be called: {self.reason}")


def _tool_counts_text(tools: Sequence[Tool]) -> str:
    """Format the tool counts by server, such as `3 tools of mcp__forge and 1 of mcp__chat are`."""
    counts = Counter(server_prefix(tool.name) for tool in tools)
    first, *more = (f"{count} of {server}" for server, count in counts.items())
    counts_text = " and ".join(
        [first.replace(" of", " tools of" if not first.startswith("1 ") else " tool of", 1), *more]
    )
    return f"{counts_text} {'is' if len(tools) == 1 else 'are'}"
