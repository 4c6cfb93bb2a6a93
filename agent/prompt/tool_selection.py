"""Selects the tools that the next request offers and those that are deferred, and groups them. Pure."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ebbtide.agent.tool_specs import CALL, SEARCH, Group, HostedSearch, ToolKind, ToolSpec
from ebbtide.tools.outputs.extent import ellipsize

MAX_GROUP_TOOLS = 10
"""Maximum number of tools in a group. It is small because a search may load the whole group."""

MAX_GROUP_NAME_CHARS = 64
"""Maximum characters of a group's name."""


_MAX_GROUP_DESCRIPTION_CHARS = 400
"""Maximum characters of a group's description."""

_DEFAULT_GROUP = "tools"
"""Name of the group for tools whose names contain no server."""


def groups_of(names: Sequence[str]) -> Mapping[str, Group]:
    """Return the group of each tool: the tools of one server, in their order, with at most ten in a group."""
    servers: dict[str, list[str]] = {}
    for name in names:
        servers.setdefault(_server_of(name), []).append(name)
    groups: dict[str, Group] = {}
    used = set(names)
    for server, tools in servers.items():
        for start in range(0, len(tools), MAX_GROUP_TOOLS):
            members = tools[start : start + MAX_GROUP_TOOLS]
            group = Group(_unused_group_name(server, used), _group_description(server, members))
            used.add(group.name)
            groups |= dict.fromkeys(members, group)
    return groups


def _server_of(name: str) -> str:
    """Return the server prefix: `mcp__tracker` for `mcp__tracker__create_issue`."""
    kind, _, rest = name.partition("__")
    server, parts, _ = rest.partition("__")
    return f"{kind}__{server}" if kind == "mcp" and parts else _DEFAULT_GROUP


def _group_description(server: str, members: Sequence[str]) -> str:
    names = ", ".join(member.removeprefix(f"{server}__") for member in members)
    text = f"Tools of {server.removeprefix('mcp__')}: {names}" if server != _DEFAULT_GROUP else f"Tools: {names}"
    return ellipsize(text, _MAX_GROUP_DESCRIPTION_CHARS)


def _unused_group_name(name: str, used: set[str]) -> str:
    """Return the name, or the first free one of `name_2`, `name_3`, …."""
    count, unused = 1, name[:MAX_GROUP_NAME_CHARS]
    while unused in used:
        count += 1
        suffix = f"_{count}"
        unused = f"{name[: MAX_GROUP_NAME_CHARS - len(suffix)]}{suffix}"
    return unused


_DEFER_ORDER: Mapping[ToolKind, int] = {"rare": 0, "mcp": 1, "skill": 2}
"""The kinds of tools that may be deferred, in the order in which they are deferred."""


def select_tools(
    specs: Sequence[ToolSpec],
    deferred: AbstractSet[str] = frozenset(),
    search: HostedSearch = "none",
    *,
    finders: bool = False,
) -> tuple[ToolSpec, ...]:
    """Return the offered tools in order. Of tools with the same name, the first one counts. Deferred tools are left
    out, or marked as deferred if the provider searches. `finders`: offer the search tools even if nothing is
    deferred."""
    known = _unique_specs(specs)
    needs_search = finders or (bool(deferred) and search == "none")
    offered = [spec for spec in known if needs_search or spec.name not in (SEARCH, CALL)]
    if search == "none":
        rare = [spec.name for spec in known if spec.kind == "rare" and spec.name in deferred]
        return tuple(_with_rare_tools(spec, rare) for spec in offered if spec.name not in deferred)
    groups = _deferrable_groups(known) if search == "grouped" else {}
    return tuple(
        replace(spec, deferred=groups.get(spec.name, Group())) if spec.name in deferred else spec for spec in offered
    )


def _with_rare_tools(spec: ToolSpec, rare: Sequence[str]) -> ToolSpec:
    """Return the search tool with the deferred built-in tools added to its description; any other tool unchanged."""
    if spec.name != SEARCH or not rare:
        return spec
    return replace(spec, description=f"{spec.description} Among them: {', '.join(rare)}.")


def tools_to_defer(
    specs: Sequence[ToolSpec],
    max_definition_tokens: int,
    size: Callable[[ToolSpec], int],
    last_uses: Mapping[str, float],
    search: HostedSearch = "none",
    *,
    offers_search: bool = False,
    user_deferred: AbstractSet[str] = frozenset(),
    max_tools: int | None = None,
) -> frozenset[str]:
    """Return the names of the tools to defer so that the definitions shown take at most `max_definition_tokens` tokens.
    Rarely needed tools are always deferred; then tools of servers, then of skills. Within a kind, the least recently
    used come first, then the last listed. Empty if that would make no request smaller. `last_uses`: when each tool was
    last used. `offers_search`: see `select_tools`. `user_deferred`: tools that the user wants deferred at any cost.
    `max_tools`: maximum number of definitions that the provider accepts; tools beyond it are deferred even if no search
    can find them."""
    known = _unique_specs(specs)
    sizes = {spec.name: size(spec) for spec in known}
    finder_sizes = sizes.pop(SEARCH, None), sizes.pop(CALL, None)
    limit = len(known) if max_tools is None else max_tools
    count = len(sizes) + (len(known) - len(sizes) if offers_search else 0)
    is_too_many = count > limit
    if None in finder_sizes and search == "none":
        if not is_too_many:
            return frozenset()
        max_definition_tokens = sum(sizes.values())  # tools that cannot be found are deferred only if necessary
    finder_tokens = sum(filter(None, finder_sizes))
    all_tokens = sum(sizes.values()) + (finder_tokens if offers_search else 0)
    places = {spec.name: place for place, spec in enumerate(known)}
    groups = _deferrable_groups(known) if search == "grouped" else {}
    counted_groups = set[Group]()
    candidates = sorted(
        (spec for spec in known if spec.kind in _DEFER_ORDER and spec.name in sizes),
        key=lambda spec: (
            spec.name not in user_deferred,
            _DEFER_ORDER[spec.kind],
            last_uses.get(spec.name, float("-inf")),
            -places[spec.name],
        ),
    )
    deferred = list[str]()
    remaining_tokens = all_tokens
    for spec in candidates:
        if (
            remaining_tokens <= max_definition_tokens
            and count <= limit
            and spec.name not in user_deferred
            and spec.kind != "rare"
        ):
            break
        # The first deferred tool adds the search tools to the request, and the first one of a group adds that group.
        if not deferred and search != "none":
            count += 1
        elif not deferred and not offers_search:
            remaining_tokens, count = remaining_tokens + finder_tokens, count + len(known) - len(sizes)
        group = groups.get(spec.name)
        if group is not None and group not in counted_groups:
            remaining_tokens, count = remaining_tokens + size(_group_spec(group)), count + 1
            counted_groups.add(group)
        remaining_tokens, count = remaining_tokens - sizes[spec.name], count - 1
        deferred.append(spec.name)
    return frozenset(deferred) if remaining_tokens < all_tokens or is_too_many else frozenset(deferred) & user_deferred


def definitions_size(specs: Sequence[ToolSpec], size: Callable[[ToolSpec], int]) -> int:
    """Return the size of the definitions that the model sees. Of deferred tools, it sees only the groups."""
    groups = dict.fromkeys(spec.deferred for spec in specs if spec.deferred is not None and spec.deferred.name)
    visible = sum(size(spec) for spec in specs if spec.deferred is None)
    return visible + sum(size(_group_spec(group)) for group in groups)


def _unique_specs(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    chosen: dict[str, ToolSpec] = {}
    for spec in specs:
        chosen.setdefault(spec.name, spec)
    return tuple(chosen.values())


def _deferrable_groups(specs: Sequence[ToolSpec]) -> Mapping[str, Group]:
    """Return the group of each tool that may be deferred, whether or not it is."""
    return groups_of([spec.name for spec in specs if spec.kind in _DEFER_ORDER])


def _group_spec(group: Group) -> ToolSpec:
    """Return a group in the form of a tool, so that its description can be measured."""
    return ToolSpec(group.name, group.about, {})
