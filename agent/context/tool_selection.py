"""Which tools the next request offers, which are deferred, and how they are grouped. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.messages import ToolCall, ToolOutput
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize

MAX_GROUP_TOOLS = 10
"""Maximum number of tools in a group: a search may load all of one."""

MAX_GROUP_NAME_CHARS = 64
"""Maximum characters of a group's name."""

NO_TOOL = "there is no tool `{}`"
"""Beginning of the answer to a call of an unknown tool."""

_ABOUT = 400
"""Maximum characters of a group's description."""

_OTHERS = "tools"
"""Group of tools whose names show no server."""


@dataclass(frozen=True, slots=True)
class Group:
    """Tools that are found together. Without a name: a tool that is found individually."""

    name: str = ""
    about: str = ""
    """Description for the model: whose tools they are and their names."""


def groups_of(names: Sequence[str]) -> Mapping[str, Group]:
    """Return the group of each tool: the tools of one server in their order, ten to a group."""
    servers: dict[str, list[str]] = {}
    for name in names:
        servers.setdefault(_server_of(name), []).append(name)
    groups: dict[str, Group] = {}
    taken = set(names)
    for server, tools in servers.items():
        for start in range(0, len(tools), MAX_GROUP_TOOLS):
            members = tools[start : start + MAX_GROUP_TOOLS]
            group = Group(_free(server, taken), _about(server, members))
            taken.add(group.name)
            groups |= dict.fromkeys(members, group)
    return groups


def _server_of(name: str) -> str:
    """Return the server prefix: `mcp__tracker` for `mcp__tracker__create_issue`."""
    kind, _, rest = name.partition("__")
    server, parts, _ = rest.partition("__")
    return f"{kind}__{server}" if kind == "mcp" and parts else _OTHERS


def _about(server: str, members: Sequence[str]) -> str:
    names = ", ".join(member.removeprefix(f"{server}__") for member in members)
    text = f"Tools of {server.removeprefix('mcp__')}: {names}" if server != _OTHERS else f"Tools: {names}"
    return ellipsize(text, _ABOUT)


def _free(name: str, taken: set[str]) -> str:
    """Return the name, or the first free one of `name_2`, `name_3`, …."""
    count, free = 1, name[:MAX_GROUP_NAME_CHARS]
    while free in taken:
        count += 1
        suffix = f"_{count}"
        free = f"{name[: MAX_GROUP_NAME_CHARS - len(suffix)]}{suffix}"
    return free


ToolKind: TypeAlias = Literal["builtin", "skill", "mcp", "rare"]
"""Origin of a tool. Built-in tools are always offered, except the rarely needed ones."""

HostedSearch: TypeAlias = Literal["none", "plain", "grouped"]
"""How a provider finds deferred tools: not at all, so the program's own tools do; by a search over deferred
definitions; or by a search over groups, whose names and descriptions the model sees."""

SEARCH, CALL = "tool_search", "call_tool"
"""Tools with which the model finds and calls deferred tools. They are offered only if some are deferred, and not if the
provider finds them: then they are called by name."""

_FIRST: Mapping[ToolKind, int] = {"rare": 0, "mcp": 1, "skill": 2}
"""The kinds that may be deferred, in this order."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    schema: Mapping[str, object]
    kind: ToolKind = "builtin"
    deferred: Group | None = None
    """Set if the definition is sent but hidden from the model until the provider's search finds it."""


def select_tools(
    specs: Sequence[ToolSpec],
    held_back: AbstractSet[str] = frozenset(),
    search: HostedSearch = "none",
    *,
    finders: bool = False,
) -> tuple[ToolSpec, ...]:
    """Return the tools in the order they are offered, each name once (the first one wins). Deferred ones are left out,
    or marked if the provider searches. `finders`: offer the search tools in any case."""
    known = _once(specs)
    needs_finders = finders or (bool(held_back) and search == "none")
    offered = [spec for spec in known if needs_finders or spec.name not in (SEARCH, CALL)]
    if search == "none":
        rare = [spec.name for spec in known if spec.kind == "rare" and spec.name in held_back]
        return tuple(_naming(spec, rare) for spec in offered if spec.name not in held_back)
    groups = _groups(known) if search == "grouped" else {}
    return tuple(
        replace(spec, deferred=groups.get(spec.name, Group())) if spec.name in held_back else spec for spec in offered
    )


def _naming(spec: ToolSpec, rare: Sequence[str]) -> ToolSpec:
    """Return the search tool with the deferred built-in tools in its description; any other tool unchanged."""
    if spec.name != SEARCH or not rare:
        return spec
    return replace(spec, description=f"{spec.description} Among them: {', '.join(rare)}.")


def tools_to_hold_back(
    specs: Sequence[ToolSpec],
    most: int,
    size: Callable[[ToolSpec], int],
    used: Mapping[str, float],
    search: HostedSearch = "none",
    *,
    finders: bool = False,
    wished: AbstractSet[str] = frozenset(),
    most_tools: int | None = None,
) -> frozenset[str]:
    """Return the names of the tools to defer so that the definitions shown take at most `most` tokens: rarely needed
    tools in any case, then tools of servers, then of skills, the least recently used first and of those the last
    listed. Empty if that would make no request smaller. `used`: last use of each tool, as any increasing number.
    `finders`: see `select_tools`. `wished`: tools that the user wants deferred at any cost. `most_tools`: maximum
    number of definitions that the provider accepts; the others are deferred even if nothing can find them."""
    known = _once(specs)
    sizes = {spec.name: size(spec) for spec in known}
    needed = sizes.pop(SEARCH, None), sizes.pop(CALL, None)
    limit = len(known) if most_tools is None else most_tools
    count = len(sizes) + (len(known) - len(sizes) if finders else 0)
    is_too_many = count > limit
    if None in needed and search == "none":
        if not is_too_many:
            return frozenset()
        most = sum(sizes.values())  # tools that cannot be found are deferred only if necessary
    to_find = sum(filter(None, needed))
    whole = sum(sizes.values()) + (to_find if finders else 0)
    places = {spec.name: place for place, spec in enumerate(known)}
    groups = _groups(known) if search == "grouped" else {}
    seen = set[Group]()
    candidates = sorted(
        (spec for spec in known if spec.kind in _FIRST and spec.name in sizes),
        key=lambda spec: (
            spec.name not in wished,
            _FIRST[spec.kind],
            used.get(spec.name, float("-inf")),
            -places[spec.name],
        ),
    )
    held = list[str]()
    left = whole
    for spec in candidates:
        if left <= most and count <= limit and spec.name not in wished and spec.kind != "rare":
            break
        # From the first deferred tool on, the search tools are offered as well, and each group from its first tool on.
        if not held and search != "none":
            count += 1
        elif not held and not finders:
            left, count = left + to_find, count + len(known) - len(sizes)
        group = groups.get(spec.name)
        if group is not None and group not in seen:
            left, count = left + size(_header(group)), count + 1
            seen.add(group)
        left, count = left - sizes[spec.name], count - 1
        held.append(spec.name)
    return frozenset(held) if left < whole or is_too_many else frozenset(held) & wished


def definitions_size(specs: Sequence[ToolSpec], size: Callable[[ToolSpec], int]) -> int:
    """Size of the definitions that the model sees: deferred tools count by their groups."""
    groups = dict.fromkeys(spec.deferred for spec in specs if spec.deferred is not None and spec.deferred.name)
    shown = sum(size(spec) for spec in specs if spec.deferred is None)
    return shown + sum(size(_header(group)) for group in groups)


def unwrapped_call(call: ToolCall) -> ToolCall:
    """Return the call wrapped in a `call_tool`, under the same id; any other call unchanged."""
    if call.name != CALL or call.problem:
        return call
    name, arguments = call.arguments.get("name"), call.arguments.get("arguments", {})
    if isinstance(arguments, str):
        arguments = _parse_arguments(arguments)
    if not isinstance(name, str) or not isinstance(arguments, Mapping) or set(call.arguments) - {"name", "arguments"}:
        return call
    return replace(call, name=name, arguments=arguments, source="")


def executed_call(call: ToolCall, output: ToolOutput) -> ToolCall:
    """Return the call that an output answers, as executed: unwrapped, and with the user's edits."""
    call = unwrapped_call(call)
    return call if output.edited is None else replace(call, arguments=output.edited, source="")


def _parse_arguments(text: str) -> object:
    """Parse arguments that a model wrote as text instead of an object."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _once(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    chosen: dict[str, ToolSpec] = {}
    for spec in specs:
        chosen.setdefault(spec.name, spec)
    return tuple(chosen.values())


def _groups(specs: Sequence[ToolSpec]) -> Mapping[str, Group]:
    """Return the group of each tool that may be deferred, independent of which ones are."""
    return groups_of([spec.name for spec in specs if spec.kind in _FIRST])


def _header(group: Group) -> ToolSpec:
    """Return a group in the form of a tool, to measure what the model sees of it."""
    return ToolSpec(group.name, group.about, {})
