"""The outcome of a headless run, accumulated from its events, and the final result object."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from ebbtide.agent.events.permissions import CallDenied, NetworkRefused
from ebbtide.agent.events.session import (
    AgentActivity,
    Event,
    ReplyFinished,
    StepStarted,
    ToolFinished,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from ebbtide.agent.events.view import CompactionFailed, ContextCompacted
from ebbtide.agent.messages import Source, Usage
from ebbtide.tools.lazy import dataclass

RunStop: TypeAlias = Literal[
    "answered", "failed", "denied", "step_limit", "cost_limit", "time_limit", "repeated_calls", "repeated_text",
    "context", "schema", "rate_limited", "auth", "provider", "interrupted",
]  # fmt: skip

_STOP_BY_ERROR_CODE: Mapping[str, RunStop] = {
    "error": "failed", "crash": "failed", "store": "failed", "empty_answer": "failed", "answer_file": "failed",
    "context": "context", "overflow": "context", "schema": "schema", "rate_limit": "rate_limited", "auth": "auth",
    "hook": "denied", "usage": "failed", "config": "failed",
}  # fmt: skip
_MAX_REFUSED_LINES = 100
_STOP_BY_TURN_END: Mapping[str, tuple[RunStop, int, str]] = {
    "step_limit": ("step_limit", 6, "stopped at `--max-turns`; raise it, or continue with `ebb -c`"),
    "cost_limit": ("cost_limit", 6, "stopped at `--max-cost`; raise it, or continue with `ebb -c`"),
    "time_limit": ("time_limit", 6, "stopped at `--max-time`; raise it, or continue with `ebb -c`"),
    "repeated_calls": (
        "repeated_calls",
        6,
        "the model made the same call five times with the same result; tell it what to do with `ebb -c`",
    ),
    "repeated_text": (
        "repeated_text",
        6,
        "the model kept repeating itself; tell it what to do with `ebb -c`, or choose another model",
    ),
    "context_limit": (
        "context",
        7,
        "the context window is full and the model gave no report; continue with `ebb -c`, which compacts first",
    ),
}
"""Turn endings that count as errors of the run, each with its stop reason, exit code and message."""


@dataclass(frozen=True, slots=True)
class RunUsage:
    """Total tokens of the run, including sub-agents."""

    input: int
    cache_read: int
    cache_write: int
    output: int
    cost: float | None
    """US dollars; null if the price of any request is unknown."""


@dataclass(frozen=True, slots=True)
class DeniedCall:
    """A call that was denied."""

    tool: str
    arguments: Mapping[str, object]
    rule: str
    """The rule that denied it."""
    allow: str = ""
    """The rule that would allow it; empty if there is none."""


@dataclass(frozen=True, slots=True)
class RefusedHost:
    """A network host that a sandboxed command could not reach."""

    host: str
    rule: str


@dataclass(frozen=True, slots=True)
class RewriteTotals:
    """Statistics of the compactions of a run."""

    count: int
    removed_tokens: int
    strategies: Mapping[str, int]
    """How often each strategy took effect."""


@dataclass(frozen=True, slots=True)
class UnusedSummary:
    """A summary that could not be used."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class RefusedInput:
    """An input line that was refused."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run ended without an answer."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """The last line of a run, and the entire output with `--output-format json`."""

    session: str | None
    """Null if no session could be opened."""
    model: str | None
    """The most recently used model."""
    result: str
    """The last answer, which may be incomplete."""
    stop_reason: RunStop
    usage: RunUsage
    steps: int
    files_changed: tuple[str, ...]
    denied: tuple[DeniedCall, ...]
    refused_hosts: tuple[RefusedHost, ...]
    sandbox: str | None
    """The kind of sandbox; `off` if disabled, `none` if unavailable; null if no command needed one."""
    rewrites: RewriteTotals
    unused_summaries: tuple[UnusedSummary, ...]
    refused_input: tuple[RefusedInput, ...]
    """The refused input lines; at most the first hundred."""
    error: RunError | None
    sources: tuple[Source, ...] = ()
    """The web pages that the last answer cites."""


@dataclass(slots=True)
class RunOutcome:
    """The outcome of a run so far."""

    session: str | None = None
    model: str | None = None
    mode: str = ""
    """The permission mode."""
    result: str = ""
    stop_reason: RunStop = "failed"
    exit_code: int = 1
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    steps: int = 0
    files_changed: dict[str, None] = field(default_factory=dict)
    denied: list[DeniedCall] = field(default_factory=list)
    refused_hosts: dict[str, str] = field(default_factory=dict)
    """Hosts that could not be reached, each with the rule that refused it."""
    rewrites: list[ContextCompacted] = field(default_factory=list)
    sandbox: str | None = None
    error: RunError | None = None
    unused_summaries: list[UnusedSummary] = field(default_factory=list)
    refused_input: list[RefusedInput] = field(default_factory=list)
    sources: tuple[Source, ...] = ()
    """The sources of the latest reply."""
    is_json: bool = False
    """Whether the result is JSON that matches the requested schema."""

    def record_event(self, event: Event) -> None:
        """Update the outcome with an event of the session or of a sub-agent."""
        match event:
            case AgentActivity(
                event=(ReplyFinished() | ToolFinished() | CallDenied() | NetworkRefused()) as agent_event
            ):
                session_model, session_sources = self.model, self.sources
                self.record_event(agent_event)
                self.model, self.sources = session_model, session_sources
            case TurnStarted(model=model):
                self.model, self.is_json, self.sources = model, False, ()
            case StepStarted():
                self.steps += 1
            case ReplyFinished(usage=usage, cost=cost, model=model, purpose=purpose, sources=sources):
                self.model, self.sources = (model, sources) if purpose == "step" else (self.model, self.sources)
                self.usage += usage
                self.cost = None if cost is None or self.cost is None else self.cost + cost
            case ToolFinished(changed=changed):
                self.files_changed.update(dict.fromkeys(changed))
            case CallDenied(name=name, arguments=arguments, rule=rule, allow=allow):
                self.denied.append(DeniedCall(name, arguments, rule, allow))
            case NetworkRefused(host=host, rule=rule):
                self.refused_hosts.setdefault(host, rule)
            case ContextCompacted():
                self.rewrites.append(event)
            case CompactionFailed(model=model, reason=reason):
                self.unused_summaries.append(UnusedSummary(model, reason))
            case TurnFinished(end=end, text=text):
                self.result = text
                self.record_turn_end(end)
            case TurnFailed(code=code, message=message, exit_code=exit_code):
                self.record_failure(code, message, exit_code)
            case _:
                pass

    def record_turn_end(self, end: str) -> None:
        """Record how a turn ended, or which limit ended the run."""
        self.error = None
        if end == "interrupted":
            self.mark_interrupted()
        elif end in _STOP_BY_TURN_END:
            self.stop_reason, self.exit_code, message = _STOP_BY_TURN_END[end]
            self.error = RunError(end, message)
        elif self.denied:
            self.stop_reason, self.exit_code = "denied", 5
        else:
            self.stop_reason, self.exit_code = "answered", 0

    def record_refused_line(self, line: int, reason: str) -> None:
        """Record a refused input line."""
        if len(self.refused_input) < _MAX_REFUSED_LINES:
            self.refused_input.append(RefusedInput(line, reason))

    def mark_interrupted(self) -> None:
        self.stop_reason, self.exit_code = "interrupted", 130

    def record_failure(self, code: str, message: str, exit_code: int) -> None:
        self.stop_reason, self.exit_code = _STOP_BY_ERROR_CODE.get(code, "provider"), exit_code
        self.error = RunError(code, message)

    @property
    def result_so_far(self) -> RunResult:
        strategy_counts = Counter(name for rewrite in self.rewrites for name in rewrite.strategies)
        removed_tokens = sum(rewrite.before_tokens - rewrite.after_tokens for rewrite in self.rewrites)
        usage = self.usage
        return RunResult(
            session=self.session,
            model=self.model,
            result=self.result,
            stop_reason=self.stop_reason,
            usage=RunUsage(usage.input, usage.cache_read, usage.cache_write, usage.output, self.cost),
            steps=self.steps,
            files_changed=tuple(self.files_changed),
            denied=tuple(self.denied),
            refused_hosts=tuple(RefusedHost(host, rule) for host, rule in self.refused_hosts.items()),
            sandbox=self.sandbox,
            rewrites=RewriteTotals(len(self.rewrites), removed_tokens, dict(strategy_counts)),
            unused_summaries=tuple(self.unused_summaries),
            refused_input=tuple(self.refused_input),
            error=self.error,
            sources=self.sources,
        )
