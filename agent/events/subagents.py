"""What happens with agents that a session sends off. Events are plain data: shown, printed and stored unchanged."""

from typing import Literal, TypeAlias

from ebbtide.agent.messages import Usage
from ebbtide.tools.lazy import dataclass

AgentEnd: TypeAlias = Literal[
    "answered", "interrupted", "step_limit", "cost_limit", "context_limit", "repeated_calls", "repeated_text", "failed"
]


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """An agent begins with its task."""

    agent: str
    """The id of its session."""
    call_id: str
    """The call of `task` that sent it off."""
    name: str
    model: str
    mode: str
    prompt: str


@dataclass(frozen=True, slots=True)
class AgentReference:
    """An output that an agent was given, by which it can be recalled."""

    reference: str
    call: str
    """What was called, in one line."""


@dataclass(frozen=True, slots=True)
class AgentFinished:
    """An agent is done, with what it hands back."""

    agent: str
    call_id: str
    name: str
    end: AgentEnd
    answer: str
    findings: tuple[str, ...] = ()
    """What it lists under `Findings` in its answer."""
    changed: tuple[str, ...] = ()
    """Files that it created, changed or deleted, relative to the working folder."""
    read: tuple[str, ...] = ()
    """Files that it has seen, likewise."""
    references: tuple[AgentReference, ...] = ()
    steps: int = 0
    usage: Usage = Usage()
    cost: float | None = 0.0
    """US dollars, or None when the price of a request is not known."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """An agent that was sent off and is not done, as a list shows it. Not an event, but plain data all the same."""

    call_id: str
    """The call of `task` that sent it off."""
    name: str
    prompt: str
    agent: str = ""
    """The id of its session; empty while it waits for another one to be done."""
    seconds: float = 0.0
    tokens: int = 0
    """What its requests have taken so far."""


SubagentEvent: TypeAlias = AgentStarted | AgentFinished
