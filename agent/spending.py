"""What a session has used and what was rewritten in it, as values."""

from dataclasses import dataclass, field

from agent.messages import Usage


@dataclass(frozen=True, slots=True)
class Spent:
    """What a session has used so far."""

    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    """US dollars; None when the price of any request was not known."""

    def plus(self, usage: Usage, cost: float | None) -> "Spent":
        return Spent(self.usage + usage, None if cost is None or self.cost is None else self.cost + cost)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as it was counted."""

    purpose: str
    model: str
    usage: Usage
    cost: float | None
    at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A change of what earlier requests had already sent."""

    reason: str
    strategies: tuple[str, ...]
    before: int
    """Tokens."""
    after: int
    cost: float | None
    """US dollars that its summary took."""
    at: float
    requests: int
    """How many requests the session had made, those for the summary included."""
