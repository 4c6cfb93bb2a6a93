"""Maps other agents' tool names to ours, since models often call the tools they were trained with."""

import re
from collections.abc import Collection, Mapping
from functools import cache

from ebbtide.tools.base import Arguments, ToolError
from ebbtide.tools.call_arguments.foreign_calls import index_by_alias, normalise_name
from ebbtide.tools.lazy import regex
from ebbtide.tools.tool_traits import builtin_traits, traits_of

_TURN_ENDING_TOOLS = ("attemptcompletion", "finish", "taskcomplete", "taskdone", "complete", "finalanswer", "done")
"""Names of other agents' tools that end a turn."""

NAME_PREFIXES = ("functions.", "default_api.", "tools.", "tool.", "function.")
_NAME_SUFFIX = regex(r"<\|.*|:\d+\Z", re.DOTALL)
"""Matches what models append to tool names: markers of their chat format, and call numbers."""


@cache
def _tools_by_alias() -> Mapping[str, str]:
    return index_by_alias({tool: traits.aliases for tool, traits in builtin_traits().items()})


def tool_for_alias(name: str) -> str:
    """Return our name for another agent's tool; the given name if we have no such tool."""
    return _tools_by_alias().get(normalise_name(name), name)


def resolve_alias(name: str, arguments: Arguments, known_tools: Collection[str]) -> str | None:
    """Find our tool for a name that is not in `known_tools`; None if there is no match. Raises `ToolError` if the name
    belongs to another agent's tool that has no equivalent here."""
    for prefix in NAME_PREFIXES:
        name = name.removeprefix(prefix)
    name = _NAME_SUFFIX.sub("", name)
    if name in known_tools:
        return name
    plain_name = normalise_name(name)
    if plain_name in ("multitooluseparallel", "batch") and any(isinstance(value, list) for value in arguments.values()):
        raise ToolError("no tool calls other tools: make these calls directly, several in one reply")
    if plain_name in _TURN_ENDING_TOOLS:
        raise ToolError("no tool ends the work: write your answer as text, without a call")
    for tool in known_tools:
        if traits_of(tool).accepts_alias_call(plain_name, arguments):
            return tool
    exact_matches = [ours for ours in known_tools if normalise_name(ours) == plain_name]
    ours = exact_matches[0] if len(exact_matches) == 1 else _tools_by_alias().get(plain_name)
    return ours if ours in known_tools else None
