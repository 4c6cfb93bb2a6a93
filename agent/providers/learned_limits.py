"""What a session learns about its model's window and summaries, and which models write its summaries."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from ebbtide.agent.context.budget import INFERRED_FROM_COUNTS, SHOWN_BY_SERVER, Window, after_overflow
from ebbtide.agent.context.last_request import RequestMark
from ebbtide.agent.context.summary_cost import SummaryJob
from ebbtide.agent.events.session import Event
from ebbtide.agent.providers.base import Provider
from ebbtide.tools.lazy import dataclass

FAILURES = 3
"""Failed summaries in a row after which no more are requested, until something changes."""

COOLDOWN_REQUESTS, LONG_COOLDOWN_REQUESTS = 5, 10
"""Requests between two summaries; more in a small window, which a step or two can fill."""
SMALL_WINDOW_TOKENS = 16_000
"""Largest effective window, in tokens, that counts as small."""

SummariserSource: TypeAlias = Callable[[SummaryJob, Callable[[Event], None]], Awaitable[Sequence[Provider]]]
"""Returns the models to ask for a summary before the session's own, in order. Called when one is needed, with a
callback for the events of requests made to choose them."""


MIN_LEARNED_WINDOW_TOKENS = 4_000
"""Smallest learned window, in tokens, that later runs trust: a session could not continue in a smaller one."""


def learned_window(mark: RequestMark | None, provider: Provider) -> Window | None:
    """The window that the provider revealed to be smaller than assumed, in an earlier run. None if there is none, or
    if the model, server or settings have changed since."""
    if mark is None or mark.window is None or mark.believed != provider.window.size:
        return None
    if mark.window.size < MIN_LEARNED_WINDOW_TOKENS or not has_answered(mark, provider):
        return None
    source = INFERRED_FROM_COUNTS if mark.window.source("context_window") == INFERRED_FROM_COUNTS else SHOWN_BY_SERVER
    return after_overflow(provider.window, mark.believed, mark.window.size, source)


def has_answered(mark: RequestMark | None, provider: Provider) -> bool:
    """Whether the session's last request went to this model at this address."""
    return mark is not None and (mark.model, mark.server) == (provider.facts.id, provider.facts.server)


def window_in_force(sent: RequestMark, known: Window) -> Window:
    """The window for the next request of a stored session: that of its last request, unless the user has since set
    another. `known`: the window from the current settings."""
    before = sent.window
    if before is None:
        return known
    is_own = known.is_set("context_window") and known.size not in (before.size, sent.believed)
    return known if is_own else before


@dataclass(slots=True)
class LearnedLimits:
    """What a session has learnt about the model's window and its summaries."""

    window: Window | None = None
    """The real window, if the provider has revealed that it is smaller than assumed."""
    failures: int = 0
    """Failed summaries in a row."""
    since_summary: int = LONG_COOLDOWN_REQUESTS
    """Requests answered since the last summary was requested."""
    silent_writers: frozenset[str] = frozenset()
    """Models set for summaries that did not answer; they are skipped until the user asks for them."""
    is_floor_reported: bool = False
    """Whether the user was told that compaction alone cannot free enough space."""

    def forget(self) -> None:
        """Reset what does not apply to another model: its window and its failed summaries."""
        self.window, self.failures, self.is_floor_reported = None, 0, False

    def is_refuted_by(self, counted: int) -> bool:
        """Whether the server has read clearly more tokens than the window inferred from its counts."""
        supposed = self.window
        return (
            supposed is not None
            and supposed.source("context_window") == INFERRED_FROM_COUNTS
            and counted > 1.05 * supposed.size
        )

    def is_in_cooldown(self, effective: int) -> bool:
        """Whether a summary was requested only a few requests ago. `effective`: the usable window in tokens."""
        return self.since_summary < (LONG_COOLDOWN_REQUESTS if effective <= SMALL_WINDOW_TOKENS else COOLDOWN_REQUESTS)

    def end_cooldown(self) -> None:
        """Allow the next summary at once."""
        self.since_summary = LONG_COOLDOWN_REQUESTS

    @property
    def is_broken(self) -> bool:
        """Whether summaries have failed too often, so that none is requested until something changes."""
        return self.failures >= FAILURES
