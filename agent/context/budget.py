"""How much of the window a request takes, by component, what follows from it, and how room that is too small is
divided. Pure; tokens everywhere."""

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
"""Kept free for errors of the estimate."""

SMALL_BUFFER = 4096
"""The same once the estimator has shown that its errors are small."""

SHOWN_BY_SERVER = "shown by the server"
"""The source of a window that turned out to be smaller than it was known to be."""

INFERRED_FROM_COUNTS = f"{SHOWN_BY_SERVER}'s counts"
"""The same where no server has said so: it only counts as one does that leaves out the beginning."""

BudgetSection: TypeAlias = Literal["system", "instructions", "memories", "skills", "tools", "retain", "summary"]
"""What stands before the history of a request."""


@dataclass(frozen=True, slots=True)
class Window:
    """A model's window, and what is kept free of it."""

    size: int
    output: int
    """Reserved for the reply, reasoning included."""
    buffer: int = BUFFER
    """Reserved for errors of the estimate."""
    compact_trigger: float = 0.95
    hard_block: float = 0.98
    max_input: int | None = None
    """The most a request may hold, where that is less than the window."""
    price_tier: int | None = None
    """The longest request at the usual price, where longer ones cost more."""
    sources: tuple[tuple[str, str], ...] = ()
    """Pairs of a number's name and where it came from."""
    notices: tuple[str, ...] = ()
    """What the user should know about these numbers."""

    @property
    def effective(self) -> int:
        """What a request may take: both reserves are always subtracted."""
        limits = [limit for limit in (self.size, self.max_input, self.price_tier) if limit is not None]
        return max(min(limits) - self.output - self.buffer, 0)

    def source(self, name: str) -> str:
        return dict(self.sources).get(name, "default")

    def is_set(self, name: str) -> bool:
        """Whether somebody has chosen the number, rather than what is known of the model or of its errors."""
        return not self.source(name).startswith(("default", "registry", "live", "learned", SHOWN_BY_SERVER))


def after_overflow(window: Window, sent: int, most: int | None = None, source: str = SHOWN_BY_SERVER) -> Window:
    """The window that an overflow has shown: the maximum that the provider named, or nine tenths of what was sent where
    it named none that is below that. It only ever shrinks, and both reserves with it: to the usual ones of such a
    window where nobody has set them."""
    limit = most if most is not None and 0 < most < sent else sent * 9 // 10
    size = max(min(window.size, limit), 1)
    sources = (*(pair for pair in window.sources if pair[0] != "context_window"), ("context_window", source))
    output = window.output if window.is_set("max_output_tokens") else min(window.output, usual_output(size))
    buffer = window.buffer if window.is_set("context_window_buffer_tokens") else min(window.buffer, size // 8)
    output, buffer = fitting_reserves(size, max(output, 1), buffer)
    return replace(window, size=size, output=output, buffer=buffer, sources=sources)


def usual_output(size: int) -> int:
    """The most that is kept free for a reply in a window of that size: a quarter, and down to a sixth in a small one,
    where system text and tools leave little to the work."""
    return min(size // 4, max(size // 6, size // 3 - 1_365))


def fitting_reserves(limit: int, output: int, buffer: int) -> tuple[int, int]:
    """The reserves, made smaller in equal measure where they would leave less than a quarter to the request."""
    room = limit - limit // 4
    if output + buffer <= room:
        return output, buffer
    share = room / (output + buffer)
    return max(int(output * share), 1), int(buffer * share)


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """The tokens of the next request by component, against the window they must fit into."""

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
    """Messages that a provider has counted, or that were sent before."""
    pending: int = 0
    """Messages since: estimated."""
    crowded: bool = False
    """An output of the last step found no room, so that there is to be more before the next one."""

    @property
    def components(self) -> dict[str, int]:
        """Tokens by component; together they are `used`."""
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
        """What is left of the effective window; below zero when it is exceeded."""
        return self.effective_window - self.used

    @property
    def used_percentage(self) -> float:
        """A share: 1.0 when the effective window is full, more when it is exceeded."""
        return self.used / max(self.effective_window, 1)

    @property
    def should_compact(self) -> bool:
        return self.crowded or self.used > self.window.compact_trigger * self.effective_window

    @property
    def is_blocked(self) -> bool:
        """Whether no request may be sent before there is more room."""
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
    """The budget of the next request, from nothing but the request. A `Meter` does the same in a session, and counts
    nothing twice."""
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
    """Counts of what opens a compacted view: what is kept word for word, and everything else."""
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
    """The budget of the next request. `counted` is what the provider has counted of the sections and of the messages
    `seen`; None when it has counted nothing yet. `schema` is what is known of the tool definitions from an earlier
    request. What was counted is taken as counted, and the history is what the sections leave of it. `scale`: tokens of
    messages for one that is estimated, where nothing was counted."""
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
    """The sizes, made smaller in equal measure where together they exceed what was counted."""
    whole = sum(sizes.values())
    if whole <= counted:
        return sizes
    return {name: size * counted // whole for name, size in sizes.items()}


def shares(sizes: Sequence[int], room: int) -> tuple[int, ...]:
    """The part of the room that each of these sizes gets: a small one all that it takes, and the large ones the same
    part each of what the small ones leave."""
    left, parts = max(room, 0), list(sizes)
    by_size = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for passed, index in enumerate(by_size):
        parts[index] = min(sizes[index], left // (len(by_size) - passed))
        left -= parts[index]
    return tuple(parts)
