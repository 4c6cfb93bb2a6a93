"""What the screen shows of a session, as values: blocks, and the view that they make. Blocks know neither events nor a
widget, so that they are there before anything happens."""

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
"""Columns left free at the left of everything but marks."""
USER_BAR, MODEL_BAR = "▌", "▏"
"""What stands there beside what somebody said. Whoever copies the lines gets blanks in place of it."""

Detail: TypeAlias = Literal["compact", "normal", "full"]
"""How much of a block is shown: its line, also the part of it that tells most, or all of it."""

DETAILS: tuple[Detail, ...] = ("compact", "normal", "full")


def detail_label(detail: Detail) -> str:
    """What somebody is told who has just chosen to see that much."""
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
    """Reasoning of the model, folded until the user opens it."""

    text: str
    streaming: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    call_id: str
    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    status: CallStatus = "running"
    tail: str = ""
    """The end of what the call printed so far, while it runs."""
    agent_tokens: int = 0
    """What an agent that it has sent off has taken so far."""
    text: str = ""
    """What the model was given back."""
    lines: int | None = None
    """Lines of all that the call gave back, when `text` is only part of it."""
    inserted: "Ranges" = ()
    """Where in `text` the program says what is left out."""
    program: "ProgramState | None" = None
    """How it stands with the program that the call was about."""
    problems: "NewProblems | None" = None
    """What it has brought in the files that it changed."""
    changed: tuple[str, ...] = ()
    preview: str = ""
    """The unified diff that the user was shown before the call, and then of what it did; empty where neither is
    known."""
    is_edited: bool = False
    """The user changed the call before it ran."""

    @property
    def is_agent_at_work(self) -> bool:
        return self.name == "task" and self.status == "running"


@dataclass(frozen=True, slots=True)
class Retry:
    attempt: int
    attempts: int
    """The most of them; 0 where time is the limit."""
    delay: float
    reason: str
    left: float | None = None
    """Seconds behind that attempt in which others may follow; None: no end is set."""

    @property
    def which(self) -> str:
        return f"attempt {self.attempt} of {self.attempts}" if self.attempts else f"attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Notice:
    text: str
    remembered: "Remembered | None" = None
    """What `/undo` takes back right behind it."""


@dataclass(frozen=True, slots=True)
class TurnTotal:
    """What a turn took and changed, at its end."""

    seconds: int | None = None
    """Without those in which the user was asked; None as long as the turn goes on."""
    cost: float | None = None
    """US dollars; None where that is not known, or nothing was asked of a model."""
    tokens: int = 0
    files: "FilesChanged | None" = None


@dataclass(frozen=True, slots=True)
class Failure:
    code: str
    message: str
    cause: str = ""
    todo: str = ""
    """The end of the message that says what to do; left out where there is advice for this terminal."""


@dataclass(frozen=True, slots=True)
class SummaryBlock:
    """What stands for the part of a resumed conversation that was compacted away."""

    text: str


@dataclass(frozen=True, slots=True)
class OlderMessages:
    """What was said before all that is shown, and is read from the store when it is wanted."""

    messages: int
    problem: str = ""
    """Why it could not be read when it was wanted last."""


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
    """What the turns before this one left. It is never touched again."""
    turn: tuple[Block, ...] = ()
    """The current turn, or the last one, with what was noticed since."""
    busy: bool = False
    activity: str = ""
    """What the session is doing, in one or two words, while it is busy."""
    hook_status: str = ""
    """What a hook does that it waits for, in the hook's words."""
    asked: tuple[OpenQuestion, ...] = ()
    """Questions that wait for the user, oldest first."""
    model: str = ""
    mode: str = ""
    used: int = 0
    """Tokens that the conversation takes, as far as known."""
    is_guess: bool = False
    """No provider has counted any of them."""
    room: int = 0
    """Tokens that a request may take: the window without what is kept free of it."""
    cost: float | None = 0.0
    """US dollars, or None when the price of something in it is not known."""
    parts: tuple[tuple[str, int], ...] = ()
    """Tokens of the next request by component, as far as known."""
    turn_cost: float | None = 0.0
    """US dollars of the turn."""
    turn_tokens: int = 0
    """Tokens that its requests took, what they sent and what came back."""
    keep_alive_count: int = 0
    """How often the provider's cache was kept alive since."""
    keep_alive_cost: float | None = 0.0
    """US dollars of that."""
    prompted: int = 0
    """Tokens that the requests of the turn have sent."""
    read: int = 0
    """Of those, what the provider had in its cache."""
    streamed: int = 0
    """Characters of the reply that streams in."""
    call_size: int = 0
    """Of those, the arguments of the call that is being written."""
    step_start: int = 0
    """Where in the turn the current step begins."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.past + self.turn

    @property
    def earlier(self) -> int:
        """Messages before all that is shown."""
        first = self.past[0] if self.past else None
        return first.messages if isinstance(first, OlderMessages) else 0

    def with_read_problem(self, problem: str) -> "SessionView":
        """The same, which says where more was wanted why there is none."""
        return replace(self, past=(OlderMessages(self.earlier, problem), *self.past[1:]))

    def with_older(self, messages: int, blocks: tuple[Block, ...]) -> "SessionView":
        """The same with more of what was said before it; so many `messages` are before that."""
        rest = self.past[1:] if self.earlier else self.past
        return replace(self, past=(*((OlderMessages(messages),) if messages else ()), *blocks, *rest))

    def plus(self, *blocks: Block) -> "SessionView":
        return replace(self, turn=self.turn + blocks)

    def without_streaming(self) -> "SessionView":
        """The same with nothing streaming any more."""
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
    """Whether a call that is over shows more than its line, though it is folded. It is asked of every call there is, so
    nothing is looked up."""
    if call.status == "failed":
        return bool(call.text)
    return call.status == "done" and bool(call.name == "todo" or call.preview or (call.name in _WORKS and call.text))


_WORKS = ("bash", "edit", "write", "apply_patch")


def is_expandable(block: Block) -> bool:
    """Whether there is more to a block than the line it shows."""
    return isinstance(block, Call | ReasoningBlock | SummaryBlock | Compaction | OlderMessages)
