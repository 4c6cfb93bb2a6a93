"""Whether a request or a tool's output will fit, projected from counters before anything is sent. Pure.

    projected = current + pending + new + extra        limit = window - buffer - output

Counters only grow until the turn commits. Tool definitions are counted separately; from the second request on the
provider's count includes them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ebbtide.agent.context.budget import ContextBudget, Window
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Counters:
    """A session's tokens, by how far they are settled."""

    current: int = 0
    """Tokens of finished turns."""
    pending: int = 0
    """Tokens with which the turn began."""
    new: int = 0
    """Tokens of replies and outputs since the turn began."""
    schema: int = 0
    """Tokens of the tool definitions; included in `current` once the provider has counted them."""
    schema_counted: bool = False
    reasoning: int = 0
    """For display only: part of the output reserve and of no projection."""

    def projected_tokens(self, extra: int = 0) -> int:
        return self.current + self.pending + self.new + max(extra, 0)

    def at_turn_start(self, pending: int, reasoning: int = 0) -> "Counters":
        """Return the counters at the start of a turn."""
        return replace(self, pending=self.pending + max(pending, 0), reasoning=max(reasoning, 0))

    def plus(self, tokens: int) -> "Counters":
        """Return the counters after a reply or output of `tokens`."""
        return replace(self, new=self.new + max(tokens, 0))

    def with_measurement(self, budget: ContextBudget, *, is_counted: bool = False) -> "Counters":
        """Return the counters after the next request was measured; anything beyond them is new. `is_counted`: the
        provider has counted most of it, tool definitions included, so estimates are replaced."""
        if is_counted and not self.schema_counted:
            new = max(budget.used - self.current - self.pending, 0)
            return replace(self, new=new, schema=budget.tools, schema_counted=True)
        base = budget.used if self.schema_counted else budget.used - budget.tools
        grown = max(self.new, base - self.current - self.pending)
        return replace(self, new=grown, schema=budget.tools if is_counted else max(self.schema, budget.tools))

    def at_turn_end(self, counted: int | None = None) -> "Counters":
        """Return the counters at the end of a turn, when everything becomes `current`. `counted`: the provider's count
        of the whole conversation, tool definitions included."""
        if counted is None:
            return replace(self, current=self.projected_tokens(), pending=0, new=0)
        return replace(self, current=max(counted, 0), pending=0, new=0, schema_counted=True)

    def debug_fields(self) -> dict[str, int]:
        """Return the counters by the names that the debug log uses."""
        return {
            "currentCtxTokens": self.current,
            "pendingCtxTokens": self.pending,
            "newCtxTokens": self.new,
            "schemaCtxTokens": self.schema,
        }

    def evaluation(self, extra: int = 0) -> dict[str, int]:
        """Return the projection and its terms, by the names that the debug log uses."""
        return {
            "projectedTokens": self.projected_tokens(extra),
            **self.debug_fields(),
            "extraTokens": max(extra, 0),
            "currentReasoningTokens": self.reasoning,
        }


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """A model that the next request could go to."""

    provider: str
    model: str
    window: Window
    share: float = 1.0
    """Share of the limit that a request may take before the next target is tried."""

    @property
    def id(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def limit(self) -> int:
        return self.window.effective

    @property
    def most(self) -> int:
        """The largest request for this target."""
        return int(self.share * self.limit)

    def evaluation(self) -> dict[str, str | int]:
        """Return the limit and its sources, by the names that the debug log uses."""
        return {
            "provider": self.provider,
            "model": self.model,
            "contextWindow": self.window.size,
            "bufferTokens": self.window.buffer,
            "maxOutputTokens": self.window.output,
            "limit": self.limit,
        }


@dataclass(frozen=True, slots=True)
class BlockedTarget:
    """A target that is too small for the request."""

    provider: str
    model: str
    limit: int
    projected: int


@dataclass(frozen=True, slots=True)
class Preflight:
    verdict: Literal["ok", "skip", "final"]
    """`ok`: the first target accepts the request. `skip`: a later one does. `final`: none does."""
    target: ModelTarget | None
    """Where the request goes; None if it fits nowhere."""
    blocked: tuple[BlockedTarget, ...] = ()
    schema_only: bool = False
    """The request is sent although it exceeds the limit, because only the tool definitions exceed it."""


def turn_preflight(
    counters: Counters, targets: Sequence[ModelTarget], extra: int = 0, *, excuse: bool = True
) -> Preflight:
    """Choose the first target that the request fits into. If there is none, accept one whose limit is exceeded only by
    the tool definitions and whose buffer has room for them, unless `excuse` is false."""
    projected = counters.projected_tokens(extra)
    base = projected - counters.schema if counters.schema_counted else projected
    whole = base + counters.schema
    blocked = tuple(
        BlockedTarget(target.provider, target.model, target.limit, whole) for target in targets if whole > target.most
    )
    for target in targets:
        if whole <= target.most:
            return Preflight("ok" if target is targets[0] else "skip", target, blocked[: targets.index(target)])
    for index, target in enumerate(targets):
        if excuse and base <= target.most and whole <= target.limit + target.window.buffer:
            return Preflight("skip" if index else "ok", target, blocked[:index], schema_only=True)
    return Preflight("final", None, blocked)


def settle_for_final_turn(counters: Counters) -> Counters:
    """Return the counters for a forced final turn: everything is settled, and the projection stays the same."""
    return replace(counters, current=counters.current + counters.pending + counters.new, pending=0, new=0)


@dataclass(frozen=True, slots=True)
class ToolBudget:
    """Room for the outputs of one step."""

    limit: int
    used: int
    """Tokens of the request before any of the outputs."""
    reserved: int = 0
    """Tokens of the outputs so far."""
    exceeded: bool = False
    """An output did not fit: no further call is run."""

    @property
    def remaining(self) -> int:
        return max(self.limit - self.used - self.reserved, 0)


@dataclass(frozen=True, slots=True)
class Reservation:
    ok: bool
    tokens: int
    budget: ToolBudget
    """The budget afterwards."""


@dataclass(frozen=True, slots=True)
class OutputPreview:
    fits: bool
    tokens: int
    remaining: int
    """Tokens left after it; negative if it does not fit."""


def tool_preflight(counters: Counters, window: Window, extra: int = 0) -> ToolBudget:
    """Return the room for outputs, from the projection of the next request."""
    projected = counters.projected_tokens(extra) + (0 if counters.schema_counted else counters.schema)
    return ToolBudget(window.effective, projected, exceeded=projected > window.effective)


def reserve_tool_output(budget: ToolBudget, tokens: int) -> Reservation:
    """Reserve room for an output. One that does not fit reserves nothing and prevents further calls."""
    tokens = max(tokens, 0)
    if budget.exceeded or tokens > budget.remaining:
        return Reservation(False, tokens, replace(budget, exceeded=True))
    return Reservation(True, tokens, replace(budget, reserved=budget.reserved + tokens))


def preview_tool_output(budget: ToolBudget, tokens: int) -> OutputPreview:
    """Return the result of `reserve_tool_output` without reserving anything."""
    tokens = max(tokens, 0)
    left = budget.limit - budget.used - budget.reserved - tokens
    return OutputPreview(not budget.exceeded and left >= 0, tokens, left)


def can_execute_tool(budget: ToolBudget) -> bool:
    return not budget.exceeded
