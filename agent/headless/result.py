"""What a headless run comes to: counted from its events, and the object that it ends with."""

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
from ebbtide.agent.messages import Usage
from ebbtide.tools.lazy import dataclass

RunStop: TypeAlias = Literal[
    "answered", "failed", "denied", "step_limit", "cost_limit", "time_limit", "repeated_calls", "repeated_text",
    "context", "schema", "rate_limited", "auth", "provider", "interrupted",
]  # fmt: skip

_STOPS: Mapping[str, RunStop] = {
    "error": "failed", "crash": "failed", "store": "failed", "empty_answer": "failed", "answer_file": "failed",
    "context": "context", "overflow": "context", "schema": "schema", "rate_limit": "rate_limited", "auth": "auth",
    "hook": "denied", "usage": "failed", "config": "failed",
}  # fmt: skip
_MAX_REFUSED_HOSTS = 100
_LIMITS: Mapping[str, tuple[RunStop, int, str]] = {
    "step_limit": ("step_limit", 6, "stopped at `--max-turns`; raise it, or go on with `ebb -c`"),
    "cost_limit": ("cost_limit", 6, "stopped at `--max-cost`; raise it, or go on with `ebb -c`"),
    "time_limit": ("time_limit", 6, "stopped at `--max-time`; raise it, or go on with `ebb -c`"),
    "repeated_calls": (
        "repeated_calls",
        6,
        "the model made the same call five times, with the same outcome; say what to do with `ebb -c`",
    ),
    "repeated_text": (
        "repeated_text",
        6,
        "the model said the same again and again; say what to do with `ebb -c`, or choose another model",
    ),
    "context_limit": (
        "context",
        7,
        "the window is full and the model gave no report; go on with `ebb -c`, which compacts first",
    ),
}
"""Ends of a turn that are errors of the run: stop reason, exit code and message."""


@dataclass(frozen=True, slots=True)
class RunUsage:
    """Tokens of all requests of a run, those of agents included."""

    input: int
    cache_read: int
    cache_write: int
    output: int
    cost: float | None
    """US dollars; null when the price of any request is not known."""


@dataclass(frozen=True, slots=True)
class DeniedCall:
    """A call that was not run."""

    tool: str
    arguments: Mapping[str, object]
    rule: str
    """What decided."""
    allow: str = ""
    """The rule that would have let it run; empty where none would."""


@dataclass(frozen=True, slots=True)
class RefusedHost:
    """A place of the network that a command in the sandbox wanted to reach and did not."""

    host: str
    rule: str


@dataclass(frozen=True, slots=True)
class RewriteTotals:
    """How often the context was rewritten."""

    count: int
    removed_tokens: int
    strategies: Mapping[str, int]
    """How often each ran."""


@dataclass(frozen=True, slots=True)
class UnusedSummary:
    """A summary that could not be used."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class RefusedInput:
    """A line of the input that was not taken."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run has not ended with an answer."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """The last line of a run, and all of it with `--output-format json`."""

    session: str | None
    """Null when none could be opened."""
    model: str | None
    """The one that was asked last."""
    result: str
    """The last answer, or what there was of it."""
    stop_reason: RunStop
    usage: RunUsage
    steps: int
    files_changed: tuple[str, ...]
    denied: tuple[DeniedCall, ...]
    refused_hosts: tuple[RefusedHost, ...]
    sandbox: str | None
    """What held commands: a kind of sandbox, `off` or `none`; null where no command asked for one."""
    rewrites: RewriteTotals
    unused_summaries: tuple[UnusedSummary, ...]
    refused_input: tuple[RefusedInput, ...]
    """The first hundred of them."""
    error: RunError | None


@dataclass(slots=True)
class RunOutcome:
    """What a run has come to so far."""

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
    """With what decided."""
    rewrites: list[ContextCompacted] = field(default_factory=list)
    sandbox: str | None = None
    error: RunError | None = None
    unused_summaries: list[UnusedSummary] = field(default_factory=list)
    refused_input: list[RefusedInput] = field(default_factory=list)
    is_json: bool = False
    """The result is JSON that meets the schema that was wanted."""

    def take(self, event: Event) -> None:
        """Counts an event in, and what agents take and do."""
        match event:
            case AgentActivity(event=(ReplyFinished() | ToolFinished() | CallDenied() | NetworkRefused()) as inner):
                own = self.model
                self.take(inner)
                self.model = own
            case TurnStarted(model=model):
                self.model, self.is_json = model, False
            case StepStarted():
                self.steps += 1
            case ReplyFinished(usage=usage, cost=cost, model=model, purpose=purpose):
                self.model = model if purpose == "step" else self.model
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
                self.end(end)
            case TurnFailed(code=code, message=message, exit_code=exit_code):
                self.fail(code, message, exit_code)
            case _:
                pass

    def end(self, end: str) -> None:
        """A turn has ended so, or was ended by a limit of the run."""
        self.error = None
        if end == "interrupted":
            self.mark_interrupted()
        elif end in _LIMITS:
            self.stop_reason, self.exit_code, message = _LIMITS[end]
            self.error = RunError(end, message)
        elif self.denied:
            self.stop_reason, self.exit_code = "denied", 5
        else:
            self.stop_reason, self.exit_code = "answered", 0

    def refuse(self, line: int, reason: str) -> None:
        """A line of the input was not taken."""
        if len(self.refused_input) < _MAX_REFUSED_HOSTS:
            self.refused_input.append(RefusedInput(line, reason))

    def mark_interrupted(self) -> None:
        self.stop_reason, self.exit_code = "interrupted", 130

    def fail(self, code: str, message: str, exit_code: int) -> None:
        self.stop_reason, self.exit_code = _STOPS.get(code, "provider"), exit_code
        self.error = RunError(code, message)

    @property
    def as_result(self) -> RunResult:
        counted = Counter(name for one in self.rewrites for name in one.strategies)
        removed = sum(one.before_tokens - one.after_tokens for one in self.rewrites)
        spent = self.usage
        return RunResult(
            session=self.session,
            model=self.model,
            result=self.result,
            stop_reason=self.stop_reason,
            usage=RunUsage(spent.input, spent.cache_read, spent.cache_write, spent.output, self.cost),
            steps=self.steps,
            files_changed=tuple(self.files_changed),
            denied=tuple(self.denied),
            refused_hosts=tuple(RefusedHost(host, rule) for host, rule in self.refused_hosts.items()),
            sandbox=self.sandbox,
            rewrites=RewriteTotals(len(self.rewrites), removed, dict(counted)),
            unused_summaries=tuple(self.unused_summaries),
            refused_input=tuple(self.refused_input),
            error=self.error,
        )
