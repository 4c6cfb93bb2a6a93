"""Agents that users and projects write: Markdown files that say what an agent is for, what it is told and what it may
use."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.discovery import discover, ignored_hook_notices
from ebbtide.agent.extensions.extension_files import UnusableFile, text_of
from ebbtide.agent.extensions.extension_folders import ExtensionFolder
from ebbtide.agent.extensions.front_matter import flag_at, list_at, number_at, split, text_at
from ebbtide.agent.extensions.trust import TrustItem, digest_of_text, item_in
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize, pluralize

MAX_DESCRIPTION_CHARS = 200
"""Characters of a description that the model reads."""
_TURNS = ("maxTurns", "max_turns", "steps", "maxSteps")
"""How programs call the requests that an agent may make."""
_NAME = re.compile(r"[\w.:-]{1,64}")


@dataclass(frozen=True, slots=True)
class AgentFile:
    """One that can be sent off, as far as it is approved."""

    name: str
    description: str
    prompt: str
    """What it is told."""
    tools: tuple[str, ...] | None
    """As they are written, in the names of whatever program; None: all."""
    without: tuple[str, ...]
    """Those that it is not to have, as they are written."""
    model: str
    """As it is written; empty: the usual one."""
    only_plans: bool
    item: TrustItem
    has_hooks: bool = False
    """Its file says hooks, which do not run."""
    max_turns: int | None = None
    """Requests that it may make at most; None: as many as usual."""
    plugin: str = ""
    """The name of the plugin that brings it."""
    skills: tuple[str, ...] = ()
    """Those that it works by, as they are written."""

    def with_name(self, name: str) -> Self:
        return replace(self, name=name)


def find_agents(config: Config) -> tuple[tuple[AgentFile, ...], tuple[str, ...]]:
    """All that are there, and why others are left out, a line each."""
    found, problems = discover("agent", config, _read_agent)
    return found, (*problems, *ignored_hook_notices("agent", found))


def line_of(agent: AgentFile) -> str:
    return f"- {agent.name}: {ellipsize(agent.description, MAX_DESCRIPTION_CHARS)}"


def is_named(agent: AgentFile, known: str) -> bool:
    """Whether a list of agents has one of its name: with what it is for, or among those that are only named."""
    return re.search(rf"(?:^- |[:,] ){re.escape(agent.name)}(?:[:,]|$)", known, re.MULTILINE) is not None


def _read_agent(path: Path, place: ExtensionFolder) -> AgentFile | None:
    """None for what another program does not send off either."""
    written = text_of(path, place.boundary)
    head, prompt = split(written)
    name, description = (text_at(head, "name") or path.stem).replace(" ", "-"), text_at(head, "description")
    if flag_at(head, "disable") or text_at(head, "mode") == "primary":
        return None
    if not head and path.stem.lower() == "readme":
        return None
    if not _NAME.fullmatch(name):
        raise UnusableFile("its name holds what cannot be in the name of an agent")
    if not description:
        raise UnusableFile("it has no description")
    if not prompt.strip():
        raise UnusableFile("it does not say what the agent is told")
    tools, without = _tools(head)
    model, mode = text_at(head, "model"), text_at(head, "permissionMode")
    shown = [f"says: {description} ({pluralize(len(prompt.splitlines()), 'line')})"]
    shown += [f"has the tools: {', '.join(tools)}"] if tools is not None else []
    shown += [f"runs with the model: {model}"] if model else []
    item = item_in(place, name, path, digest_of_text(written), shown)
    told, has_hooks = place.with_folder(prompt.strip()), bool(head.get("hooks"))
    most = next(filter(None, (number_at(head, key) for key in _TURNS)), None)
    return AgentFile(
        name,
        description,
        told,
        tools,
        without,
        model,
        mode == "plan",
        item,
        has_hooks,
        most,
        place.plugin,
        list_at(head, "skills") or (),
    )


def _is_denied(verdict: object) -> bool:
    """Whether all calls of a tool are denied, where patterns may say of each."""
    said = list(verdict.values()) if isinstance(verdict, Mapping) else [verdict]
    return bool(said) and all(one == "deny" for one in said)


def _tools(head: Mapping[str, object]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The tools that it has, and those that it has not. A table says of each whether it has it; one that is not named
    there it has."""
    without, said = list_at(head, "disallowedTools") or (), head.get("tools")
    permission = head.get("permission")
    if isinstance(permission, Mapping):  # opencode's newer form, in which to write is to edit
        denied = [str(name) for name, verdict in permission.items() if _is_denied(verdict)]
        without = (*without, *denied, *(("write",) if "edit" in denied else ()))
    if isinstance(said, Mapping):
        refused = tuple(str(name) for name in said if not flag_at(said, name))
        if "*" not in refused:
            return None, (*without, *refused)
        return tuple(str(name) for name in said if flag_at(said, name)), without
    if said is not None and not isinstance(said, str | list):
        raise UnusableFile("its `tools` are no list of names")
    tools = list_at(head, "tools")
    return (None if not tools or "*" in tools else tools), without
