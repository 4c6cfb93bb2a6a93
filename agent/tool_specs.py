"""Tool definitions as the model sees them, and calls as they are run."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.messages import ToolCall, ToolOutput
from ebbtide.tools.call_tool import CallTool
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.tool_search import ToolSearch

UNKNOWN_TOOL_ERROR = "there is no tool `{}`"
"""Beginning of the error message for a call to a tool that does not exist."""


@dataclass(frozen=True, slots=True)
class ToolGroup:
    """A group of tools that a search finds together. A group without a name contains a single tool."""

    name: str = ""
    description: str = ""
    """Description for the model: whose tools they are, and their names."""


ToolKind: TypeAlias = Literal["builtin", "skill", "mcp", "rare"]
"""Origin of a tool. Built-in tools are always offered, except for `rare` ones, which may be deferred."""

HostedSearch: TypeAlias = Literal["none", "plain", "grouped"]
"""How the provider searches deferred tools. `none`: it cannot, so Ebbtide's own search tools are used. `plain`: it
searches deferred definitions. `grouped`: it searches groups, whose names and descriptions the model sees."""

SEARCH_TOOL, CALL_TOOL = ToolSearch.name, CallTool.name
"""Tools with which the model finds and calls deferred tools. They are offered only if tools are deferred and the
provider has no search of its own. A tool found by the provider's search is called by its name."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    schema: Mapping[str, object]
    kind: ToolKind = "builtin"
    deferred_group: ToolGroup | None = None
    """The tool's group. Set if the definition is sent but stays hidden from the model until the provider's search finds
    it."""


def unwrapped_call(call: ToolCall) -> ToolCall:
    """Return the call that a `call_tool` wraps, with the same id. Any other call is returned unchanged."""
    if call.name != CALL_TOOL or call.problem:
        return call
    name, arguments = call.arguments.get("name"), call.arguments.get("arguments", {})
    if isinstance(arguments, str):
        arguments = _parse_arguments(arguments)
    if not isinstance(name, str) or not isinstance(arguments, Mapping) or set(call.arguments) - {"name", "arguments"}:
        return call
    return replace(call, name=name, arguments=arguments, source="")


def executed_call(call: ToolCall, output: ToolOutput) -> ToolCall:
    """Return the call as it was run: unwrapped, and with any edits by the user or a hook."""
    call = unwrapped_call(call)
    return call if output.edited is None else replace(call, arguments=output.edited, source="")


def _parse_arguments(text: str) -> object:
    """Parse arguments that a model wrote as text instead of an object."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
