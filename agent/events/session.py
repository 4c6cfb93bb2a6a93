"""What happens in a session, as it happens. Events are plain data: shown, printed and stored unchanged."""

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
from ebbtide.agent.messages import OutputStatus, Ranges, StopReason, Usage
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.new_problems import NewProblems
from ebbtide.tools.process.state import ProgramState

TurnEnd: TypeAlias = Literal[
    "answered", "interrupted", "step_limit", "cost_limit", "context_limit", "repeated_calls", "repeated_text", "failed"
]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn begins with what the user said."""

    session: str
    model: str
    text: str


@dataclass(frozen=True, slots=True)
class Steered:
    """What the user said while the turn runs has reached it: the step that begins shows it to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A request is about to be made, and the calls that its reply wants to be run."""

    step: int
    """Counts from 1 in each turn."""


@dataclass(frozen=True, slots=True)
class ContextMeasured:
    """How large the next request is."""

    used: int
    """Tokens that the next request is estimated to take."""
    window: int
    """The model's window in tokens."""
    effective: int
    """What the request may take of it, after the output reserve and the safety buffer."""
    parts: tuple[tuple[str, int], ...] = ()
    """Tokens by component, in the order of the request; together they are `used`."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer, as it streams in."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's thinking, as far as the provider shows it."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """The model is writing a call; its arguments are not complete yet."""

    name: str
    size: int
    """Characters of arguments so far."""
    call_id: str = ""
    """Empty where the provider has not named the call yet."""


@dataclass(frozen=True, slots=True)
class CallsRead:
    """What was streamed as text since the step began holds calls, which are run."""

    text: str
    """The rest of it."""


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """The request failed and is sent again. What was streamed since the step began no longer counts."""

    attempt: int
    """2 for the first time; answers that break off are counted by themselves."""
    attempts: int
    """The most of them; 0 where time is the limit."""
    delay: float
    """Seconds until the next attempt."""
    reason: str
    left: float | None = None
    """Seconds behind that attempt in which others may follow; None: no end is set."""


@dataclass(frozen=True, slots=True)
class ReplyFinished:
    """A reply is complete, with what it took."""

    model: str
    stop_reason: StopReason
    usage: Usage
    cost: float | None
    """US dollars, or None when the model's prices are not known."""
    purpose: Literal["step", "summary", "probe", "reading", "sampling", "hook", "keep-alive"] = "step"
    """A step of the turn, a summary for a compaction, a short question that finds the fastest model for one, a long
    output that is read, what a server wanted written, what a hook asks, or the last request again, to keep the
    provider's cache alive."""


@dataclass(frozen=True, slots=True)
class ToolsFound:
    """The provider has searched the tools that are held back, and shows the model these from now on."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call begins to run."""

    call_id: str
    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running call has printed more."""

    call_id: str
    text: str
    """New output since the last progress, for people to watch; the model sees the whole output in the end."""


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call is over, with what the model is shown of it."""

    call_id: str
    name: str
    status: OutputStatus
    text: str
    changed: tuple[str, ...] = ()
    """Files that the call created, changed or deleted, relative to the working folder."""
    lines: int | None = None
    """Lines of all that the call gave back, when `text` is only part of it."""
    inserted: Ranges = ()
    """Where in `text` the program says what is left out and how the model sees it."""
    program: ProgramState | None = None
    """How it stands with the program that the call was about, where it was about one."""
    diff: str = ""
    """What it changed in files, as a unified diff, where somebody looks on and the tool knows."""
    problems: NewProblems | None = None
    """What these changes have brought, as far as language servers have said; it stands in `text`, too."""


@dataclass(frozen=True, slots=True)
class WindowLearned:
    """The provider found a request too large: its window is smaller than was known. The request is sent again."""

    size: int
    """Tokens of the window from now on, in this session."""
    effective: int
    """What a request may take of it."""
    attempt: int
    attempts: int


@dataclass(frozen=True, slots=True)
class ModelSwitched:
    """The session goes on with another model: the conversation does not fit the one before, that one does not answer,
    or a command is meant for it, from which the session returns with the turn's end."""

    before: str
    """`provider/name`."""
    after: str
    why: str
    tokens: int
    """What the conversation was estimated to take."""


@dataclass(frozen=True, slots=True)
class FinalTurn:
    """The window is full, and the model is asked for its report instead of further work."""

    used: int
    effective: int


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something the user should know that stops nothing."""

    text: str


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A background job is over, also between two turns. The model is told with what is sent next."""

    job: str
    command: str
    how: str
    """`exit code 1`, or what else ended it."""
    last_lines: tuple[str, ...] = ()
    """Of what it printed that the model was not given."""


@dataclass(frozen=True, slots=True)
class HookStatus:
    """What hooks do that the session waits for, in their own words; an empty text when they are done."""

    text: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """Something was written into a file that later sessions begin with."""

    entry: str
    path: str
    before: int | None
    """Bytes of the file before that; None when there was none."""
    digest: str
    """The SHA-256 of the file since then."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """An earlier session goes on. What is listed is no longer as the session left it."""

    session: str
    messages: int
    """How many the model is shown again."""
    model: str
    mode: str
    todos: tuple[tuple[str, str], ...] = ()
    """Text and status of each item of the model's list."""
    changed: tuple[str, ...] = ()
    """Files that hold something else than what the model saw, relative to the working folder."""
    gone: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    """Commands of background jobs that are over."""
    problems: tuple[str, ...] = ()
    """What could not be restored, a sentence each."""
    mode_before: str = ""
    """The mode in which it was left, where it goes on in another: a terminal has its user's own."""


@dataclass(frozen=True, slots=True)
class AgentActivity:
    """Something happened in the session of an agent. What its model writes word by word is not told."""

    agent: str
    """The id of its session."""
    call_id: str
    """The call of `task` that sent it off."""
    name: str
    seconds: float
    """Since it was sent off."""
    event: "Event"


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """A turn is over."""

    end: TurnEnd
    text: str
    """The answer, or what there was of it."""


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """A turn ended with an error."""

    code: str
    message: str
    exit_code: int
    cause: str = ""
    """What is behind it, where that is known more closely than by `code`."""
    todo: str = ""
    """The end of the message that says what to do, where it is known where that begins."""

    @classmethod
    def by(cls, error: AgentError) -> "TurnFailed":
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
