"""Session events: plain data that is shown, printed and stored unchanged."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.permissions import (
    CallDenied,
    CallEdited,
    NetworkRefused,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from ebbtide.agent.events.plan import PlanEvent
from ebbtide.agent.events.subagents import SubagentEvent
from ebbtide.agent.events.view import (
    BroughtBack,
    CacheEvent,
    CompactionFailed,
    CompactionStarted,
    ContextCompacted,
    FilesChanged,
    NothingCompacted,
    RewriteUndone,
    ViewChanged,
)
from ebbtide.agent.messages import OutputStatus, Ranges, Source, StopReason, Usage
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.new_problems import NewProblems
from ebbtide.tools.process.state import ProgramState

TurnEnd: TypeAlias = Literal[
    "answered", "interrupted", "step_limit", "cost_limit", "context_limit", "repeated_calls", "repeated_text", "failed"
]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn begins with the user's message."""

    session: str
    model: str
    text: str


@dataclass(frozen=True, slots=True)
class Steered:
    """A message that the user sent during the turn is delivered: the model sees it in the next step."""

    text: str


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step begins: a request, followed by the calls in its reply."""

    step: int
    """The number of the step within its turn, from 1."""


@dataclass(frozen=True, slots=True)
class ContextMeasured:
    """The size of the next request."""

    used: int
    """Estimated tokens of the next request."""
    window: int
    """The model's window in tokens."""
    effective: int
    """Tokens available to the request, after the output reserve and the safety buffer."""
    parts: tuple[tuple[str, int], ...] = ()
    """Tokens by component, in the order of the request; they add up to `used`."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer as it streams in."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's thinking, if the provider shows it."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """The model is writing a call; its arguments are not complete yet."""

    name: str
    size: int
    """Characters of arguments so far."""
    call_id: str = ""
    """Empty if the provider has not named the call yet."""


@dataclass(frozen=True, slots=True)
class CallsRead:
    """The text streamed in this step turned out to contain calls, which will run."""

    text: str
    """The text without the calls."""


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """The request failed and will be sent again. Discard everything streamed since the step began."""

    attempt: int
    """The number of the next attempt: 2 for the first retry. Attempts after an interrupted reply are counted
    separately."""
    attempts: int
    """Maximum number of attempts; 0 if only the time is limited."""
    delay: float
    """Seconds until the next attempt."""
    reason: str
    left: float | None = None
    """Seconds left for retries after the next attempt; None if there is no limit."""
    short_reason: str = ""
    """The reason in a few words, such as `Overloaded (529)`."""


@dataclass(frozen=True, slots=True)
class ReplyFinished:
    """A reply is complete, with its usage and cost."""

    model: str
    stop_reason: StopReason
    usage: Usage
    cost: float | None
    """US dollars, or None if the model's prices are unknown."""
    purpose: Literal["step", "summary", "probe", "reading", "sampling", "hook", "keep-alive", "search"] = "step"
    """Purpose of the request: a step of the turn, a summary for a compaction, a short probe for the fastest summary
    model, reading a long output, sampling for an MCP server, a hook's question, keeping the provider's cache alive, or
    a web search by the provider."""
    sources: tuple[Source, ...] = ()
    """The web pages that the reply cites."""
    skipped_frames: int = 0
    """Number of events in the provider's stream that could not be read."""


@dataclass(frozen=True, slots=True)
class ToolsFound:
    """The provider has searched the deferred tools. From now on, the model sees the tools that were found."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call begins to run."""

    call_id: str
    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running call has produced output."""

    call_id: str
    text: str
    """New output since the last progress event, for display; the model receives the full output at the end."""


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call has ended, with the output that the model sees."""

    call_id: str
    name: str
    status: OutputStatus
    text: str
    changed: tuple[str, ...] = ()
    """Files that the call created, changed or deleted, relative to the working folder."""
    lines: int | None = None
    """Number of lines in the full output, if `text` is only part of it."""
    inserted: Ranges = ()
    """Ranges of `text` that this program inserted to explain what was omitted and how to see it."""
    program: ProgramState | None = None
    """State of the program that the call started or queried, if any."""
    diff: str = ""
    """The call's file changes as a unified diff, if the tool reports them. Always empty in headless sessions."""
    problems: NewProblems | None = None
    """Problems introduced by these changes, as reported by language servers; `text` also lists them."""


@dataclass(frozen=True, slots=True)
class WindowLearned:
    """The provider rejected a request as too large: the window is smaller than assumed. The request is sent again."""

    size: int
    """Size of the window from now on, in tokens, for this session."""
    effective: int
    """Tokens available to a request."""
    attempt: int
    attempts: int


@dataclass(frozen=True, slots=True)
class ModelSwitched:
    """The session continues with another model. Either the conversation does not fit the previous model, that model
    does not answer, or a command requests another model for the rest of the turn."""

    before: str
    """`provider/name`."""
    after: str
    why: str
    tokens: int
    """Estimated tokens of the conversation."""


@dataclass(frozen=True, slots=True)
class FinalTurn:
    """The window is full, so the model is asked for a report instead of further work."""

    used: int
    effective: int


@dataclass(frozen=True, slots=True)
class Noticed:
    """A notice for the user that does not interrupt anything."""

    text: str


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A background job has ended, possibly between turns. The model is informed with the next message."""

    job: str
    command: str
    how: str
    """How it ended, such as `exit code 1`."""
    last_lines: tuple[str, ...] = ()
    """Last lines of output that the model has not seen."""


@dataclass(frozen=True, slots=True)
class HookStatus:
    """Status text of the hooks that the session is waiting for; empty when they are done."""

    text: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """A memory was written to a file that later sessions load."""

    entry: str
    path: str
    before: int | None
    """Previous size of the file in bytes; None if it did not exist."""
    digest: str
    """SHA-256 of the file after the change."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """An earlier session is resumed. Lists what has changed since it was closed."""

    session: str
    messages: int
    """Number of messages that the model sees again."""
    model: str
    mode: str
    todos: tuple[tuple[str, str], ...] = ()
    """Text and status of each item of the model's todo list."""
    changed: tuple[str, ...] = ()
    """Files whose content differs from what the model saw, relative to the working folder."""
    gone: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    """Commands of background jobs that have ended."""
    problems: tuple[str, ...] = ()
    """What could not be restored, one sentence each."""
    mode_before: str = ""
    """The session's mode when it was closed, if that differs from the current one. Interactive sessions start in the
    mode that the user has configured."""


@dataclass(frozen=True, slots=True)
class AgentActivity:
    """An event in a sub-agent's session. Streamed text is not reported."""

    agent: str
    """Id of the sub-agent's session."""
    call_id: str
    """Id of the `task` call that started it."""
    name: str
    seconds: float
    """Seconds since it was started."""
    event: "Event"


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """A turn has ended."""

    end: TurnEnd
    text: str
    """The answer; if the turn was interrupted, the part written until then."""


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """A turn ended with an error."""

    code: str
    message: str
    exit_code: int
    cause: str = ""
    """A more specific cause than `code`, if known."""
    todo: str = ""
    """The last part of the message, which says what to do, if it can be separated."""

    @classmethod
    def from_error(cls, error: AgentError) -> "TurnFailed":
        return cls(error.code, str(error), error.exit_code, error.cause, error.todo)


Event: TypeAlias = (
    TurnStarted
    | Steered
    | StepStarted
    | ContextMeasured
    | TextDelta
    | ReasoningDelta
    | CallDelta
    | CallsRead
    | RetryScheduled
    | ReplyFinished
    | ToolsFound
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | PermissionAsked
    | PermissionAnswered
    | CallEdited
    | CallDenied
    | NetworkRefused
    | QuestionAsked
    | QuestionAnswered
    | PlanEvent
    | CompactionStarted
    | ContextCompacted
    | NothingCompacted
    | RewriteUndone
    | BroughtBack
    | ViewChanged
    | CacheEvent
    | CompactionFailed
    | WindowLearned
    | ModelSwitched
    | FinalTurn
    | Noticed
    | JobEnded
    | HookStatus
    | Remembered
    | Resumed
    | FilesChanged
    | SubagentEvent
    | AgentActivity
    | TurnFinished
    | TurnFailed
)
