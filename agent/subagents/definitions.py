"""Which agents there are: what each is for, what it is told, what it may use."""

from collections.abc import Sequence
from pathlib import Path

from ebbtide.agent.calls.policy import server_of
from ebbtide.agent.config.options import Mode
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.task import BUILT_IN

READING = ("read", "grep", "glob", "bash", "read_result", "recall")
"""What agents are given that change nothing. Their mode lets `bash` only look."""
HAND_BACK = (
    "You were sent off by another model, which sees nothing but your last message: make it whole. Give the answer "
    "first, then under a line `Findings` one line each, `- path:line: what is there`. Say what you did not find or "
    "could not do. Nobody answers questions."
)


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    name: str
    description: str
    """What it is for, as the model that sends it off reads it."""
    prompt: str
    """What it is told besides what every session is told."""
    tools: tuple[str, ...] | None = None
    """Names of tools, `mcp__SERVER` for all of a server; None: all that its session has."""
    without: tuple[str, ...] = ()
    """Names of tools that it has not, likewise."""
    model: str | None = None
    mode: Mode = "auto"
    """The most that it may do; its session's mode holds besides."""
    runs_hooks: bool = True
    """Hooks are told of its calls."""
    max_turns: int | None = None
    """Requests that it may make, where that is fewer than usual."""
    plugin: str = ""
    """The name of the plugin that brings it."""

    def has(self, tool: str) -> bool:
        """Whether it is given a tool of that name where its session has it."""
        server = server_of(tool)
        names = {tool, *((server, f"{server}__*") if server else ())}
        return names.isdisjoint(self.without) and (self.tools is None or not names.isdisjoint(self.tools))


def find_definition(definitions: Sequence[AgentDefinition], name: str) -> AgentDefinition | None:
    """The one that a model means: by its name, also in other letters or with blanks in it, or, as other programs call
    those of plugins, behind the name of the plugin."""
    plain = name.strip().replace(" ", "-").lower()
    fitting = (
        lambda each: each.name == name,
        lambda each: each.name.lower() == plain,
        lambda each: bool(each.plugin) and f"{each.plugin}:{each.name}".lower() == plain,
    )
    return next((each for fits in fitting for each in definitions if fits(each)), None)


def built_in() -> tuple[AgentDefinition, ...]:
    """The agents that come with the program."""
    return tuple(
        AgentDefinition(name, purpose, _text(name), READING, mode="plan") for name, purpose in BUILT_IN.items()
    )


def _text(name: str) -> str:
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").strip()
