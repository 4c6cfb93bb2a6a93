"""Which tools the next request offers, and which it holds back. Pure: specs in, specs out."""

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agent.messages import ToolCall

ToolKind: TypeAlias = Literal["builtin", "skill", "mcp"]
"""Whose tool it is. Those that come with the program are always offered."""

SEARCH, CALL = "tool_search", "call_tool"
"""The tools by which the model finds and calls what is held back. They are offered only when something is."""

_FIRST: Mapping[ToolKind, int] = {"mcp": 0, "skill": 1}
"""The kinds that may be held back, and which of them goes first."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    schema: Mapping[str, object]
    kind: ToolKind = "builtin"


def select_tools(
    specs: Sequence[ToolSpec], held_back: AbstractSet[str] = frozenset(), *, finders: bool = False
) -> tuple[ToolSpec, ...]:
    """The tools in the order they are offered, every name once: the first of a name wins, the order never changes.
    `finders`: those that find and call what is held back are offered also while nothing is."""
    left_out = held_back if held_back or finders else {SEARCH, CALL}
    return tuple(spec for spec in _once(specs) if spec.name not in left_out)


def tools_to_hold_back(
    specs: Sequence[ToolSpec],
    most: int,
    size: Callable[[ToolSpec], int],
    used: Mapping[str, float],
    *,
    finders: bool = False,
) -> frozenset[str]:
    """The names of the tools to hold back, so that all that is offered takes at most `most` tokens: tools of servers
    first, then those of skills, each kind from the one used longest ago, and of those used at the same time the later
    one. None where that would make no request smaller. `used`: when a tool was used last, as any number that grows.
    `finders`: see `select_tools`."""
    known = _once(specs)
    sizes = {spec.name: size(spec) for spec in known}
    needed = sizes.pop(SEARCH, None), sizes.pop(CALL, None)
    if None in needed:
        return frozenset()
    to_find = sum(filter(None, needed))
    whole = sum(sizes.values()) + (to_find if finders else 0)
    places = {spec.name: place for place, spec in enumerate(known)}
    candidates = sorted(
        (spec for spec in known if spec.kind in _FIRST and spec.name in sizes),
        key=lambda spec: (_FIRST[spec.kind], used.get(spec.name, float("-inf")), -places[spec.name]),
    )
    held = list[str]()
    left = whole
    for spec in candidates:
        if left <= most:
            break
        # From the first tool that is held back on, the two that find it are offered, too.
        left += to_find if not held and not finders else 0
        left -= sizes[spec.name]
        held.append(spec.name)
    return frozenset(held) if left < whole else frozenset()


def meant(call: ToolCall) -> ToolCall:
    """The call that a `call_tool` stands for, under the same id; any other call as it is."""
    if call.name != CALL or call.problem:
        return call
    name, arguments = call.arguments.get("name"), call.arguments.get("arguments", {})
    if isinstance(arguments, str):
        arguments = _parsed(arguments)
    if not isinstance(name, str) or not isinstance(arguments, Mapping) or set(call.arguments) - {"name", "arguments"}:
        return call
    return replace(call, name=name, arguments=arguments, source="")


def _parsed(text: str) -> object:
    """Arguments that a model wrote as text although they should be an object."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _once(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    chosen: dict[str, ToolSpec] = {}
    for spec in specs:
        chosen.setdefault(spec.name, spec)
    return tuple(chosen.values())
