"""How much of the window a request takes, and what follows from it. Pure; tokens everywhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agent.context.estimate import estimate_messages, estimate_text, estimate_tools
from agent.context.prompt import Prompt
from agent.context.select import ToolSpec
from agent.messages import Conversation

Verdict = Literal["fits", "compact", "block"]


@dataclass(frozen=True, slots=True)
class Window:
    """A model's window, and what is kept free of it."""

    size: int
    output: int
    """Reserved for the reply."""
    buffer: int = 8192
    """Reserved for errors of the estimate."""
    compact_trigger: float = 0.95
    hard_block: float = 0.98

    @property
    def effective(self) -> int:
        """What a request may take. In a window too small for its reserves, a quarter of it."""
        return max(self.size - self.output - self.buffer, self.size // 4)


@dataclass(frozen=True, slots=True)
class Budget:
    """The tokens of the next request by component, against the window they must fit into."""

    window: Window
    system: int
    tools: int
    summary: int
    history: int

    @property
    def used(self) -> int:
        return self.system + self.tools + self.summary + self.history

    @property
    def remaining(self) -> int:
        return self.window.effective - self.used

    @property
    def verdict(self) -> Verdict:
        if self.used > self.window.hard_block * self.window.effective:
            return "block"
        if self.used > self.window.compact_trigger * self.window.effective:
            return "compact"
        return "fits"


def measure(prompt: Prompt, conversation: Conversation, tools: Sequence[ToolSpec], window: Window) -> Budget:
    """The budget of the next request. What a provider has counted is taken as counted; the rest is estimated."""
    system, schemas = estimate_text(prompt.system), estimate_tools(tools)
    summary = estimate_text(conversation.summary)
    if conversation.anchor is None:
        return Budget(window, system, schemas, summary, estimate_messages(conversation.messages))
    unseen = estimate_messages(conversation.messages[conversation.anchored :])
    history = max(conversation.anchor.total - system - schemas - summary, 0) + unseen
    return Budget(window, system, schemas, summary, history)
