"""The strategies by which a view gets smaller, in which order they are tried, and the room that they are to make. Pure:
what each does is in `ebbtide.agent.context.apply_strategy`."""

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
"""One strategy: old outputs masked, unseen outputs cut to a fair share of the window, a summary by the model that has
the conversation in its cache (or one that the user set), the same piece by piece, facts only, all outputs masked that
were seen, what came with the open request shown in part, unseen outputs cut to what is left while that is worth
reading, older half of the turns dropped, the last message and the unseen step, both without their pictures,
unseen outputs cut as far as can be, a line for each of them, the step gone and named, long words of the user by both
ends."""

CUT_STRATEGIES: frozenset[str] = frozenset({"share", "cut", "least"})
"""The strategies that show less of what the model has not seen yet. Nothing that was sent changes by them."""

TOOLS = "tools"
"""What precedes them where the tools leave too little room: as many as possible are held back."""

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
"""After an overflow pictures stay as long as texts can go: what they take is only guessed, as is what there is room for
where no provider has named it."""


@dataclass(frozen=True, slots=True)
class Room:
    """The window as a compaction sees it."""

    effective: int
    system: int
    tools: int
    trigger: float = 0.95
    scale: float = 1.0
    """Tokens of the conversation that the provider counts for one that is estimated, when it counts more. What stands
    before it is known better, and does not get smaller with it."""
    buffer: int = 0
    """Tokens beyond `effective` that a request for a summary may take."""
    deferrable: int = 0
    """Tokens of the tool definitions that could be held back yet."""
    ratio: float = 1.0
    """Tokens of the conversation that the provider counts for one that is estimated, also when it counts fewer."""

    @property
    def fixed_tokens(self) -> int:
        return self.system + self.tools

    @property
    def with_tools_deferred(self) -> "Room":
        return replace(self, tools=self.tools - self.deferrable, deferrable=0)

    def holds(self, conversation: Conversation) -> bool:
        """Whether a request that asks for a summary of the conversation fits into the window."""
        return self.request_tokens(size_of(conversation)) <= self.effective + self.buffer

    def share(self, conversation: Conversation) -> float:
        """The part of the window that a request would take."""
        return self.request_tokens(size_of(conversation)) / max(self.effective, 1)

    def request_tokens(self, messages: int) -> float:
        """Tokens of a request whose messages are estimated at so many."""
        return self.fixed_tokens + messages * self.scale

    @property
    def messages(self) -> int:
        """Estimated tokens that messages may take before the view has to be rewritten."""
        return max(int((self.trigger * self.effective - self.fixed_tokens) / self.scale), 0)


def size_of(conversation: Conversation, size: Callable[[Message], int] = estimate_message) -> int:
    """Estimated tokens of a conversation as it is shown."""
    return sum(map(size, (*summary_messages(conversation.summary), *visible_messages(conversation))))


def room_of(budget: ContextBudget, conversation: Conversation, counted: int | None, spare: float = 0.0) -> Room:
    """The window for a compaction. Sizes after it can only be estimated, so they are scaled by how much more the
    provider counted than was estimated. `spare`: the share of the tool definitions that could be held back yet."""
    system = budget.system + budget.instructions + budget.memories + budget.skills
    fixed, estimated, window = system + budget.tools, max(size_of(conversation), 1), budget.window
    scale = min(max((max(counted or 0, budget.used) - fixed) / estimated, 1.0), 3.0)
    ratio = min(max((budget.used - fixed) / estimated, 0.25), 3.0)
    deferrable, trigger = int(budget.tools * spare), window.compact_trigger
    return Room(window.effective, system, budget.tools, trigger, scale, window.buffer, deferrable, ratio)
