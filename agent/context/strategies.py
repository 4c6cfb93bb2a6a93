"""The compaction strategies, their order for each cause, and the room they must make. Pure; implemented in
`ebbtide.agent.context.apply_strategy`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.estimate import estimate_message
from ebbtide.agent.context.mask import visible_messages
from ebbtide.agent.context.summary import summary_messages
from ebbtide.agent.events.view import Cause
from ebbtide.agent.messages import Conversation, Message

Strategy: TypeAlias = Literal[
    "mask", "share", "summary", "chunks", "ledger", "mask_all", "attachments", "cut", "drop", "last", "pictures",
    "least", "references", "step", "words",
]  # fmt: skip
"""One strategy: mask old outputs; cut unseen outputs to a fair share; summary by the model that has the conversation
cached (or one that the user set); summary in chunks; facts only; mask all seen outputs; shorten attachments of the open
request; cut unseen outputs to the remaining room while that is worth reading; drop the older half of the turns; keep
only the last message and the unseen step; remove the pictures of both; cut unseen outputs as far as possible; reduce
each of them to a line; drop the step and name it; shorten long user text."""

CUT_STRATEGIES: frozenset[str] = frozenset({"share", "cut", "least"})
"""Strategies that only show less of unseen outputs. They change nothing that was sent."""

TOOLS = "tools"
"""Runs before the strategies if the tools leave too little room: as many as possible are deferred."""

LADDERS: dict[Cause, tuple[Strategy, ...]] = {
    "full": (
        "mask", "share", "summary", "ledger", "mask_all", "attachments", "cut", "drop", "last", "pictures", "least",
        "references", "step",
    ),
    "background": ("mask", "summary", "ledger", "mask_all"),
    "asked": ("summary", "ledger"),
    "overflow": (
        "mask_all", "share", "chunks", "ledger", "attachments", "cut", "drop", "last", "least", "pictures",
        "references", "words",
    ),
    "rent": ("mask", "summary"),
    "cold": ("mask",),
    "budget": ("mask",),
    "pictures": ("pictures", "mask_all", "ledger"),
}  # fmt: skip
"""After an overflow pictures stay as long as text can be removed: their size is only guessed, and so is the room if no
provider has named it."""


@dataclass(frozen=True, slots=True)
class Room:
    """The window as a compaction sees it."""

    effective: int
    system: int
    tools: int
    trigger: float = 0.95
    scale: float = 1.0
    """Actual tokens of the conversation per estimated token, at least 1. What precedes it is known better and is not
    scaled."""
    buffer: int = 0
    """Tokens beyond `effective` that a request for a summary may take."""
    deferrable: int = 0
    """Tokens of the tool definitions that could still be deferred."""
    ratio: float = 1.0
    """Actual tokens of the conversation per estimated token, also below 1."""

    @property
    def fixed_tokens(self) -> int:
        return self.system + self.tools

    @property
    def with_tools_deferred(self) -> "Room":
        return replace(self, tools=self.tools - self.deferrable, deferrable=0)

    def holds(self, conversation: Conversation) -> bool:
        """Whether a request for a summary of the conversation fits into the window."""
        return self.request_tokens(size_of(conversation)) <= self.effective + self.buffer

    def share(self, conversation: Conversation) -> float:
        """Share of the window that a request would take."""
        return self.request_tokens(size_of(conversation)) / max(self.effective, 1)

    def request_tokens(self, messages: int) -> float:
        """Tokens of a request whose messages are estimated at `messages`."""
        return self.fixed_tokens + messages * self.scale

    @property
    def messages(self) -> int:
        """Estimated tokens that messages may take before the view has to be rewritten."""
        return max(int((self.trigger * self.effective - self.fixed_tokens) / self.scale), 0)


def size_of(conversation: Conversation, size: Callable[[Message], int] = estimate_message) -> int:
    """Estimated tokens of a conversation as shown."""
    return sum(map(size, (*summary_messages(conversation.summary), *visible_messages(conversation))))


def room_of(budget: ContextBudget, conversation: Conversation, counted: int | None, spare: float = 0.0) -> Room:
    """Return the room for a compaction. Later sizes can only be estimated, so they are scaled by the provider's count
    over the estimate. `spare`: share of the tool definitions that could still be deferred."""
    system = budget.system + budget.instructions + budget.memories + budget.skills
    fixed, estimated, window = system + budget.tools, max(size_of(conversation), 1), budget.window
    scale = min(max((max(counted or 0, budget.used) - fixed) / estimated, 1.0), 3.0)
    ratio = min(max((budget.used - fixed) / estimated, 0.25), 3.0)
    deferrable, trigger = int(budget.tools * spare), window.compact_trigger
    return Room(window.effective, system, budget.tools, trigger, scale, window.buffer, deferrable, ratio)
