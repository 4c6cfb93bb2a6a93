"""Limits of turns, and what is left of them. Sub-agents use up their parent's allowance and are bound by its limits as
well as their own."""

from collections.abc import Callable

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class TurnLimits:
    steps: int | None = None
    """Maximum requests of a turn."""
    cost: float | None = None
    """US dollars after which further requests are refused."""
    keep_alive: int = 0
    """Maximum consecutive requests that keep the provider's cache alive while the user thinks."""
    is_woken: bool = False
    """Whether a finished background job starts a turn if none is running."""


class Allowance:
    """The allowance of one session, reset for each turn."""

    def __init__(self, of: "Allowance | None" = None) -> None:
        """`of`: the parent's allowance, for a sub-agent."""
        self._of = of
        self._spent: Callable[[], float] = float
        self._limits = TurnLimits()
        self._steps = 0

    def begin(self, limits: TurnLimits, spent: Callable[[], float]) -> None:
        """Begin a turn. `spent` returns the US dollars since the program was started, those of agents included."""
        self._limits, self._spent, self._steps = limits, spent, 0

    def take_step(self) -> None:
        """Count a request that is about to be sent."""
        self._steps += 1
        if self._of is not None:
            self._of.take_step()

    @property
    def is_spent(self) -> bool:
        """Whether the cost limit is reached and no further request may be sent."""
        cost = self._limits.cost
        return (cost is not None and self._spent() >= cost) or (self._of is not None and self._of.is_spent)

    @property
    def is_at_last_step(self) -> bool:
        """Whether no request may follow the last one."""
        steps = self._limits.steps
        is_own = steps is not None and self._steps >= steps
        return is_own or (self._of is not None and self._of.is_at_last_step)
