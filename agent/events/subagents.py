"""Events of sub-agents. They are plain data: shown, printed and stored unchanged."""

from typing import Literal, TypeAlias

from ebbtide.agent.messages import Usage
from ebbtide.tools.lazy import dataclass

AgentEnd: TypeAlias = Literal[
    "answered", "interrupted", "step_limit", "cost_limit", "context_limit", "repeated_calls", "repeated_text", "failed"
]


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """A sub-agent starts its task."""

    agent: str
    """Id of the sub-agent's session."""
    call_id: str
    """Id of the `task` call that started it."""
    name: str
    model: str
    mode: str
    prompt: str


@dataclass(frozen=True, slots=True)
class AgentReference:
    """An output that a sub-agent received, with a reference for recall."""

    reference: str
    call: str
    """The call, in one line."""


@dataclass(frozen=True, slots=True)
class AgentFinished:
    """A sub-agent has finished, with its result."""

    agent: str
    call_id: str
    name: str
    end: AgentEnd
    answer: str
    findings: tuple[str, ...] = ()
    """The items listed under `Findings` in the sub-agent's answer."""
    changed: tuple[str, ...] = ()
    """Files that it created, changed or deleted, relative to the working folder."""
    read: tuple[str, ...] = ()
    """Files that it has read, relative to the working folder."""
    references: tuple[AgentReference, ...] = ()
    steps: int = 0
    usage: Usage = Usage()
    cost: float | None = 0.0
    """US dollars, or None if the price of any request is unknown."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """A sub-agent that is queued or running, as shown in a list. Plain data, not an event."""

    call_id: str
    """Id of the `task` call that started it."""
    name: str
    prompt: str
    agent: str = ""
    """Id of its session; empty while it is queued."""
    seconds: float = 0.0
    tokens: int = 0
    """Tokens used by its requests so far."""


SubagentEvent: TypeAlias = AgentStarted | AgentFinished
