"""The `task` tool: delegates work to a sub-agent with its own context, and returns its result."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.schema import object_of, text

Delegate: TypeAlias = Callable[[str, str, Workspace], Awaitable[Result]]
"""Runs the named agent with a prompt. Raises `ToolError`."""


async def no_delegate(agent: str, prompt: str, workspace: Workspace) -> Result:
    raise ToolError("you are a sub-agent, and sub-agents cannot start others: use your own tools")


BUILT_IN: Mapping[str, str] = {"explore": "read-only search", "review": "read-only judge of code or a diff"}
"""Names and purposes of the built-in agents."""
MAX_LISTED = 20
"""Maximum number of agents listed with their purpose."""


class Task:
    name = "task"
    effect: Effect = "none"

    def __init__(self, agents: Mapping[str, str] | None = None, delegate: Delegate = no_delegate) -> None:
        """`agents` maps names to purposes."""
        self._agents = dict(agents or {})
        self._delegate = delegate

    @property
    def description(self) -> str:
        lines = [f"- {name}: {purpose}" for name, purpose in self._agents.items()][:MAX_LISTED]
        if left := list(self._agents)[MAX_LISTED:]:
            lines.append(f"Further agents: {', '.join(left)}")
        return "\n".join([read_description(__file__), *lines])

    @property
    def schema(self) -> Mapping[str, object]:
        named: dict[str, object] = {"type": "string"}
        return object_of({"agent": named, "prompt": {"type": "string"}}, required=("agent", "prompt"))

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        agent, prompt = text(arguments, "agent").strip(), text(arguments, "prompt").strip()
        if not prompt:
            raise ToolError("the prompt is empty: say what the agent is to do, and what its answer must contain")
        return await self._delegate(agent, prompt, workspace)
