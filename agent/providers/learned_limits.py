"""What a session learns about its model's window, about its summaries, and about the models that write them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from ebbtide.agent.budget.last_request import RequestRecord
from ebbtide.agent.budget.request_budget import INFERRED_FROM_COUNTS, REPORTED_BY_SERVER, Window, window_after_overflow
from ebbtide.agent.budget.summary_cost import SummaryJob
from ebbtide.agent.events.session import Event
from ebbtide.agent.providers.base import Provider
from ebbtide.tools.lazy import dataclass

MAX_SUMMARY_FAILURES = 3
"""Number of failed summaries in a row after which no more are requested until something changes."""

COOLDOWN_REQUESTS, LONG_COOLDOWN_REQUESTS = 5, 10
"""Minimum number of requests between two summaries. The second number is for small windows, which one or two steps can
fill."""
SMALL_WINDOW_TOKENS = 16_000
"""A window is small if its effective size is at most this many tokens."""

SummariserSource: TypeAlias = Callable[[SummaryJob, Callable[[Event], None]], Awaitable[Sequence[Provider]]]
"""Returns the models to ask for a summary before the session's own, in order. Called when a summary is needed; the
callback receives the events of requests made to choose the models."""


MIN_LEARNED_WINDOW_TOKENS = 4_000
"""Smallest learned window, in tokens, that later runs reuse. A session could not continue in a smaller one."""


def learned_window(mark: RequestRecord | None, provider: Provider) -> Window | None:
    """Return the window that the provider revealed in an earlier run, if it was smaller than assumed. None if the
    model, server or settings have changed since then."""
    if mark is None or mark.window is None or mark.believed != provider.window.size:
        return None
    if mark.window.size < MIN_LEARNED_WINDOW_TOKENS or not has_answered(mark, provider):
        return None
    source = (
        INFERRED_FROM_COUNTS if mark.window.source_of("context_window") == INFERRED_FROM_COUNTS else REPORTED_BY_SERVER
    )
    return window_after_overflow(provider.window, mark.believed, mark.window.size, source)


def has_answered(mark: RequestRecord | None, provider: Provider) -> bool:
    """Whether the session's last request went to this model at this address."""
    return mark is not None and (mark.model, mark.server) == (provider.facts.id, provider.facts.server_digest)


def next_request_window(mark: RequestRecord, configured_window: Window) -> Window:
    """Return the window for the next request of a stored session: the window of its last request, unless the user has
    changed the setting since then. `configured_window`: the window according to the current settings."""
    last_window = mark.window
    if last_window is None:
        return configured_window
    is_newly_configured = configured_window.is_set_by_user("context_window") and configured_window.size not in (
        last_window.size,
        mark.believed,
    )
    return configured_window if is_newly_configured else last_window


@dataclass(slots=True)
class LearnedLimits:
    """What a session has learned about its model's window and its summaries."""

    window: Window | None = None
    """The actual window, if the provider has revealed that it is smaller than assumed."""
    summary_failure_count: int = 0
    """Number of failed summaries in a row."""
    requests_since_summary: int = LONG_COOLDOWN_REQUESTS
    """Number of requests answered since the last summary was requested."""
    unresponsive_summarisers: frozenset[str] = frozenset()
    """Summary models that did not answer. They are skipped until the user requests a compaction."""
    is_insufficient_space_reported: bool = False
    """Whether the user has been notified that compaction alone cannot free enough space."""
    is_tool_overflow_reported: bool = False
    """Whether the user has been notified that requests are sent although their tool definitions do not fit."""

    def reset_for_new_model(self) -> None:
        """Reset what does not apply to another model: the window, the failed summaries, and the notices about space."""
        self.window, self.summary_failure_count = None, 0
        self.is_insufficient_space_reported = self.is_tool_overflow_reported = False

    def is_refuted_by(self, counted_tokens: int) -> bool:
        """Whether this count refutes the inferred window, because the server has clearly read more tokens than would
        fit into it."""
        window = self.window
        return (
            window is not None
            and window.source_of("context_window") == INFERRED_FROM_COUNTS
            and counted_tokens > 1.05 * window.size
        )

    def is_in_cooldown(self, effective_tokens: int) -> bool:
        """Whether a summary was requested only a few requests ago. `effective_tokens`: the effective window, in
        tokens."""
        return self.requests_since_summary < (
            LONG_COOLDOWN_REQUESTS if effective_tokens <= SMALL_WINDOW_TOKENS else COOLDOWN_REQUESTS
        )

    def end_cooldown(self) -> None:
        """Allow the next summary immediately."""
        self.requests_since_summary = LONG_COOLDOWN_REQUESTS

    @property
    def has_failed_repeatedly(self) -> bool:
        """Whether summaries have failed so often that no more are requested until something changes."""
        return self.summary_failure_count >= MAX_SUMMARY_FAILURES
