"""Limits for turns, and how much of them has been used. A sub-agent has its own limits, but its usage also counts
towards its parent's."""

from collections.abc import Callable

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class TurnLimits:
    max_steps: int | None = None
    """Maximum number of requests in a turn."""
    max_cost: float | None = None
    """Maximum cost in US dollars. Once it is reached, further requests are refused."""
    max_keep_alive_requests: int = 0
    """Maximum number of consecutive requests that keep the provider's cache alive while the user thinks."""
    wakes_on_job_end: bool = False
    """Whether the end of a background job starts a turn if none is running."""


class TurnUsage:
    """Counts how much of its limits a session's turn has used."""

    def __init__(self, parent: "TurnUsage | None" = None) -> None:
        """`parent`: the parent's allowance, for a sub-agent."""
        self._parent = parent
        self._cost_so_far: Callable[[], float] = float
        self._limits = TurnLimits()
        self._step_count = 0

    def begin_turn(self, limits: TurnLimits, cost_so_far: Callable[[], float]) -> None:
        """Begin a turn. `cost_so_far` returns the cost in US dollars since the program was started, including
        sub-agents."""
        self._limits, self._cost_so_far, self._step_count = limits, cost_so_far, 0

    def count_step(self) -> None:
        """Count a request that is about to be sent."""
        self._step_count += 1
        if self._parent is not None:
            self._parent.count_step()

    @property
    def is_cost_limit_reached(self) -> bool:
        """Whether the cost limit has been reached. If so, no further requests may be sent."""
        max_cost = self._limits.max_cost
        return (max_cost is not None and self._cost_so_far() >= max_cost) or (
            self._parent is not None and self._parent.is_cost_limit_reached
        )

    @property
    def is_at_last_step(self) -> bool:
        """Whether no further request is allowed after the current one."""
        max_steps = self._limits.max_steps
        has_reached_limit = max_steps is not None and self._step_count >= max_steps
        return has_reached_limit or (self._parent is not None and self._parent.is_at_last_step)
