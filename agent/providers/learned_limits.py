"""What a session learns about its model, and who writes its summaries. It compacts nothing."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from ebbtide.agent.context.budget import INFERRED_FROM_COUNTS, SHOWN_BY_SERVER, Window, after_overflow
from ebbtide.agent.context.last_request import RequestMark
from ebbtide.agent.context.summary_cost import SummaryJob
from ebbtide.agent.events.session import Event
from ebbtide.agent.providers.base import Provider
from ebbtide.tools.lazy import dataclass

FAILURES = 3
"""Summaries in a row that failed, after which no more are asked for until something changes."""

COOLDOWN_REQUESTS, LONG_COOLDOWN_REQUESTS = 5, 10
"""Requests that are answered after a summary before the next is asked for; in a small window, which a step or two fill,
more of them."""
SMALL_WINDOW_TOKENS = 16_000
"""Tokens that requests may take in such a window."""

SummariserSource: TypeAlias = Callable[[SummaryJob, Callable[[Event], None]], Awaitable[Sequence[Provider]]]
"""The models to ask for a summary before the session's own, the first to ask in front. Called when one is needed, with
what is told of requests that finding them takes."""


MIN_LEARNED_WINDOW_TOKENS = 4_000
"""Tokens below which a window that was shown is not believed by the next program: a session could only end in it."""


def learned_window(mark: RequestMark | None, provider: Provider) -> Window | None:
    """The window that the provider showed to be smaller before the program was started anew. None where it did not, and
    where another model, another server or another setting makes it another window."""
    if mark is None or mark.window is None or mark.believed != provider.window.size:
        return None
    if mark.window.size < MIN_LEARNED_WINDOW_TOKENS or not has_answered(mark, provider):
        return None
    source = INFERRED_FROM_COUNTS if mark.window.source("context_window") == INFERRED_FROM_COUNTS else SHOWN_BY_SERVER
    return after_overflow(provider.window, mark.believed, mark.window.size, source)


def has_answered(mark: RequestMark | None, provider: Provider) -> bool:
    """Whether the last request of the session went to this model at this address."""
    return mark is not None and (mark.model, mark.server) == (provider.facts.id, provider.facts.server)


def window_in_force(sent: RequestMark, known: Window) -> Window:
    """The window of the next request of a session that is not open: that of the last one, whatever flags made it,
    unless the user has set another since. `known`: what the settings say now."""
    before = sent.window
    if before is None:
        return known
    is_own = known.is_set("context_window") and known.size not in (before.size, sent.believed)
    return known if is_own else before


@dataclass(slots=True)
class LearnedLimits:
    """What a session has learnt about the model's window and about its summaries."""

    window: Window | None = None
    """The real window, when the provider has shown that it is smaller than was known."""
    failures: int = 0
    """Summaries in a row that could not be used."""
    since_summary: int = LONG_COOLDOWN_REQUESTS
    """Requests that were answered since a summary was asked for."""
    silent_writers: frozenset[str] = frozenset()
    """Models that are set for summaries and did not answer: they are not waited for again until the user asks."""
    is_floor_reported: bool = False
    """Whether the user knows that what stays after any compaction leaves too little room."""

    def forget(self) -> None:
        """Another model has another window, and may write summaries that can be used."""
        self.window, self.failures, self.is_floor_reported = None, 0, False

    def is_refuted_by(self, counted: int) -> bool:
        """Whether a server has read more of a request than the window holds that its counts had shown."""
        supposed = self.window
        return (
            supposed is not None
            and supposed.source("context_window") == INFERRED_FROM_COUNTS
            and counted > 1.05 * supposed.size
        )

    def is_in_cooldown(self, effective: int) -> bool:
        """Whether a summary was asked for only a few requests ago, in a window with room for so many tokens."""
        return self.since_summary < (LONG_COOLDOWN_REQUESTS if effective <= SMALL_WINDOW_TOKENS else COOLDOWN_REQUESTS)

    def end_cooldown(self) -> None:
        """A summary may be asked for again."""
        self.since_summary = LONG_COOLDOWN_REQUESTS

    @property
    def is_broken(self) -> bool:
        """Whether no summary is asked for any more, until something changes."""
        return self.failures >= FAILURES
