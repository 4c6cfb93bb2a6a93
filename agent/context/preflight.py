"""Whether a request, or the output of a tool, still fits: a projection from counters, before anything is sent. Pure.

    projected = current + pending + new + extra        limit = window - buffer - output

Counters only grow until the turn commits. Tool definitions are counted apart; from the second request on they are
already in what the provider has counted.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ebbtide.agent.context.budget import ContextBudget, Window
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Counters:
    """The tokens of a session by how far they are settled."""

    current: int = 0
    """Of the turns that are over."""
    pending: int = 0
    """Of what the turn began with."""
    new: int = 0
    """Of replies and outputs since the turn began."""
    schema: int = 0
    """Of the tool definitions; in `current` too, once the provider has counted them."""
    schema_counted: bool = False
    reasoning: int = 0
    """For people to see; it is inside the output reserve and in no projection."""

    def projected_tokens(self, extra: int = 0) -> int:
        return self.current + self.pending + self.new + max(extra, 0)

    def at_turn_start(self, pending: int, reasoning: int = 0) -> "Counters":
        """The counters when a turn begins."""
        return replace(self, pending=self.pending + max(pending, 0), reasoning=max(reasoning, 0))

    def plus(self, tokens: int) -> "Counters":
        """The counters after a reply or an output of so many tokens."""
        return replace(self, new=self.new + max(tokens, 0))

    def with_measurement(self, budget: ContextBudget, *, is_counted: bool = False) -> "Counters":
        """The counters when the next request was measured: what it holds beyond them is new. `is_counted`: the provider
        has counted most of it, tool definitions included, so that what was only estimated is given up."""
        if is_counted and not self.schema_counted:
            new = max(budget.used - self.current - self.pending, 0)
            return replace(self, new=new, schema=budget.tools, schema_counted=True)
        base = budget.used if self.schema_counted else budget.used - budget.tools
        grown = max(self.new, base - self.current - self.pending)
        return replace(self, new=grown, schema=budget.tools if is_counted else max(self.schema, budget.tools))

    def at_turn_end(self, counted: int | None = None) -> "Counters":
        """The counters when the turn is over: all is current. `counted` is what the provider says that the whole
        conversation takes, tool definitions included."""
        if counted is None:
            return replace(self, current=self.projected_tokens(), pending=0, new=0)
        return replace(self, current=max(counted, 0), pending=0, new=0, schema_counted=True)

    def debug_fields(self) -> dict[str, int]:
        """The counters by the names that the debug log uses."""
        return {
            "currentCtxTokens": self.current,
            "pendingCtxTokens": self.pending,
            "newCtxTokens": self.new,
            "schemaCtxTokens": self.schema,
        }

    def evaluation(self, extra: int = 0) -> dict[str, int]:
        """The projection and all that is in it, by the names that the debug log uses."""
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
    """Of the limit, what a request may take before the next target is tried."""

    @property
    def id(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def limit(self) -> int:
        return self.window.effective

    @property
    def most(self) -> int:
        """The largest request that goes there."""
        return int(self.share * self.limit)

    def evaluation(self) -> dict[str, str | int]:
        """The limit and where it comes from, by the names that the debug log uses."""
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
    """A target that the request does not fit into."""

    provider: str
    model: str
    limit: int
    projected: int


@dataclass(frozen=True, slots=True)
class Preflight:
    verdict: Literal["ok", "skip", "final"]
    """`ok`: the first target takes the request. `skip`: a later one does. `final`: none does."""
    target: ModelTarget | None
    """Where the request goes; None when it fits nowhere."""
    blocked: tuple[BlockedTarget, ...] = ()
    schema_only: bool = False
    """The request goes out although it is over the limit, since the tool definitions alone put it there."""


def turn_preflight(
    counters: Counters, targets: Sequence[ModelTarget], extra: int = 0, *, excuse: bool = True
) -> Preflight:
    """Where the next request may go: to the first target that takes it. Where nobody does, it may still go where only
    the tool definitions are too much and the buffer has room for them, unless there is no `excuse` for that."""
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
    """The counters when the final turn is forced: what was pending and new is settled, so that the projection stays."""
    return replace(counters, current=counters.current + counters.pending + counters.new, pending=0, new=0)


@dataclass(frozen=True, slots=True)
class ToolBudget:
    """The room for the outputs of one step."""

    limit: int
    used: int
    """What the request takes before any of the outputs."""
    reserved: int = 0
    """What the outputs so far take."""
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
    """Tokens left after it; below zero when it does not fit."""


def tool_preflight(counters: Counters, window: Window, extra: int = 0) -> ToolBudget:
    """The room for outputs, from the same projection as the next request's."""
    projected = counters.projected_tokens(extra) + (0 if counters.schema_counted else counters.schema)
    return ToolBudget(window.effective, projected, exceeded=projected > window.effective)


def reserve_tool_output(budget: ToolBudget, tokens: int) -> Reservation:
    """Takes the room of an output. One that does not fit takes none, and ends the running of calls."""
    tokens = max(tokens, 0)
    if budget.exceeded or tokens > budget.remaining:
        return Reservation(False, tokens, replace(budget, exceeded=True))
    return Reservation(True, tokens, replace(budget, reserved=budget.reserved + tokens))


def preview_tool_output(budget: ToolBudget, tokens: int) -> OutputPreview:
    """What `reserve_tool_output` would say; nothing is taken."""
    tokens = max(tokens, 0)
    left = budget.limit - budget.used - budget.reserved - tokens
    return OutputPreview(not budget.exceeded and left >= 0, tokens, left)


def can_execute_tool(budget: ToolBudget) -> bool:
    return not budget.exceeded
