"""The limits of turns, and what one may still take of them: what agents take that it sends off counts for it, and its
limits hold for them besides their own."""

from collections.abc import Callable

from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class TurnLimits:
    steps: int | None = None
    """Requests that a turn may make."""
    cost: float | None = None
    """US dollars that may be spent before the next request is refused."""
    keep_alive: int = 0
    """Requests in a row that may keep the provider's cache alive while the user thinks."""
    is_woken: bool = False
    """A background job that is over begins a turn where none runs."""


class Allowance:
    """That of one session, for one turn after the other."""

    def __init__(self, of: "Allowance | None" = None) -> None:
        """`of`: that of the session which has sent this one off."""
        self._of = of
        self._spent: Callable[[], float] = float
        self._limits = TurnLimits()
        self._steps = 0

    def begin(self, limits: TurnLimits, spent: Callable[[], float]) -> None:
        """A turn begins. `spent`: US dollars since the program was started, those of agents among them."""
        self._limits, self._spent, self._steps = limits, spent, 0

    def take_step(self) -> None:
        """A request is about to be made."""
        self._steps += 1
        if self._of is not None:
            self._of.take_step()

    @property
    def is_spent(self) -> bool:
        """Whether so much money was spent that no further request is sent."""
        cost = self._limits.cost
        return (cost is not None and self._spent() >= cost) or (self._of is not None and self._of.is_spent)

    @property
    def is_at_last_step(self) -> bool:
        """Whether no further request may follow the one that was begun last."""
        steps = self._limits.steps
        is_own = steps is not None and self._steps >= steps
        return is_own or (self._of is not None and self._of.is_at_last_step)
