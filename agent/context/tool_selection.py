"""Which tools the next request offers, which it holds back, and the groups in which they are. Pure: specs in, specs
out."""

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.messages import ToolCall, ToolOutput
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize

MAX_GROUP_TOOLS = 10
"""Tools of a group: a search may load all of one."""

MAX_GROUP_NAME_CHARS = 64
"""Characters of a group's name."""

NO_TOOL = "there is no tool `{}`"
"""How the answer begins to a call of a tool that there is not."""

_ABOUT = 400
"""Characters of what is said of a group."""

_OTHERS = "tools"
"""The group of tools whose names tell of no server."""


@dataclass(frozen=True, slots=True)
class Group:
    """Tools that are found together. Without a name: a tool that is found by itself."""

    name: str = ""
    about: str = ""
    """What the model reads of it: whose tools they are and what they are called."""


def groups_of(names: Sequence[str]) -> Mapping[str, Group]:
    """The group of each tool: those of one server, in the order in which it named them, ten in each."""
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
    """`mcp__tracker` of `mcp__tracker__create_issue`."""
    kind, _, rest = name.partition("__")
    server, parts, _ = rest.partition("__")
    return f"{kind}__{server}" if kind == "mcp" and parts else _OTHERS


def _about(server: str, members: Sequence[str]) -> str:
    names = ", ".join(member.removeprefix(f"{server}__") for member in members)
    text = f"Tools of {server.removeprefix('mcp__')}: {names}" if server != _OTHERS else f"Tools: {names}"
    return ellipsize(text, _ABOUT)


def _free(name: str, taken: set[str]) -> str:
    """The name, or the first of `name_2`, `name_3`, … that is not taken."""
    count, free = 1, name[:MAX_GROUP_NAME_CHARS]
    while free in taken:
        count += 1
        suffix = f"_{count}"
        free = f"{name[: MAX_GROUP_NAME_CHARS - len(suffix)]}{suffix}"
    return free


ToolKind: TypeAlias = Literal["builtin", "skill", "mcp", "rare"]
"""Whose tool it is. Those that come with the program are always offered, but for what is seldom needed."""

HostedSearch: TypeAlias = Literal["none", "plain", "grouped"]
"""How a provider finds what is held back: not at all, so that our own tools do; by a search over deferred definitions;
or by one over groups of them, whose names and descriptions the model is shown."""

SEARCH, CALL = "tool_search", "call_tool"
"""The tools by which the model finds and calls what is held back. They are offered only when something is, and not
where the provider finds it: then it is called by its name."""

_FIRST: Mapping[ToolKind, int] = {"rare": 0, "mcp": 1, "skill": 2}
"""The kinds that may be held back, and which of them goes first."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    schema: Mapping[str, object]
    kind: ToolKind = "builtin"
    deferred: Group | None = None
    """Set where the definition is sent but not shown to the model until the provider's search has found it."""


def select_tools(
    specs: Sequence[ToolSpec],
    held_back: AbstractSet[str] = frozenset(),
    search: HostedSearch = "none",
    *,
    finders: bool = False,
) -> tuple[ToolSpec, ...]:
    """The tools in the order they are offered, every name once: the first of a name wins, the order never changes.
    What is held back is left out, or deferred where the provider searches. `finders`: those that find and call what is
    held back are offered also while nothing is, or while the provider finds it."""
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
    """The tool as it is; of the one that searches, with what came with the program and nobody would look for."""
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
    """The names of the tools to hold back, so that all that the model is shown takes at most `most` tokens: in any case
    what is seldom needed, then tools of servers, then those of skills, each kind from the one used longest ago, and of
    those used at the same time the later one. None where that would make no request smaller. `used`: when a tool was
    used last, as any number that grows. `finders`: see `select_tools`. `wished`: those that the user wants held back,
    which are whatever it takes. `most_tools`: how many definitions the provider takes; the others are held back, though
    nothing may find them."""
    known = _once(specs)
    sizes = {spec.name: size(spec) for spec in known}
    needed = sizes.pop(SEARCH, None), sizes.pop(CALL, None)
    limit = len(known) if most_tools is None else most_tools
    count = len(sizes) + (len(known) - len(sizes) if finders else 0)
    is_too_many = count > limit
    if None in needed and search == "none":
        if not is_too_many:
            return frozenset()
        most = sum(sizes.values())  # of what cannot be found no more is held back than must be
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
        # From the first tool that is held back on, what finds it is offered, too; and its group with the first of it.
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
    """What the model is shown of the tools that are offered: the groups of those that are deferred, not their
    definitions."""
    groups = dict.fromkeys(spec.deferred for spec in specs if spec.deferred is not None and spec.deferred.name)
    shown = sum(size(spec) for spec in specs if spec.deferred is None)
    return shown + sum(size(_header(group)) for group in groups)


def unwrapped_call(call: ToolCall) -> ToolCall:
    """The call that a `call_tool` stands for, under the same id; any other call as it is."""
    if call.name != CALL or call.problem:
        return call
    name, arguments = call.arguments.get("name"), call.arguments.get("arguments", {})
    if isinstance(arguments, str):
        arguments = _parse_arguments(arguments)
    if not isinstance(name, str) or not isinstance(arguments, Mapping) or set(call.arguments) - {"name", "arguments"}:
        return call
    return replace(call, name=name, arguments=arguments, source="")


def executed_call(call: ToolCall, output: ToolOutput) -> ToolCall:
    """The call that an output answers, as it ran: what a `call_tool` stands for, with what the user made of it."""
    call = unwrapped_call(call)
    return call if output.edited is None else replace(call, arguments=output.edited, source="")


def _parse_arguments(text: str) -> object:
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


def _groups(specs: Sequence[ToolSpec]) -> Mapping[str, Group]:
    """The group of each tool that may be held back. It does not depend on which of them are."""
    return groups_of([spec.name for spec in specs if spec.kind in _FIRST])


def _header(group: Group) -> ToolSpec:
    """What the model is shown of a group, as if it were a tool."""
    return ToolSpec(group.name, group.about, {})
