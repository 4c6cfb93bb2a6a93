"""Selects the tools that the next request offers and those that are deferred, and groups deferred tools."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ebbtide.agent.tool_specs import CALL_TOOL, SEARCH_TOOL, HostedSearch, ToolGroup, ToolKind, ToolSpec
from ebbtide.tools.outputs.extent import ellipsize

MAX_GROUP_TOOLS = 10
"""Maximum number of tools in a group. It is small, because a search can load a whole group."""

MAX_GROUP_NAME_CHARS = 64
"""Maximum characters of a group's name."""


_MAX_GROUP_DESCRIPTION_CHARS = 400
"""Maximum characters of a group's description."""

_DEFAULT_GROUP = "tools"
"""Name of the group for tools whose names contain no server."""


def group_tools(names: Sequence[str]) -> Mapping[str, ToolGroup]:
    """Assign each tool to a group: the tools of one server, in order, at most `MAX_GROUP_TOOLS` per group."""
    tools_by_server: dict[str, list[str]] = {}
    for name in names:
        tools_by_server.setdefault(_server_prefix(name), []).append(name)
    groups: dict[str, ToolGroup] = {}
    used_names = set(names)
    for server, tool_names in tools_by_server.items():
        for start in range(0, len(tool_names), MAX_GROUP_TOOLS):
            member_names = tool_names[start : start + MAX_GROUP_TOOLS]
            group = ToolGroup(_unused_group_name(server, used_names), _group_description(server, member_names))
            used_names.add(group.name)
            groups |= dict.fromkeys(member_names, group)
    return groups


def _server_prefix(name: str) -> str:
    """Return the server prefix: `mcp__tracker` for `mcp__tracker__create_issue`."""
    kind, _, remainder = name.partition("__")
    server, separator, _ = remainder.partition("__")
    return f"{kind}__{server}" if kind == "mcp" and separator else _DEFAULT_GROUP


def _group_description(server: str, member_names: Sequence[str]) -> str:
    names = ", ".join(member.removeprefix(f"{server}__") for member in member_names)
    text = f"Tools of {server.removeprefix('mcp__')}: {names}" if server != _DEFAULT_GROUP else f"Tools: {names}"
    return ellipsize(text, _MAX_GROUP_DESCRIPTION_CHARS)


def _unused_group_name(name: str, used_names: set[str]) -> str:
    """Return the name, or the first free one of `name_2`, `name_3`, …."""
    suffix_number, candidate = 1, name[:MAX_GROUP_NAME_CHARS]
    while candidate in used_names:
        suffix_number += 1
        suffix = f"_{suffix_number}"
        candidate = f"{name[: MAX_GROUP_NAME_CHARS - len(suffix)]}{suffix}"
    return candidate


_DEFERRAL_ORDER: Mapping[ToolKind, int] = {"rare": 0, "mcp": 1, "skill": 2}
"""The kinds of tools that may be deferred, in the order in which they are deferred."""


def select_tools(
    specs: Sequence[ToolSpec],
    deferred_names: AbstractSet[str] = frozenset(),
    hosted_search: HostedSearch = "none",
    *,
    offers_search: bool = False,
) -> tuple[ToolSpec, ...]:
    """Select the tools to offer, in order. If several tools have the same name, the first one is used. Deferred tools
    are omitted, or marked as deferred if the provider searches for them. `offers_search`: offer the search tools even
    if nothing is deferred."""
    unique_specs = _unique_specs(specs)
    needs_search = offers_search or (bool(deferred_names) and hosted_search == "none")
    offered = [spec for spec in unique_specs if needs_search or spec.name not in (SEARCH_TOOL, CALL_TOOL)]
    if hosted_search == "none":
        rare_names = [spec.name for spec in unique_specs if spec.kind == "rare" and spec.name in deferred_names]
        return tuple(
            _list_rare_tools_in_search(spec, rare_names) for spec in offered if spec.name not in deferred_names
        )
    groups = _deferrable_groups(unique_specs) if hosted_search == "grouped" else {}
    return tuple(
        replace(spec, deferred_group=groups.get(spec.name, ToolGroup())) if spec.name in deferred_names else spec
        for spec in offered
    )


def _list_rare_tools_in_search(spec: ToolSpec, rare_names: Sequence[str]) -> ToolSpec:
    """Add the deferred built-in tools to the search tool's description. Any other tool is returned unchanged."""
    if spec.name != SEARCH_TOOL or not rare_names:
        return spec
    return replace(spec, description=f"{spec.description} Among them: {', '.join(rare_names)}.")


def choose_deferred_tools(
    specs: Sequence[ToolSpec],
    max_definition_tokens: int,
    count_tokens: Callable[[ToolSpec], int],
    last_used_at: Mapping[str, float],
    hosted_search: HostedSearch = "none",
    *,
    offers_search: bool = False,
    user_deferred: AbstractSet[str] = frozenset(),
    max_tools: int | None = None,
) -> frozenset[str]:
    """Choose the tools to defer so that the visible definitions take at most `max_definition_tokens` tokens. Empty if
    deferring would not make requests smaller.

    Rarely needed tools are always deferred, followed by MCP tools and then skills as far as necessary. Within a kind,
    unused tools are deferred first, starting from the end of the list, followed by the least recently used ones.

    `count_tokens`: counts the tokens of a definition. `last_used_at`: when each tool was last used. `offers_search`:
    the search tools are offered even if nothing is deferred. `user_deferred`: tools that the user always wants
    deferred. `max_tools`: maximum number of definitions that the provider accepts; tools beyond it are deferred even if
    no search can find them.
    """
    unique_specs = _unique_specs(specs)
    sizes = {spec.name: count_tokens(spec) for spec in unique_specs}
    search_tools = [spec for spec in unique_specs if spec.name in (SEARCH_TOOL, CALL_TOOL)]
    search_tool_tokens = sum(sizes.pop(spec.name) for spec in search_tools)
    max_definitions = len(unique_specs) if max_tools is None else max_tools
    definition_count = len(sizes) + (len(search_tools) if offers_search else 0)
    exceeds_max_tools = definition_count > max_definitions
    if len(search_tools) < 2 and hosted_search == "none":
        if not exceeds_max_tools:
            return frozenset()
        max_definition_tokens = sum(sizes.values())  # tools that cannot be found are deferred only if necessary
    all_tokens = sum(sizes.values()) + (search_tool_tokens if offers_search else 0)
    positions = {spec.name: position for position, spec in enumerate(unique_specs)}
    groups = _deferrable_groups(unique_specs) if hosted_search == "grouped" else {}
    counted_groups = set[ToolGroup]()
    candidates = sorted(
        (spec for spec in unique_specs if spec.kind in _DEFERRAL_ORDER and spec.name in sizes),
        key=lambda spec: (
            spec.name not in user_deferred,
            _DEFERRAL_ORDER[spec.kind],
            last_used_at.get(spec.name, float("-inf")),
            -positions[spec.name],
        ),
    )
    deferred_names = list[str]()
    remaining_tokens = all_tokens
    for spec in candidates:
        if (
            remaining_tokens <= max_definition_tokens
            and definition_count <= max_definitions
            and spec.name not in user_deferred
            and spec.kind != "rare"
        ):
            break
        # The first deferred tool adds the search tools to the request. The first deferred tool of a group adds that
        # group.
        if not deferred_names and hosted_search != "none":
            definition_count += 1
        elif not deferred_names and not offers_search:
            remaining_tokens += search_tool_tokens
            definition_count += len(search_tools)
        group = groups.get(spec.name)
        if group is not None and group not in counted_groups:
            remaining_tokens += count_tokens(_group_spec(group))
            definition_count += 1
            counted_groups.add(group)
        remaining_tokens -= sizes[spec.name]
        definition_count -= 1
        deferred_names.append(spec.name)
    return (
        frozenset(deferred_names)
        if remaining_tokens < all_tokens or exceeds_max_tools
        else frozenset(deferred_names) & user_deferred
    )


def count_definition_tokens(specs: Sequence[ToolSpec], count_tokens: Callable[[ToolSpec], int]) -> int:
    """Count the tokens of the definitions that the model sees. For deferred tools, it sees only their groups."""
    groups = dict.fromkeys(
        spec.deferred_group for spec in specs if spec.deferred_group is not None and spec.deferred_group.name
    )
    visible_tokens = sum(count_tokens(spec) for spec in specs if spec.deferred_group is None)
    return visible_tokens + sum(count_tokens(_group_spec(group)) for group in groups)


def _unique_specs(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    first_by_name: dict[str, ToolSpec] = {}
    for spec in specs:
        first_by_name.setdefault(spec.name, spec)
    return tuple(first_by_name.values())


def _deferrable_groups(specs: Sequence[ToolSpec]) -> Mapping[str, ToolGroup]:
    """Return the group of each deferrable tool, even if the tool is not deferred now."""
    return group_tools([spec.name for spec in specs if spec.kind in _DEFERRAL_ORDER])


def _group_spec(group: ToolGroup) -> ToolSpec:
    """Return a group as a tool, so that the size of its description can be measured."""
    return ToolSpec(group.name, group.description, {})
