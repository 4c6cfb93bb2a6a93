"""The `task` tool: delegates work to a sub-agent with its own context, and returns its result."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.schema import get_text, object_schema
from ebbtide.tools.tool_traits import ToolTraits, first_line, text_argument

RunAgent: TypeAlias = Callable[[str, str, Workspace], Awaitable[Result]]
"""Runs the named agent with a prompt. Raises `ToolError`."""


async def no_delegate(agent: str, prompt: str, workspace: Workspace) -> Result:
    raise ToolError("you are a sub-agent, and sub-agents cannot start others: use your own tools")


BUILT_IN_AGENTS: Mapping[str, str] = {"explore": "read-only search", "review": "read-only judge of code or a diff"}
"""The built-in sub-agents, by name, with their descriptions."""
MAX_LISTED_AGENTS = 20
"""Maximum number of sub-agents listed with their descriptions."""


def _subject(arguments: Arguments) -> str:
    return f"{text_argument(arguments, 'agent')}  {first_line(text_argument(arguments, 'prompt'))}"


class Task:
    name = "task"
    effect: Effect = "none"
    traits = ToolTraits(
        role="start_agent",
        output_limit="file",
        output_content="report",
        acp_kind="think",
        get_subject=_subject,
        aliases="agent spawn_agent delegate",
        argument_aliases={"agent": "subagent_type agent_type agent_name subagent"},
        claude_names=("Task", "Agent"),
        claude_arguments={"agent": "subagent_type"},
        small_window_policy="optional",
    )

    def __init__(self, agents: Mapping[str, str] | None = None, delegate: RunAgent = no_delegate) -> None:
        """`agents`: descriptions of sub-agents, by name."""
        self._agents = dict(agents or {})
        self._delegate = delegate

    @property
    def description(self) -> str:
        lines = [f"- {name}: {agent_description}" for name, agent_description in self._agents.items()][
            :MAX_LISTED_AGENTS
        ]
        if further_names := list(self._agents)[MAX_LISTED_AGENTS:]:
            lines.append(f"Further agents: {', '.join(further_names)}")
        return "\n".join([read_description(__file__), *lines])

    @property
    def schema(self) -> Mapping[str, object]:
        agent_schema: dict[str, object] = {"type": "string"}
        return object_schema({"agent": agent_schema, "prompt": {"type": "string"}}, required=("agent", "prompt"))

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        agent, prompt = get_text(arguments, "agent").strip(), get_text(arguments, "prompt").strip()
        if not prompt:
            raise ToolError("the prompt is empty: say what the agent should do, and what its answer must contain")
        return await self._delegate(agent, prompt, workspace)
