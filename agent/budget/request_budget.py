"""Token budget of a request by component, whether the request fits, and how limited space is divided. All sizes are in
tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.messages import Summary
from ebbtide.agent.tokens.estimate import BYTE_COUNTER, Estimator, TextCounts, TokenCounter, count_messages, count_text
from ebbtide.agent.view.visible import RETAIN_HEADING, summary_messages
from ebbtide.tools.lazy import dataclass

BudgetVerdict = Literal["fits", "compact", "block"]

DEFAULT_BUFFER_TOKENS = 8192
"""Default reserve for estimation errors."""

PRECISE_BUFFER_TOKENS = 4096
"""Reserve for estimation errors once the estimator has proved precise."""

REPORTED_BY_SERVER = "shown by the server"
"""Source of a window size when a server revealed that its window is smaller than stated."""

INFERRED_FROM_COUNTS = f"{REPORTED_BY_SERVER}'s counts"
"""Source of a window size inferred from token counts alone. The server reported no limit, but its counts suggest that
it drops the beginning of requests."""

BudgetSection: TypeAlias = Literal["system", "instructions", "memories", "skills", "tools", "retain", "summary"]
"""Parts of a request that precede its history."""


@dataclass(frozen=True, slots=True)
class Window:
    """A model's context window and its reserves."""

    size: int
    output: int
    """Reserve for the reply, including reasoning."""
    buffer: int = DEFAULT_BUFFER_TOKENS
    """Reserve for estimation errors."""
    compact_trigger: float = 0.95
    hard_block: float = 0.98
    max_input: int | None = None
    """Maximum size of a request, if it is smaller than the window."""
    price_tier: int | None = None
    """Maximum size of a request at the standard price; None if the price does not depend on size."""
    sources: tuple[tuple[str, str], ...] = ()
    """Pairs of a setting's name and the source of its value."""
    notices: tuple[str, ...] = ()
    """Notices for the user about these numbers."""

    @property
    def available_tokens(self) -> int:
        """Tokens available to a request: the window less both reserves."""
        limits = [limit for limit in (self.size, self.max_input, self.price_tier) if limit is not None]
        return max(min(limits) - self.output - self.buffer, 0)

    def source_of(self, name: str) -> str:
        return dict(self.sources).get(name, "default")

    def is_set_by_user(self, name: str) -> bool:
        """Whether the user set this number. Otherwise it comes from the registry, a server or earlier errors."""
        return not self.source_of(name).startswith(("default", "registry", "live", "learned", REPORTED_BY_SERVER))


def window_after_overflow(
    window: Window, sent_tokens: int, stated_limit: int | None = None, source: str = REPORTED_BY_SERVER
) -> Window:
    """Shrink the window after an overflow. The new size is the limit that the provider stated, or nine tenths of the
    tokens sent if it stated no limit or a larger one. The result is never larger than `window`. Reserves that the user
    did not set shrink to the defaults for the new size."""
    limit = stated_limit if stated_limit is not None and 0 < stated_limit < sent_tokens else sent_tokens * 9 // 10
    size = max(min(window.size, limit), 1)
    sources = (*(pair for pair in window.sources if pair[0] != "context_window"), ("context_window", source))
    output = (
        window.output
        if window.is_set_by_user("max_output_tokens")
        else min(window.output, default_output_reserve(size))
    )
    buffer = window.buffer if window.is_set_by_user("context_window_buffer_tokens") else min(window.buffer, size // 8)
    output, buffer = fit_reserves(size, max(output, 1), buffer)
    return replace(window, size=size, output=output, buffer=buffer, sources=sources)


def default_output_reserve(size: int) -> int:
    """Compute the default output reserve for a window of `size` tokens: a quarter of it, but as little as a sixth of a
    small window, where system prompt and tools leave little space."""
    return min(size // 4, max(size // 6, size // 3 - 1_365))


def fit_reserves(limit: int, output: int, buffer: int) -> tuple[int, int]:
    """Scale both reserves down proportionally if they would leave less than a quarter of `limit` for the request."""
    max_reserves = limit - limit // 4
    if output + buffer <= max_reserves:
        return output, buffer
    share = max_reserves / (output + buffer)
    return max(int(output * share), 1), int(buffer * share)


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """Tokens of the next request by component, and the window they must fit into."""

    window: Window
    system: int = 0
    instructions: int = 0
    """Text of the project's and the user's AGENT.md."""
    memories: int = 0
    skills: int = 0
    tools: int = 0
    retain: int = 0
    summary: int = 0
    history: int = 0
    """Messages that a provider has counted or that were sent before."""
    pending: int = 0
    """Estimated tokens of the messages that are not in `history`."""
    has_output_overflow: bool = False
    """Whether an output of the last step did not fit, so that space must be freed before the next step."""

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
        return self.window.available_tokens

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
    def used_share(self) -> float:
        """Share of the effective window in use. 1.0 is full; larger values exceed it."""
        return self.used / max(self.effective_window, 1)

    @property
    def should_compact(self) -> bool:
        return self.has_output_overflow or self.used > self.window.compact_trigger * self.effective_window

    @property
    def is_blocked(self) -> bool:
        """Whether space must be freed before another request is sent."""
        return self.used > self.window.hard_block * self.effective_window

    @property
    def exceeds_budget(self) -> bool:
        return self.used > self.effective_window

    @property
    def verdict(self) -> BudgetVerdict:
        if self.is_blocked:
            return "block"
        return "compact" if self.should_compact else "fits"


def count_summary(summary: Summary, token_counter: TokenCounter = BYTE_COUNTER) -> dict[BudgetSection, TextCounts]:
    """Count the messages at the start of a compacted view: the notes that are kept verbatim ("retain"), and the
    summary."""
    summary_counts = count_messages(summary_messages(replace(summary, retain="")), token_counter)
    return {
        "retain": count_text(f"{RETAIN_HEADING}\n{summary.retain}", token_counter) if summary.retain else TextCounts(),
        "summary": summary_counts,
    }


def build_budget(
    sections: Mapping[BudgetSection, TextCounts],
    counted_messages: TextCounts,
    uncounted_messages: TextCounts,
    counted_tokens: int | None,
    window: Window,
    estimator: Estimator,
    tool_tokens: int | None = None,
    scale: float = 1.0,
) -> ContextBudget:
    """Build the budget of the next request. `counted_tokens`: the provider's count of the sections and of the messages
    in `counted_messages`; None if there is none yet. Subtracting the sections from it gives the history. `tool_tokens`:
    tokens of the tool definitions, if known from an earlier request. `scale`: ratio of actual to estimated tokens of
    messages, used where nothing was counted."""
    sizes = {name: estimator.estimate(count) for name, count in sections.items()}
    sizes |= {name: round(sizes[name] * scale) for name in ("retain", "summary") if name in sizes}
    if tool_tokens is not None and "tools" in sizes:
        sizes["tools"] = tool_tokens
    if counted_tokens is None:
        history = round(estimator.estimate(counted_messages) * scale)
    else:
        sizes = _scale_down(sizes, counted_tokens)
        history = counted_tokens - sum(sizes.values())
    return ContextBudget(
        window, **sizes, history=history, pending=estimator.estimate(uncounted_messages), has_output_overflow=False
    )


def _scale_down(sizes: dict[BudgetSection, int], counted_tokens: int) -> dict[BudgetSection, int]:
    """Scale the sizes down proportionally if their sum exceeds `counted_tokens`."""
    total = sum(sizes.values())
    if total <= counted_tokens:
        return sizes
    return {name: size * counted_tokens // total for name, size in sizes.items()}


def divide_room(sizes: Sequence[int], room: int) -> tuple[int, ...]:
    """Divide `room` among the sizes. Small sizes get all they need; large ones share the remainder equally."""
    remaining, shares = max(room, 0), list(sizes)
    by_size = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for settled_count, index in enumerate(by_size):
        shares[index] = min(sizes[index], remaining // (len(by_size) - settled_count))
        remaining -= shares[index]
    return tuple(shares)
