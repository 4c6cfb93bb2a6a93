"""What a session learns about its model, and who writes its summaries. It compacts nothing."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agent.context.bargain import Job
from agent.context.budget import Window
from agent.events import Event
from agent.providers.base import Provider

FAILURES = 3
"""Summaries in a row that failed, after which no more are asked for until something changes."""

PAUSE = 5
"""Requests that are answered after a summary before a full window asks for the next."""

Summarisers: TypeAlias = Callable[[Job, Callable[[Event], None]], Awaitable[Sequence[Provider]]]
"""The models to ask for a summary before the session's own, the first to ask in front. Called when one is needed, with
what is told of requests that finding them takes."""


@dataclass(slots=True)
class Lessons:
    """What a session has learnt about the model's window and about its summaries."""

    window: Window | None = None
    """The real window, when the provider has shown that it is smaller than was known."""
    failures: int = 0
    """Summaries in a row that could not be used."""
    since_summary: int = PAUSE
    """Requests that were answered since a summary was asked for."""
    is_floor_told: bool = False
    """Whether the user knows that what stays after any compaction leaves too little room."""

    def forget(self) -> None:
        """Another model has another window, and may write summaries that can be used."""
        self.window, self.failures, self.is_floor_told = None, 0, False

    @property
    def is_resting(self) -> bool:
        """Whether a summary was asked for only a few requests ago: in a small window each step would ask for one."""
        return self.since_summary < PAUSE

    @property
    def is_broken(self) -> bool:
        """Whether no summary is asked for any more, until something changes."""
        return self.failures >= FAILURES
