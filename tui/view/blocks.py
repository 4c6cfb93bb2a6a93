"""What the screen shows of a session, as values: blocks and the session view. It imports neither events nor widgets,
so that it is available at once."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.view.receipts import Compaction, RunningCompaction, UndoneReceipt

if TYPE_CHECKING:  # types only: events and messages are loaded behind the first paint
    from ebbtide.agent.events.permissions import PermissionAsked, QuestionAsked
    from ebbtide.agent.events.plan import PlanSubmitted
    from ebbtide.agent.events.session import Remembered
    from ebbtide.agent.events.view import FilesChanged
    from ebbtide.agent.messages import OutputStatus, Ranges
    from ebbtide.tools.outputs.new_problems import NewProblems
    from ebbtide.tools.process.state import ProgramState

MARGIN = 2
"""Columns left of everything but marks."""
USER_BAR, MODEL_BAR = "▌", "▏"
"""Bars in the margin beside user and model text; copied as spaces."""

Detail: TypeAlias = Literal["compact", "normal", "full"]
"""How much of a block is shown: one line, the most useful part, or everything."""

DETAILS: tuple[Detail, ...] = ("compact", "normal", "full")


def detail_label(detail: Detail) -> str:
    """The label of a detail level, shown when it is chosen."""
    match detail:
        case "compact":
            return "compact: a line for each call"
        case "normal":
            return "normal: diffs, lists and the end of outputs"
        case "full":
            return "full: all of every call"


CallStatus: TypeAlias = "Literal['asking', 'running'] | OutputStatus"


@dataclass(frozen=True, slots=True)
class UserText:
    text: str


@dataclass(frozen=True, slots=True)
class AnswerText:
    text: str
    streaming: bool = False


@dataclass(frozen=True, slots=True)
class ReasoningBlock:
    """Reasoning of the model, collapsed until the user expands it."""

    text: str
    streaming: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    call_id: str
    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    status: CallStatus = "running"
    tail: str = ""
    """The end of the output so far, while the call runs."""
    agent_tokens: int = 0
    """Tokens used so far by the sub-agent of the call."""
    text: str = ""
    """The output as the model received it."""
    lines: int | None = None
    """Number of lines of the whole output, if `text` is only part of it."""
    inserted: "Ranges" = ()
    """Ranges of `text` that the program inserted to mark omissions."""
    program: "ProgramState | None" = None
    """State of the program that the call ran."""
    problems: "NewProblems | None" = None
    """New diagnostics in the files that it changed."""
    changed: tuple[str, ...] = ()
    preview: str = ""
    """The unified diff shown before the call, later of what it changed; empty if unknown."""
    is_edited: bool = False
    """Whether the user edited the call before it ran."""

    @property
    def is_agent_at_work(self) -> bool:
        return self.name == "task" and self.status == "running"


@dataclass(frozen=True, slots=True)
class Retry:
    attempt: int
    attempts: int
    """Maximum attempts; 0 if limited by time."""
    delay: float
    reason: str
    left: float | None = None
    """Seconds after that attempt in which others may follow; None without a limit."""

    @property
    def which(self) -> str:
        return f"attempt {self.attempt} of {self.attempts}" if self.attempts else f"attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Notice:
    text: str
    remembered: "Remembered | None" = None
    """What `/undo` reverts if used right after it."""


@dataclass(frozen=True, slots=True)
class TurnTotal:
    """Time, cost and file changes of a turn, at its end."""

    seconds: int | None = None
    """Without the time spent waiting for the user; None while the turn runs."""
    cost: float | None = None
    """US dollars; None if unknown or no model was called."""
    tokens: int = 0
    files: "FilesChanged | None" = None


@dataclass(frozen=True, slots=True)
class Failure:
    code: str
    message: str
    cause: str = ""
    todo: str = ""
    """The end of the message that says what to do; replaced by advice for this interface if there is any."""


@dataclass(frozen=True, slots=True)
class SummaryBlock:
    """The summary of the compacted part of a resumed conversation."""

    text: str


@dataclass(frozen=True, slots=True)
class OlderMessages:
    """Messages before those that are shown; read from the store on demand."""

    messages: int
    problem: str = ""
    """Why the last attempt to read them failed."""


Block: TypeAlias = (
    UserText
    | AnswerText
    | ReasoningBlock
    | Call
    | Retry
    | Notice
    | TurnTotal
    | Failure
    | RunningCompaction
    | Compaction
    | UndoneReceipt
    | SummaryBlock
    | OlderMessages
)

OpenQuestion: TypeAlias = "PermissionAsked | PlanSubmitted | QuestionAsked"


@dataclass(frozen=True, slots=True)
class SessionView:
    past: tuple[Block, ...] = ()
    """Blocks of earlier turns. They never change."""
    turn: tuple[Block, ...] = ()
    """Blocks of the current or last turn, and notices since."""
    busy: bool = False
    activity: str = ""
    """The current activity in one or two words, while busy."""
    hook_status: str = ""
    """Status text of a running hook."""
    asked: tuple[OpenQuestion, ...] = ()
    """Open questions, oldest first."""
    model: str = ""
    mode: str = ""
    used: int = 0
    """Tokens of the conversation, as far as known."""
    is_guess: bool = False
    """Whether `used` is an estimate, without any provider count."""
    room: int = 0
    """Tokens available to a request: the window minus the reserves."""
    cost: float | None = 0.0
    """US dollars, or None if a price is unknown."""
    parts: tuple[tuple[str, int], ...] = ()
    """Tokens of the next request by component, as far as known."""
    turn_cost: float | None = 0.0
    """US dollars of the turn."""
    turn_tokens: int = 0
    """Tokens of the turn's requests, sent and received."""
    keep_alive_count: int = 0
    """Number of cache keep-alive requests since."""
    keep_alive_cost: float | None = 0.0
    """US dollars of those."""
    prompted: int = 0
    """Tokens sent by the turn's requests."""
    read: int = 0
    """Of those, tokens read from the provider's cache."""
    streamed: int = 0
    """Characters of the streaming reply so far."""
    call_size: int = 0
    """Of those, the arguments of the call being written."""
    step_start: int = 0
    """Index in `turn` where the current step starts."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.past + self.turn

    @property
    def earlier(self) -> int:
        """Number of messages before those that are shown."""
        first = self.past[0] if self.past else None
        return first.messages if isinstance(first, OlderMessages) else 0

    def with_read_problem(self, problem: str) -> "SessionView":
        """The view with the reason why earlier messages could not be read."""
        return replace(self, past=(OlderMessages(self.earlier, problem), *self.past[1:]))

    def with_older(self, messages: int, blocks: tuple[Block, ...]) -> "SessionView":
        """The view with more earlier blocks; `messages` remain before them."""
        rest = self.past[1:] if self.earlier else self.past
        return replace(self, past=(*((OlderMessages(messages),) if messages else ()), *blocks, *rest))

    def plus(self, *blocks: Block) -> "SessionView":
        return replace(self, turn=self.turn + blocks)

    def without_streaming(self) -> "SessionView":
        """The view with nothing streaming."""
        if not any(isinstance(block, AnswerText | ReasoningBlock) and block.streaming for block in self.turn):
            return self
        turn = tuple(
            replace(block, streaming=False)
            if isinstance(block, AnswerText | ReasoningBlock) and block.streaming
            else block
            for block in self.turn
        )
        return replace(self, turn=turn)


def has_work(call: Call) -> bool:
    """Whether a finished call shows more than its line while collapsed. Called for every call, so it looks nothing
    up."""
    if call.status == "failed":
        return bool(call.text)
    return call.status == "done" and bool(call.name == "todo" or call.preview or (call.name in _WORKS and call.text))


_WORKS = ("bash", "edit", "write", "apply_patch")


def is_expandable(block: Block) -> bool:
    """Whether a block has more than the line it shows."""
    return isinstance(block, Call | ReasoningBlock | SummaryBlock | Compaction | OlderMessages)
