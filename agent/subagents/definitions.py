"""Sub-agent definitions: description, prompt and tools of each."""

from collections.abc import Sequence
from pathlib import Path

from ebbtide.agent.calls.policy import server_of
from ebbtide.agent.config.options import Mode
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.task import BUILT_IN

READING = ("read", "grep", "glob", "bash", "read_result", "recall")
"""Tools of read-only agents. Their mode restricts `bash` to reading."""
HAND_BACK = (
    "You were sent off by another model, which sees nothing but your last message: make it whole. Give the answer "
    "first, then under a line `Findings` one line each, `- path:line: what is there`. Say what you did not find or "
    "could not do. Nobody answers questions."
)


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    name: str
    description: str
    """Its purpose, as the model that starts it reads it."""
    prompt: str
    """Added to the standard system prompt."""
    tools: tuple[str, ...] | None = None
    """Names of tools, `mcp__SERVER` for all of a server; None for all tools of the parent session."""
    without: tuple[str, ...] = ()
    """Names of excluded tools, in the same form."""
    model: str | None = None
    mode: Mode = "auto"
    """The most permissive mode that it may have; the parent session's mode applies as well."""
    runs_hooks: bool = True
    """Whether hooks run for its calls."""
    max_turns: int | None = None
    """Maximum number of requests, if fewer than usual."""
    plugin: str = ""
    """Name of the plugin that defines it."""

    def has(self, tool: str) -> bool:
        """Whether it gets a tool of that name if its parent session has it."""
        server = server_of(tool)
        names = {tool, *((server, f"{server}__*") if server else ())}
        return names.isdisjoint(self.without) and (self.tools is None or not names.isdisjoint(self.tools))


def find_definition(definitions: Sequence[AgentDefinition], name: str) -> AgentDefinition | None:
    """Return the definition that a model means: by its name, ignoring case and with blanks for hyphens, or with the
    plugin's name as a prefix, as in other programs."""
    plain = name.strip().replace(" ", "-").lower()
    fitting = (
        lambda each: each.name == name,
        lambda each: each.name.lower() == plain,
        lambda each: bool(each.plugin) and f"{each.plugin}:{each.name}".lower() == plain,
    )
    return next((each for fits in fitting for each in definitions if fits(each)), None)


def built_in() -> tuple[AgentDefinition, ...]:
    """Return the built-in agents."""
    return tuple(
        AgentDefinition(name, purpose, _text(name), READING, mode="plan") for name, purpose in BUILT_IN.items()
    )


def _text(name: str) -> str:
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").strip()
