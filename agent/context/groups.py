"""Tools in groups, for providers whose search looks for groups of them. Pure: names in, groups out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST = 10
"""Tools of a group: a search may load all of one."""
LONGEST = 64
"""Characters of a group's name."""
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
        for start in range(0, len(tools), MOST):
            members = tools[start : start + MOST]
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
    return text if len(text) <= _ABOUT else f"{text[: _ABOUT - 1]}…"


def _free(name: str, taken: set[str]) -> str:
    """The name, or the first of `name_2`, `name_3`, … that is not taken."""
    count, free = 1, name[:LONGEST]
    while free in taken:
        count += 1
        suffix = f"_{count}"
        free = f"{name[: LONGEST - len(suffix)]}{suffix}"
    return free
