"""Predicts whether a request or a tool's output will fit. Works from counters, before anything is sent.

    projected = current + pending + new + extra        limit = window - buffer - output

Counters only grow until the turn ends. Tool definitions are counted separately; from the second request on, the
provider's count includes them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ebbtide.agent.budget.request_budget import ContextBudget, Window
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class ContextCounters:
    """A session's token counts, from finished turns to the newest output."""

    finished_turn_tokens: int = 0
    """Tokens of the system prompt and of finished turns."""
    pending_tokens: int = 0
    """Tokens added at the start of the turn."""
    new_tokens: int = 0
    """Tokens of replies and outputs since the turn began."""
    tool_tokens: int = 0
    """Tokens of the tool definitions. They are included in `finished_turn_tokens` once the provider has counted
    them."""
    is_schema_counted: bool = False
    reasoning: int = 0
    """Reasoning tokens, for display only. They count towards the output reserve, not the projection."""

    def projected_tokens(self, extra: int = 0) -> int:
        return self.finished_turn_tokens + self.pending_tokens + self.new_tokens + max(extra, 0)

    def at_turn_start(self, pending: int, reasoning: int = 0) -> "ContextCounters":
        """Return the counters at the start of a turn."""
        return replace(self, pending_tokens=self.pending_tokens + max(pending, 0), reasoning=max(reasoning, 0))

    def plus(self, tokens: int) -> "ContextCounters":
        """Return the counters after a reply or output of `tokens`."""
        return replace(self, new_tokens=self.new_tokens + max(tokens, 0))

    def with_measurement(self, budget: ContextBudget, *, is_counted: bool = False) -> "ContextCounters":
        """Return the counters, updated with a measurement of the next request. Measured tokens that the counters do not
        include yet are added to the new ones. `is_counted`: the provider has counted most of the request, including the
        tool definitions, so its count replaces estimates."""
        if is_counted and not self.is_schema_counted:
            pending = min(self.pending_tokens, budget.used)
            finished = min(self.finished_turn_tokens, budget.used - pending)
            new = budget.used - finished - pending
            return ContextCounters(finished, pending, new, budget.tools, True, self.reasoning)
        counted_base = budget.used if self.is_schema_counted else budget.used - budget.tools
        new_tokens = max(self.new_tokens, counted_base - self.finished_turn_tokens - self.pending_tokens)
        return replace(
            self, new_tokens=new_tokens, tool_tokens=budget.tools if is_counted else max(self.tool_tokens, budget.tools)
        )

    def redistribute(self, pending: int, new: int) -> "ContextCounters":
        """Return counters with the same projection in other parts: `pending` tokens of the message that began the turn,
        `new` tokens of replies and outputs since, and the rest as finished turns."""
        projected = self.projected_tokens()
        new = min(max(new, 0), projected)
        pending = min(max(pending, 0), projected - new)
        return replace(self, finished_turn_tokens=projected - new - pending, pending_tokens=pending, new_tokens=new)

    def at_turn_end(self, counted: int | None = None) -> "ContextCounters":
        """Return the counters at the end of a turn, when all tokens become `current`. `counted`: the provider's count
        of the whole conversation, including the tool definitions."""
        if counted is None:
            return replace(self, finished_turn_tokens=self.projected_tokens(), pending_tokens=0, new_tokens=0)
        return replace(
            self, finished_turn_tokens=max(counted, 0), pending_tokens=0, new_tokens=0, is_schema_counted=True
        )

    def debug_fields(self) -> dict[str, int]:
        """Return the counters under the names used in the debug log."""
        return {
            "currentCtxTokens": self.finished_turn_tokens,
            "pendingCtxTokens": self.pending_tokens,
            "newCtxTokens": self.new_tokens,
            "schemaCtxTokens": self.tool_tokens,
        }

    def debug_projection(self, extra: int = 0) -> dict[str, int]:
        """Return the projection and its components under the names used in the debug log."""
        return {
            "projectedTokens": self.projected_tokens(extra),
            **self.debug_fields(),
            "extraTokens": max(extra, 0),
            "currentReasoningTokens": self.reasoning,
        }


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """A model to which the next request could be sent."""

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
        return self.window.available_tokens

    @property
    def max_request_tokens(self) -> int:
        """Maximum size of a request to this target, in tokens."""
        return int(self.share * self.limit)

    def debug_fields(self) -> dict[str, str | int]:
        """Return the limit and its sources under the names used in the debug log."""
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
    """A target whose limit is too low for the request."""

    provider: str
    model: str
    limit: int
    projected: int


@dataclass(frozen=True, slots=True)
class PreflightResult:
    verdict: Literal["ok", "skip", "final"]
    """`ok`: the request fits the first target. `skip`: it fits a later one. `final`: it fits none."""
    target: ModelTarget | None
    """The model to which the request is sent; None if the request fits none."""
    blocked: tuple[BlockedTarget, ...] = ()
    is_over_by_tools: bool = False
    """Whether the request exceeds the limit only because of the tool definitions. It is still sent."""


def choose_target(
    counters: ContextCounters, targets: Sequence[ModelTarget], extra: int = 0, *, allow_large_tools: bool = True
) -> PreflightResult:
    """Choose the first target that the request fits. If it fits none, `allow_large_tools` permits the first target
    whose limit is exceeded only because of the tool definitions, provided that the buffer has room for them."""
    projected = counters.projected_tokens(extra)
    tokens_without_tools = projected - counters.tool_tokens if counters.is_schema_counted else projected
    request_tokens = tokens_without_tools + counters.tool_tokens
    blocked = tuple(
        BlockedTarget(target.provider, target.model, target.limit, request_tokens)
        for target in targets
        if request_tokens > target.max_request_tokens
    )
    for target in targets:
        if request_tokens <= target.max_request_tokens:
            return PreflightResult("ok" if target is targets[0] else "skip", target, blocked[: targets.index(target)])
    for index, target in enumerate(targets):
        if (
            allow_large_tools
            and tokens_without_tools <= target.max_request_tokens
            and request_tokens <= target.limit + target.window.buffer
        ):
            return PreflightResult("skip" if index else "ok", target, blocked[:index], is_over_by_tools=True)
    return PreflightResult("final", None, blocked)


def counters_for_final_turn(counters: ContextCounters) -> ContextCounters:
    """Return the counters for a forced final turn. All tokens count as settled, so the projection stays the same."""
    return replace(
        counters,
        finished_turn_tokens=counters.finished_turn_tokens + counters.pending_tokens + counters.new_tokens,
        pending_tokens=0,
        new_tokens=0,
    )


@dataclass(frozen=True, slots=True)
class ToolBudget:
    """Space for the outputs of one step."""

    limit: int
    used: int
    """Tokens of the request without these outputs."""
    reserved: int = 0
    """Tokens of the outputs accepted so far."""
    is_exceeded: bool = False
    """Whether an output did not fit. After that, no further call is run."""

    @property
    def remaining(self) -> int:
        return max(self.limit - self.used - self.reserved, 0)


@dataclass(frozen=True, slots=True)
class Reservation:
    is_accepted: bool
    tokens: int
    budget: ToolBudget
    """The budget after the reservation."""


@dataclass(frozen=True, slots=True)
class OutputFit:
    fits: bool
    tokens: int
    remaining: int
    """Number of tokens left after the output; negative if it does not fit."""


def create_tool_budget(counters: ContextCounters, window: Window, extra: int = 0) -> ToolBudget:
    """Compute the space for outputs from the projected size of the next request."""
    projected = counters.projected_tokens(extra) + (0 if counters.is_schema_counted else counters.tool_tokens)
    return ToolBudget(window.available_tokens, projected, is_exceeded=projected > window.available_tokens)


def reserve_tool_output(budget: ToolBudget, tokens: int) -> Reservation:
    """Reserve space for an output. If the output does not fit, no space is reserved and no further calls are run."""
    tokens = max(tokens, 0)
    if budget.is_exceeded or tokens > budget.remaining:
        return Reservation(False, tokens, replace(budget, is_exceeded=True))
    return Reservation(True, tokens, replace(budget, reserved=budget.reserved + tokens))


def check_output_fit(budget: ToolBudget, tokens: int) -> OutputFit:
    """Check what `reserve_tool_output` would do, without reserving anything."""
    tokens = max(tokens, 0)
    remaining = budget.limit - budget.used - budget.reserved - tokens
    return OutputFit(not budget.is_exceeded and remaining >= 0, tokens, remaining)


def can_execute_tool(budget: ToolBudget) -> bool:
    return not budget.is_exceeded
