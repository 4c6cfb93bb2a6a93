"""Token budget of a request by component, the verdict that follows from it, and how scarce room is divided. Pure; all
sizes are in tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.context.estimate import (
    BYTES,
    COLD,
    Counts,
    Estimator,
    Ruler,
    count_messages,
    count_text,
    count_tools,
)
from ebbtide.agent.context.mask import visible_messages
from ebbtide.agent.context.prompt import Prompt
from ebbtide.agent.context.summary import RETAIN, summary_messages
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.messages import Conversation, Summary
from ebbtide.tools.lazy import dataclass

BudgetVerdict = Literal["fits", "compact", "block"]

BUFFER = 8192
"""Reserve for errors of the estimate."""

SMALL_BUFFER = 4096
"""Reserve once the estimator has proved precise."""

SHOWN_BY_SERVER = "shown by the server"
"""Source of a window that turned out smaller than known."""

INFERRED_FROM_COUNTS = f"{SHOWN_BY_SERVER}'s counts"
"""Source of a window inferred from token counts alone: the server reported no limit, but counts as if it left out the
beginning."""

BudgetSection: TypeAlias = Literal["system", "instructions", "memories", "skills", "tools", "retain", "summary"]
"""Parts of a request that precede its history."""


@dataclass(frozen=True, slots=True)
class Window:
    """A model's context window and its reserves."""

    size: int
    output: int
    """Reserved for the reply, reasoning included."""
    buffer: int = BUFFER
    """Reserved for errors of the estimate."""
    compact_trigger: float = 0.95
    hard_block: float = 0.98
    max_input: int | None = None
    """Maximum size of a request, if less than the window."""
    price_tier: int | None = None
    """Largest request at the standard price, if longer ones cost more."""
    sources: tuple[tuple[str, str], ...] = ()
    """Pairs of a number's name and its source."""
    notices: tuple[str, ...] = ()
    """Notes for the user about these numbers."""

    @property
    def effective(self) -> int:
        """Tokens available to a request: the window less both reserves."""
        limits = [limit for limit in (self.size, self.max_input, self.price_tier) if limit is not None]
        return max(min(limits) - self.output - self.buffer, 0)

    def source(self, name: str) -> str:
        return dict(self.sources).get(name, "default")

    def is_set(self, name: str) -> bool:
        """Whether the user set the number, rather than the registry, a server or the learned errors."""
        return not self.source(name).startswith(("default", "registry", "live", "learned", SHOWN_BY_SERVER))


def after_overflow(window: Window, sent: int, most: int | None = None, source: str = SHOWN_BY_SERVER) -> Window:
    """Return the window that an overflow has revealed: `most`, the maximum named by the provider, or nine tenths of
    `sent` if it named none below that. The window only ever shrinks, and both reserves with it, to the defaults for
    that size unless the user set them."""
    limit = most if most is not None and 0 < most < sent else sent * 9 // 10
    size = max(min(window.size, limit), 1)
    sources = (*(pair for pair in window.sources if pair[0] != "context_window"), ("context_window", source))
    output = window.output if window.is_set("max_output_tokens") else min(window.output, usual_output(size))
    buffer = window.buffer if window.is_set("context_window_buffer_tokens") else min(window.buffer, size // 8)
    output, buffer = fitting_reserves(size, max(output, 1), buffer)
    return replace(window, size=size, output=output, buffer=buffer, sources=sources)


def usual_output(size: int) -> int:
    """Default output reserve for a window of `size` tokens: a quarter, and down to a sixth in a small window, where
    system prompt and tools leave little room for the work."""
    return min(size // 4, max(size // 6, size // 3 - 1_365))


def fitting_reserves(limit: int, output: int, buffer: int) -> tuple[int, int]:
    """Scale both reserves down proportionally if they would leave less than a quarter of `limit` to the request."""
    room = limit - limit // 4
    if output + buffer <= room:
        return output, buffer
    share = room / (output + buffer)
    return max(int(output * share), 1), int(buffer * share)


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """Tokens of the next request by component, and the window they must fit into."""

    window: Window
    system: int = 0
    instructions: int = 0
    """The project's and the user's AGENT.md."""
    memories: int = 0
    skills: int = 0
    tools: int = 0
    retain: int = 0
    summary: int = 0
    history: int = 0
    """Messages counted by a provider or sent before."""
    pending: int = 0
    """Messages added since: estimated."""
    crowded: bool = False
    """Whether an output of the last step found no room, so that room must be made before the next step."""

    @property
    def components(self) -> dict[str, int]:
        """Tokens by component; they add up to `used`."""
        return {
            "system": self.system,
            "instructions": self.instructions,
            "memories": self.memories,
            "skills": self.skills,
            "tools": self.tools,
            "retain": self.retain,
            "summary": self.summary,
            "history": self.history,
            "pending": self.pending,
        }

    @property
    def effective_window(self) -> int:
        return self.window.effective

    @property
    def buffer(self) -> int:
        return self.window.buffer

    @property
    def used(self) -> int:
        return (
            self.system + self.instructions + self.memories + self.skills + self.tools + self.retain + self.summary
            + self.history + self.pending
        )  # fmt: skip

    @property
    def remaining(self) -> int:
        """Tokens left of the effective window; negative if it is exceeded."""
        return self.effective_window - self.used

    @property
    def used_percentage(self) -> float:
        """Share of the effective window in use: 1.0 is full, and more than that exceeds it."""
        return self.used / max(self.effective_window, 1)

    @property
    def should_compact(self) -> bool:
        return self.crowded or self.used > self.window.compact_trigger * self.effective_window

    @property
    def is_blocked(self) -> bool:
        """Whether no request may be sent until room is made."""
        return self.used > self.window.hard_block * self.effective_window

    @property
    def exceeds_budget(self) -> bool:
        return self.used > self.effective_window

    @property
    def verdict(self) -> BudgetVerdict:
        if self.is_blocked:
            return "block"
        return "compact" if self.should_compact else "fits"


def measure(
    prompt: Prompt,
    conversation: Conversation,
    tools: Sequence[ToolSpec],
    window: Window,
    estimator: Estimator = COLD,
    ruler: Ruler = BYTES,
) -> ContextBudget:
    """Compute the budget of the next request from the request alone. Within a session, `Meter` gives the same result
    incrementally."""
    sections: dict[BudgetSection, Counts] = {
        "system": count_text(prompt.system, ruler),
        "tools": count_tools(tools, ruler),
        **count_summary(conversation.summary, ruler),
    }
    seen, unseen = Counts(), count_messages(visible_messages(conversation)[conversation.anchored :], ruler)
    if conversation.anchor is None:
        return apportion(sections, unseen, Counts(), None, window, estimator)
    return apportion(sections, seen, unseen, conversation.anchor.total, window, estimator)


def count_summary(summary: Summary, ruler: Ruler = BYTES) -> dict[BudgetSection, Counts]:
    """Count the messages that open a compacted view: the verbatim part ("retain") and the rest ("summary")."""
    rest = count_messages(summary_messages(replace(summary, retain="")), ruler)
    return {"retain": count_text(f"{RETAIN}\n{summary.retain}", ruler) if summary.retain else Counts(), "summary": rest}


def apportion(
    sections: Mapping[BudgetSection, Counts],
    seen: Counts,
    unseen: Counts,
    counted: int | None,
    window: Window,
    estimator: Estimator,
    schema: int | None = None,
    scale: float = 1.0,
) -> ContextBudget:
    """Build the budget of the next request. `counted`: the provider's count of the sections and the messages `seen`, or
    None if there is none yet; the history is then what the sections leave of it. `schema`: tokens of the tool
    definitions, if known from an earlier request. `scale`: actual tokens per estimated token of messages, used where
    nothing was counted."""
    sizes = {name: estimator.tokens(count) for name, count in sections.items()}
    sizes |= {name: round(sizes[name] * scale) for name in ("retain", "summary") if name in sizes}
    if schema is not None and "tools" in sizes:
        sizes["tools"] = schema
    if counted is None:
        history = round(estimator.tokens(seen) * scale)
    else:
        sizes = _within(sizes, counted)
        history = counted - sum(sizes.values())
    return ContextBudget(window, **sizes, history=history, pending=estimator.tokens(unseen), crowded=False)


def _within(sizes: dict[BudgetSection, int], counted: int) -> dict[BudgetSection, int]:
    """Scale the sizes down proportionally if they add up to more than `counted`."""
    whole = sum(sizes.values())
    if whole <= counted:
        return sizes
    return {name: size * counted // whole for name, size in sizes.items()}


def shares(sizes: Sequence[int], room: int) -> tuple[int, ...]:
    """Divide `room` among the sizes: small ones get all they need, large ones an equal part of what is left."""
    left, parts = max(room, 0), list(sizes)
    by_size = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for passed, index in enumerate(by_size):
        parts[index] = min(sizes[index], left // (len(by_size) - passed))
        left -= parts[index]
    return tuple(parts)
