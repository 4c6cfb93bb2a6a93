"""Agents defined by users and projects: Markdown files with an agent's description, prompt and tools."""

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
"""Maximum length of a description in the model's list of agents, in characters."""
_TURNS = ("maxTurns", "max_turns", "steps", "maxSteps")
"""Keys that other programs use for the maximum number of requests."""
_NAME = re.compile(r"[\w.:-]{1,64}")


@dataclass(frozen=True, slots=True)
class AgentFile:
    """An agent definition; usable once approved."""

    name: str
    description: str
    prompt: str
    """The agent's system prompt."""
    tools: tuple[str, ...] | None
    """Tool names as written, in any program's naming; None means all tools."""
    without: tuple[str, ...]
    """Tools that the agent must not have, as written."""
    model: str
    """The model as written; empty for the default."""
    only_plans: bool
    item: TrustItem
    has_hooks: bool = False
    """Whether the file declares hooks, which are not run."""
    max_turns: int | None = None
    """Maximum number of requests; None for the default."""
    plugin: str = ""
    """The name of the plugin that contains it."""
    skills: tuple[str, ...] = ()
    """The skills that the agent uses, as written."""

    def with_name(self, name: str) -> Self:
        return replace(self, name=name)


def find_agents(config: Config) -> tuple[tuple[AgentFile, ...], tuple[str, ...]]:
    """Return all agents, and one line for each file that was left out."""
    found, problems = discover("agent", config, _read_agent)
    return found, (*problems, *ignored_hook_notices("agent", found))


def line_of(agent: AgentFile) -> str:
    return f"- {agent.name}: {ellipsize(agent.description, MAX_DESCRIPTION_CHARS)}"


def is_named(agent: AgentFile, known: str) -> bool:
    """Whether a list of agents contains this one, with its description or by name only."""
    return re.search(rf"(?:^- |[:,] ){re.escape(agent.name)}(?:[:,]|$)", known, re.MULTILINE) is not None


def _read_agent(path: Path, place: ExtensionFolder) -> AgentFile | None:
    """Parse an agent file. Return None for agents that other programs do not offer as sub-agents either."""
    written = text_of(path, place.boundary)
    head, prompt = split(written)
    name, description = (text_at(head, "name") or path.stem).replace(" ", "-"), text_at(head, "description")
    if flag_at(head, "disable") or text_at(head, "mode") == "primary":
        return None
    if not head and path.stem.lower() == "readme":
        return None
    if not _NAME.fullmatch(name):
        raise UnusableFile("its name contains characters that are not allowed")
    if not description:
        raise UnusableFile("it has no description")
    if not prompt.strip():
        raise UnusableFile("it has no prompt")
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
    """Whether every pattern for a tool is denied."""
    said = list(verdict.values()) if isinstance(verdict, Mapping) else [verdict]
    return bool(said) and all(one == "deny" for one in said)


def _tools(head: Mapping[str, object]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the allowed and the denied tools. In a table, tools that are not listed are allowed."""
    without, said = list_at(head, "disallowedTools") or (), head.get("tools")
    permission = head.get("permission")
    if isinstance(permission, Mapping):  # opencode's newer format, in which "edit" includes writing
        denied = [str(name) for name, verdict in permission.items() if _is_denied(verdict)]
        without = (*without, *denied, *(("write",) if "edit" in denied else ()))
    if isinstance(said, Mapping):
        refused = tuple(str(name) for name in said if not flag_at(said, name))
        if "*" not in refused:
            return None, (*without, *refused)
        return tuple(str(name) for name in said if flag_at(said, name)), without
    if said is not None and not isinstance(said, str | list):
        raise UnusableFile("its `tools` is not a list of names")
    tools = list_at(head, "tools")
    return (None if not tools or "*" in tools else tools), without
