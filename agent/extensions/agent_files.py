"""Agents defined by users and projects: Markdown files with an agent's description, prompt and tools."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.discovery import discover_extensions, ignored_hook_notices
from ebbtide.agent.extensions.extension_files import UnusableFileError, read_text_file
from ebbtide.agent.extensions.extension_folders import ExtensionFolder
from ebbtide.agent.extensions.front_matter import (
    boolean_value,
    list_value,
    one_line_value,
    positive_integer,
    split_front_matter,
)
from ebbtide.agent.extensions.trust import TrustItem, create_trust_item, hash_texts
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize, pluralize

MAX_DESCRIPTION_CHARS = 200
"""Maximum length of a description in the model's list of agents, in characters."""
_MAX_REQUESTS_KEYS = ("maxTurns", "max_turns", "steps", "maxSteps")
"""Keys that other programs use for the maximum number of requests."""
_NAME = re.compile(r"[\w.:-]{1,64}")


@dataclass(frozen=True, slots=True)
class AgentFile:
    """An agent definition. It can be used once it is approved."""

    name: str
    description: str
    prompt: str
    """The agent's system prompt."""
    allowed_tools: tuple[str, ...] | None
    """The allowed tools as written, in any program's naming; None means all tools."""
    denied_tools: tuple[str, ...]
    """Tools that the agent must not have, as written."""
    model: str
    """The model as written; empty for the default."""
    is_plan_only: bool
    trust_item: TrustItem
    has_hooks: bool = False
    """Whether the file declares hooks, which are not run."""
    max_requests: int | None = None
    """Maximum number of requests; None for the default."""
    plugin_name: str = ""
    """The name of the plugin that contains the agent; empty if none does."""
    skills: tuple[str, ...] = ()
    """The skills that the agent uses, as written."""

    def with_name(self, name: str) -> Self:
        return replace(self, name=name)


def find_agents(config: Config) -> tuple[tuple[AgentFile, ...], tuple[str, ...]]:
    """Return all agents, and one line for each file that was skipped."""
    agents, problems = discover_extensions("agent", config, _read_agent)
    return agents, (*problems, *ignored_hook_notices("agent", agents))


def format_agent_line(agent: AgentFile) -> str:
    return f"- {agent.name}: {ellipsize(agent.description, MAX_DESCRIPTION_CHARS)}"


def is_listed(agent: AgentFile, agent_list: str) -> bool:
    """Whether a list of agents, as shown to the model, contains this agent, either with its description or only by
    name."""
    return re.search(rf"(?:^- |[:,] ){re.escape(agent.name)}(?:[:,]|$)", agent_list, re.MULTILINE) is not None


def _read_agent(path: Path, extension_folder: ExtensionFolder) -> AgentFile | None:
    """Parse an agent file. None if other programs do not offer this agent as a sub-agent."""
    file_text = read_text_file(path, extension_folder.boundary)
    front_matter, prompt = split_front_matter(file_text)
    name = (one_line_value(front_matter, "name") or path.stem).replace(" ", "-")
    description = one_line_value(front_matter, "description")
    if boolean_value(front_matter, "disable") or one_line_value(front_matter, "mode") == "primary":
        return None
    if not front_matter and path.stem.lower() == "readme":
        return None
    if not _NAME.fullmatch(name):
        raise UnusableFileError("its name contains characters that are not allowed")
    if not description:
        raise UnusableFileError("it has no description")
    if not prompt.strip():
        raise UnusableFileError("it has no prompt")
    tools, denied_tools = _allowed_and_denied_tools(front_matter)
    model, mode = one_line_value(front_matter, "model"), one_line_value(front_matter, "permissionMode")
    details = [f"says: {description} ({pluralize(len(prompt.splitlines()), 'line')})"]
    details += [f"has the tools: {', '.join(tools)}"] if tools is not None else []
    details += [f"runs with the model: {model}"] if model else []
    item = create_trust_item(extension_folder, name, path, hash_texts(file_text), details)
    full_prompt = extension_folder.expand_plugin_root(prompt.strip())
    has_hooks = bool(front_matter.get("hooks"))
    max_requests = next(filter(None, (positive_integer(front_matter, key) for key in _MAX_REQUESTS_KEYS)), None)
    return AgentFile(
        name,
        description,
        full_prompt,
        tools,
        denied_tools,
        model,
        mode == "plan",
        item,
        has_hooks,
        max_requests,
        extension_folder.plugin_name,
        list_value(front_matter, "skills") or (),
    )


def _denies_all(permission: object) -> bool:
    """Whether a permission denies all uses of a tool, rather than only some patterns."""
    verdicts = list(permission.values()) if isinstance(permission, Mapping) else [permission]
    return bool(verdicts) and all(nested_verdict == "deny" for nested_verdict in verdicts)


def _allowed_and_denied_tools(front_matter: Mapping[str, object]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the allowed and the denied tools; None means that all are allowed. If `tools` is a table, tools that it
    does not list are allowed."""
    denied_tools, tools_value = list_value(front_matter, "disallowedTools") or (), front_matter.get("tools")
    permission = front_matter.get("permission")
    if isinstance(permission, Mapping):  # opencode's newer format, in which "edit" includes writing
        denied_names = [str(name) for name, verdict in permission.items() if _denies_all(verdict)]
        denied_tools = (*denied_tools, *denied_names, *(("write",) if "edit" in denied_names else ()))
    if isinstance(tools_value, Mapping):
        disabled_names = tuple(str(name) for name in tools_value if not boolean_value(tools_value, name))
        if "*" not in disabled_names:
            return None, (*denied_tools, *disabled_names)
        return tuple(str(name) for name in tools_value if boolean_value(tools_value, name)), denied_tools
    if tools_value is not None and not isinstance(tools_value, str | list):
        raise UnusableFileError("its `tools` is not a list of names")
    tools = list_value(front_matter, "tools")
    return (None if not tools or "*" in tools else tools), denied_tools
