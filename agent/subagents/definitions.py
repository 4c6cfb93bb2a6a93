"""Sub-agent definitions, each with a description, a prompt and tools."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ebbtide.agent.calls.policy import server_prefix
from ebbtide.agent.config.options import PermissionMode
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.task import BUILT_IN_AGENTS
from ebbtide.tools.tool_traits import builtin_traits

FINAL_MESSAGE_INSTRUCTIONS = (
    "Another model gave you this task and sees only your last message, so make it self-contained. Give the answer "
    "first, then the line `Findings`, followed by one line for each finding: `- path:line: what is there`. Say what "
    "you did not find or could not do. You cannot ask questions."
)


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    name: str
    description: str
    """The agent's purpose, as shown to the model that may start it."""
    prompt: str
    """The agent's own prompt, which is added to the standard system prompt."""
    tools: tuple[str, ...] | None = None
    """Names of the agent's tools; `mcp__SERVER` means all of a server's tools. None means all of the parent session's
    tools."""
    denied_tools: tuple[str, ...] = ()
    """Names of tools that the agent must not have, written as in `tools`."""
    model: str | None = None
    most_permissive_mode: PermissionMode = "auto"
    """The most permissive mode that the sub-agent may have. A stricter mode of the parent session takes precedence."""
    runs_hooks: bool = True
    """Whether hooks run for the agent's calls."""
    max_requests: int | None = None
    """Maximum number of requests; None if only the general limit applies."""
    plugin_name: str = ""
    """Name of the plugin that defines it."""

    def allows_tool(self, tool: str) -> bool:
        """Whether the agent gets a tool of this name, if its parent session has it."""
        server = server_prefix(tool)
        names = {tool, *((server, f"{server}__*") if server else ())}
        return names.isdisjoint(self.denied_tools) and (self.tools is None or not names.isdisjoint(self.tools))


def find_definition(definitions: Sequence[AgentDefinition], name: str) -> AgentDefinition | None:
    """Find a definition by the name that a model wrote: the exact name, the same name in another case or with spaces
    instead of hyphens, or `PLUGIN:NAME`. None if no definition matches."""
    normalised = name.strip().replace(" ", "-").lower()
    predicates = (
        lambda definition: definition.name == name,
        lambda definition: definition.name.lower() == normalised,
        lambda definition: (
            bool(definition.plugin_name) and f"{definition.plugin_name}:{definition.name}".lower() == normalised
        ),
    )
    return next((definition for matches in predicates for definition in definitions if matches(definition)), None)


@cache
def read_only_tool_names() -> tuple[str, ...]:
    """Return the names of the tools that read-only agents have."""
    return tuple(name for name, traits in builtin_traits().items() if traits.is_for_read_only_agents)


def built_in_agents() -> tuple[AgentDefinition, ...]:
    return tuple(
        AgentDefinition(name, description, _prompt_text(name), read_only_tool_names(), most_permissive_mode="plan")
        for name, description in BUILT_IN_AGENTS.items()
    )


def _prompt_text(name: str) -> str:
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").strip()
