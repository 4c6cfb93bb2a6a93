"""The data that the screen shows of a session: blocks and the session view. Imports neither events nor widgets, so that
it loads quickly."""

import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.tool_traits import role_of
from ebbtide.tui.text.numbers import format_duration
from ebbtide.tui.view.receipts import Compaction, RunningCompaction, UndoneCompaction

if TYPE_CHECKING:  # event and message modules load only after the first paint
    from ebbtide.agent.events.permissions import PermissionAsked, QuestionAsked
    from ebbtide.agent.events.plan import PlanSubmitted
    from ebbtide.agent.events.session import Remembered
    from ebbtide.agent.events.view import FilesChanged
    from ebbtide.agent.messages import OutputStatus, Ranges
    from ebbtide.agent.window.overview import Overview
    from ebbtide.tools.outputs.new_problems import NewProblems
    from ebbtide.tools.process.state import ProgramState

MARGIN = 2
"""Width of the left margin, which holds nothing but marks."""
USER_BAR, MODEL_BAR = "▌", "▏"
"""Bars in the margin next to text from the user and from the model. They are copied to the clipboard as spaces."""

DetailLevel: TypeAlias = Literal["compact", "normal", "full"]
"""How much of each block is shown: one line, the most useful part, or all of it."""

DETAIL_LEVELS: tuple[DetailLevel, ...] = ("compact", "normal", "full")


def detail_label(detail: DetailLevel) -> str:
    """Get the label of a detail level, shown when the user switches to it."""
    match detail:
        case "compact":
            return "compact: one line per call"
        case "normal":
            return "normal: diffs, lists and last output lines"
        case "full":
            return "full: everything"


CallStatus: TypeAlias = "Literal['asking', 'running'] | OutputStatus"


@dataclass(frozen=True, slots=True)
class UserText:
    text: str


@dataclass(frozen=True, slots=True)
class AnswerText:
    text: str
    is_streaming: bool = False


@dataclass(frozen=True, slots=True)
class ReasoningBlock:
    """The model's reasoning. It is collapsed until the user expands it."""

    text: str
    is_streaming: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    call_id: str
    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    status: CallStatus = "running"
    output_tail: str = ""
    """The end of the output so far. Set while the call runs."""
    agent_tokens: int = 0
    """Tokens that the call's sub-agent has used so far."""
    text: str = ""
    """The output as the model received it."""
    lines: int | None = None
    """Number of lines of the whole output, if `text` is only a part of it."""
    inserted: "Ranges" = ()
    """Ranges of `text` that the program inserted where it left something out."""
    program: "ProgramState | None" = None
    """State of the process started by the call."""
    problems: "NewProblems | None" = None
    """New diagnostics in the files that the call changed."""
    changed_files: tuple[str, ...] = ()
    diff: str = ""
    """A unified diff of the changes that the call would make or, once it is done, has made; empty if unknown."""
    is_edited: bool = False
    """Whether the user edited the call before it was run."""

    @property
    def has_running_agent(self) -> bool:
        return role_of(self.name) == "start_agent" and self.status == "running"


@dataclass(frozen=True, slots=True)
class Notice:
    text: str
    saved_note: "Remembered | None" = None
    """The note that was just saved. `/undo` removes it if it is the next command."""


@dataclass(frozen=True, slots=True)
class TurnTotal:
    """A turn's time, cost and file changes, shown at its end. If the user interrupted the turn, it says so."""

    seconds: int | None = None
    """Length of the turn in seconds, not counting time spent waiting for the user. None while the turn runs."""
    cost: float | None = None
    """Cost in US dollars. None if unknown or if no model was called."""
    tokens: int = 0
    files: "FilesChanged | None" = None
    is_interrupted: bool = False
    has_partial_answer: bool = False
    """Whether the interruption cut off an answer."""


@dataclass(frozen=True, slots=True)
class Failure:
    code: str
    message: str
    cause: str = ""
    default_advice: str = ""
    """The advice at the end of `message`. Not shown if the interface has its own advice for this error."""


@dataclass(frozen=True, slots=True)
class SummaryBlock:
    """The summary shown in place of the compacted part of a resumed conversation."""

    text: str


@dataclass(frozen=True, slots=True)
class OlderMessages:
    """A placeholder for messages before the first visible one. They are read from the store on demand."""

    message_count: int
    problem: str = ""
    """Why the last attempt to read them failed."""


Block: TypeAlias = (
    UserText
    | AnswerText
    | ReasoningBlock
    | Call
    | Notice
    | TurnTotal
    | Failure
    | RunningCompaction
    | Compaction
    | UndoneCompaction
    | SummaryBlock
    | OlderMessages
)

OpenQuestion: TypeAlias = "PermissionAsked | PlanSubmitted | QuestionAsked"


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed request that will be sent again, until it succeeds or is given up."""

    attempt: int
    """Number of the next attempt."""
    max_attempts: int
    """Maximum number of attempts; 0 if only the total time is limited."""
    delay: float
    """Seconds between the failure and the next attempt."""
    reason: str
    """Why the request failed, in a few words."""
    remaining_seconds: float | None = None
    """Seconds left for retries after the next attempt; None if there is no limit."""

    @property
    def attempt_text(self) -> str:
        """Which attempt is next, and how many or how much time is left."""
        if self.max_attempts:
            return f"attempt {self.attempt} of {self.max_attempts}"
        if self.remaining_seconds is None:
            return f"attempt {self.attempt}"
        minutes = math.ceil(self.remaining_seconds / 60)
        time_text = f"{minutes} min" if minutes > 2 else format_duration(int(self.remaining_seconds))
        return f"attempt {self.attempt}, {time_text} left"


@dataclass(frozen=True, slots=True)
class SessionView:
    past_blocks: tuple[Block, ...] = ()
    """Blocks of earlier turns, which never change."""
    turn_blocks: tuple[Block, ...] = ()
    """Blocks of the current or last turn, and any notices after it."""
    is_busy: bool = False
    activity: str = ""
    """What is being done, in one or two words; empty when idle."""
    hook_status: str = ""
    """Status text of a running hook."""
    retry: Retry | None = None
    """The pending retry of a failed request, until it succeeds or is given up."""
    open_questions: tuple[OpenQuestion, ...] = ()
    """Open questions, oldest first."""
    model: str = ""
    mode: str = ""
    used_tokens: int = 0
    """Tokens of the conversation; 0 if unknown."""
    is_estimate: bool = False
    """Whether `used_tokens` is an estimate because the provider has not reported a count."""
    available_tokens: int = 0
    """Tokens that a request may use: the context window minus the reserves."""
    cost: float | None = 0.0
    """Cost in US dollars; None if a price is unknown."""
    component_tokens: tuple[tuple[str, int], ...] = ()
    """Tokens of each component of the next request; empty if unknown."""
    turn_cost: float | None = 0.0
    """Cost of the turn in US dollars; None if a price is unknown."""
    turn_tokens: int = 0
    """Tokens sent and received in the turn."""
    keep_alive_count: int = 0
    """Number of keep-alive requests since the last turn."""
    keep_alive_cost: float | None = 0.0
    """Cost of keep-alive requests in US dollars; None if a price is unknown."""
    prompt_tokens: int = 0
    """Tokens sent in the turn."""
    cached_tokens: int = 0
    """Tokens sent in the turn that were read from the provider's cache."""
    streamed_chars: int = 0
    """Number of characters of the reply received so far."""
    call_argument_chars: int = 0
    """Number of characters received so far for the arguments of the call being written."""
    step_start_index: int = 0
    """Where the current step starts in `turn_blocks`."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.past_blocks + self.turn_blocks

    @property
    def older_message_count(self) -> int:
        """Number of messages before the first visible one."""
        first_block = self.past_blocks[0] if self.past_blocks else None
        return first_block.message_count if isinstance(first_block, OlderMessages) else 0

    def with_read_problem(self, problem: str) -> "SessionView":
        """Add an explanation of why earlier messages could not be read."""
        return replace(self, past_blocks=(OlderMessages(self.older_message_count, problem), *self.past_blocks[1:]))

    def with_older_blocks(self, remaining_count: int, blocks: tuple[Block, ...]) -> "SessionView":
        """Add earlier blocks. `remaining_count`: number of messages that are still before them."""
        current_blocks = self.past_blocks[1:] if self.older_message_count else self.past_blocks
        return replace(
            self,
            past_blocks=(*((OlderMessages(remaining_count),) if remaining_count else ()), *blocks, *current_blocks),
        )

    def with_overview(self, overview: "Overview", *, is_estimate: bool) -> "SessionView":
        """Update the token counts from an overview of the context."""
        return replace(
            self,
            used_tokens=overview.used_tokens,
            is_estimate=is_estimate,
            available_tokens=overview.effective,
            component_tokens=tuple((component.name, component.tokens) for component in overview.components),
        )

    def with_blocks(self, *blocks: Block) -> "SessionView":
        return replace(self, turn_blocks=self.turn_blocks + blocks)

    def without_streaming(self) -> "SessionView":
        """Mark all streaming blocks as complete."""
        if not any(isinstance(block, AnswerText | ReasoningBlock) and block.is_streaming for block in self.turn_blocks):
            return self
        turn_blocks = tuple(
            replace(block, is_streaming=False)
            if isinstance(block, AnswerText | ReasoningBlock) and block.is_streaming
            else block
            for block in self.turn_blocks
        )
        return replace(self, turn_blocks=turn_blocks)


def has_collapsed_details(call: Call) -> bool:
    """Whether a finished call that is collapsed shows more than its title line. Called for every call, so it must be
    fast."""
    if call.status == "failed":
        return bool(call.text)
    if call.status != "done":
        return False
    role = role_of(call.name)
    return bool(role == "list_todos" or call.diff or (role in _ROLES_WITH_DETAILS and call.text))


_ROLES_WITH_DETAILS = ("run_command", "edit_file", "write_file", "patch_files")


def is_expandable(block: Block) -> bool:
    """Whether the block has hidden content that the user can expand."""
    return isinstance(block, Call | ReasoningBlock | SummaryBlock | Compaction | OlderMessages)


_MARKABLE_BLOCKS = (UserText, AnswerText, Call, ReasoningBlock, SummaryBlock, Compaction, Failure, OlderMessages)


def is_markable(block: Block) -> bool:
    """Whether the user can mark the block while browsing."""
    return isinstance(block, _MARKABLE_BLOCKS)
