"""What is said in a session, as plain values. Messages know no provider's wire format and no clock."""

from collections.abc import Mapping
from dataclasses import field, replace
from operator import is_
from typing import Literal, Self, TypeAlias, TypeVar

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.outputs.new_problems import NewProblems
from ebbtide.tools.process.state import ProgramState

OutputStatus: TypeAlias = Literal["done", "failed", "denied", "cancelled", "interrupted"]
"""How a tool call ended. Every call ends in one of these; none of them makes a conversation invalid."""

StopReason: TypeAlias = Literal[
    "end", "calls", "max_tokens", "refusal", "overflow", "pause", "interrupted", "repetition"
]
"""Why the model stopped: it was done, wants tools run, hit the output limit, refused, ran out of window, paused, the
user interrupted it, or it was stopped since it said the same again and again."""

BY_USER = "by-user-"
"""How the ids of calls begin that the user made, not the model."""

Native: TypeAlias = Mapping[str, object]
"""A part exactly as its provider sent it, to be sent back verbatim to that same provider and to no other."""


Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Parts of a text, in order: where each begins, and behind where it ends, in characters."""

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)


_FORMER_NAMES = {"Elision": "Gap", "ProviderItem": "Opaque"}
"""Classes that digests, which are stored, know under the names that they had before."""


def digest_name(value: object) -> str:
    """The name of a value's class in stored digests."""
    name = type(value).__name__
    return _FORMER_NAMES.get(name, name)


@dataclass(frozen=True, slots=True)
class Elision:
    """The place in a text, up to `end`, where the program says that so many bytes of it are left out."""

    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    native: Native | None = None
    """The provider's own item, when it carries more than the text (citations, a phase)."""
    whole: str = ""
    """All that the user said, when `text` is only a part of it: kept with the message and not sent."""
    gap: Elision | None = None
    """Where the middle of it is left out."""


@dataclass(frozen=True, slots=True)
class Image:
    media_type: str
    """`image/png`, `image/jpeg`, `image/gif` or `image/webp`."""
    data: str
    """The file's bytes in base64."""
    digest: str = ""
    """Where the archive keeps the bytes; empty when the session's log holds them."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Thinking that the model did before its answer."""

    text: str
    """What a person may read of it; empty when the provider hides it."""
    native: Native
    """The whole item with its signature or encrypted content."""


@dataclass(frozen=True, slots=True)
class ProviderItem:
    """A part that this program does not understand but that its provider wants back."""

    native: Native
    tools: tuple[str, ...] = ()
    """Tools that it only names, where the provider shows the model their definitions in its place."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: Mapping[str, object]
    source: str = ""
    """The arguments as the model wrote them, as JSON; sent back as they came."""
    problem: str = ""
    """Why it cannot be a call. It is answered with this and never run."""
    called: str = ""
    """The name that the model wrote, where another tool is meant; sent back as it came."""
    note: str = ""
    """What the model is told with the output: what of the call was left out."""


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """Bytes that are kept in the archive."""

    digest: str
    size: int
    lines: int
    media_type: str = "text/plain"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ToolOutput:
    call_id: str
    text: str
    status: OutputStatus = "done"
    images: tuple[Image, ...] = ()
    whole: str | None = None
    """The file in which earlier versions kept the full output, when `text` is only part of it."""
    stored: StoredBlob | None = None
    """The output as it came, when `text` is not all of it."""
    pictures: tuple[StoredBlob, ...] = ()
    """Those that were left out of `images`."""
    files: tuple[StoredBlob, ...] = ()
    """Documents and other media that came with it; `text` names each in a line."""
    edited: Mapping[str, object] | None = None
    """The arguments that the user, or a hook, gave the call in place of the model's."""
    extent: Extent | None = None
    """How much of what there is the call showed, where its tool said so."""
    program: ProgramState | None = None
    """How it stood with the program that the call was about, where it was about one."""
    frame: str = ""
    """What belongs to the output, at its end, and is not among the bytes that `stored` names: how a program ended and
    what hooks noted."""
    inserted: Ranges = ()
    """Where in `text` the program says what is left out and how to see it. All else are the output's own words."""
    problems: NewProblems | None = None
    """What the call's changes of files have brought, as `text` says it."""

    @property
    def is_part(self) -> bool:
        """Whether `text` is less than all of it."""
        return self.stored is not None or self.whole is not None or bool(self.inserted)


@dataclass(frozen=True, slots=True)
class PendingEdit:
    """The user has changed a call and is asked about it again."""

    arguments: Mapping[str, object]
    """As the user has made them."""


CallState: TypeAlias = Literal["waiting", "asked", "begun"] | PendingEdit | ToolOutput
"""How far a call has come: not begun, asked about and not answered, begun, or ended with this output."""


NoteKind: TypeAlias = Literal[
    "told", "brought", "pasted", "piped", "file", "folder", "picture", "origin", "step", "meanwhile", "final",
    "mode", "presence", "context", "deferred", "searched", "servers", "servers_say", "folders", "instructions",
    "undone", "jobs",
]  # fmt: skip
"""What a note is: anything that was told; what the user brought back, pasted or piped in, or attached; by what all that
came with the message before it is found; a step that is not shown; that the user says something while a turn runs; that
the turn is the final one; the permission mode; whether somebody is there; how full the context is; how many tools are
held back, found with our search or with the provider's; how the tools of servers have changed, and what
servers say of themselves; which folders are worked in besides; what a file of instructions says that was read since the
session began; that what was wished is not done; and which background jobs are over."""


@dataclass(frozen=True, slots=True)
class Note:
    """Told by the program, not said by the user. It is kept with its message, so that it stays the same bytes."""

    text: str
    whole: str = ""
    """All of it, when `text` is only a part: kept with the message and not sent."""
    kind: NoteKind = "told"
    name: str = ""
    """Of what it brings, or what its kind tells: a reference, a path, a number, what is new."""
    heading: int = 0
    """Characters before what it brings."""
    about: str = ""
    """How much it brings, in a few words."""
    gap: Elision | None = None
    """Where the middle of it is left out."""


UserPart: TypeAlias = Text | Image | ToolOutput | Note
AssistantPart: TypeAlias = Text | Reasoning | ToolCall | ProviderItem


@dataclass(frozen=True, slots=True, weakref_slot=True)
class User:
    parts: tuple[UserPart, ...]

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    def has_note(self, kind: NoteKind) -> bool:
        return any(isinstance(part, Note) and part.kind == kind for part in self.parts)

    @property
    def outputs(self) -> tuple[ToolOutput, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolOutput))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Assistant:
    parts: tuple[AssistantPart, ...]
    model: str = ""
    """`provider/name` of the model that said it. Native items go back only to the provider that made them."""
    is_paused: bool = False
    """The provider wants the request again to go on with this reply: it answers nothing yet."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


Message: TypeAlias = User | Assistant


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, in one form for every provider; the four numbers never overlap."""

    input: int = 0
    """Prompt tokens that were neither read from nor written to a cache."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    """Everything the model produced, reasoning included."""
    reasoning: int = 0
    """Of `output`, the tokens of reasoning, where the provider says so."""

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        return self.prompt + self.output

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.output + other.output,
            self.reasoning + other.reasoning,
        )


Form: TypeAlias = Literal["line", "preview", "summary"]
"""In how much less than its own words something is shown: one line, its ends, or what a model made of it."""


@dataclass(frozen=True, slots=True)
class ShortenedPart:
    """What the model is shown in the place of an output or of a message, since the user wanted that or there was no
    room for more."""

    key: str
    """`r12` for an output, `m41` for the message at that position of the session's log."""
    form: Form
    text: str
    pictures: int = 0
    """How many of an output's pictures are shown with it, from the first on."""


@dataclass(frozen=True, slots=True)
class CarriedPart:
    """What stays in view when the message it stood in has left it."""

    key: str
    """As that of a `ShortenedPart`."""
    what: str
    ref: str
    """By what all of it is found."""
    parts: tuple[Text | Image, ...]

    @property
    def title(self) -> str:
        """The line under which the model is shown it."""
        return f"{self.what} [recall:{self.ref}]"


@dataclass(frozen=True, slots=True)
class Summary:
    """What stands for the messages that were compacted away."""

    retain: str = ""
    """What the model wants to keep word for word."""
    summary: str = ""
    """The model's account of the work."""
    ledger: str = ""
    """Facts that were collected without a model."""
    request: User = User(())  # a frozen value
    """The open turn's user message, unchanged, when it is among what was compacted away."""
    facts: str = ""
    """More facts than `ledger` shows, for the next summary to start from; empty when it shows all."""
    kept: tuple[CarriedPart, ...] = ()
    """What is pinned of all that was compacted away, in the order in which it was said."""
    carried: tuple[CarriedPart, ...] = ()
    """Files of it that are as they were read not long ago, likewise. They leave with the next summary."""
    names: str = ""
    """Outputs of it, a line for each, with names that stand in them. They leave with the next summary."""

    def __bool__(self) -> bool:
        return bool(self.text or self.request.parts or self.kept)

    @property
    def text(self) -> str:
        """All of it that was written for this summary, for people to read."""
        return "\n\n".join(part for part in (self.retain, self.summary, self.ledger) if part)


@dataclass(frozen=True, slots=True)
class Recalls:
    """Of the outputs that were cut or masked: how many those are, and which the model has brought back."""

    left: Mapping[str, int] = field(default_factory=dict)
    """How many were cut when they came in, or masked later, by what they show
    (`ebbtide.agent.context.reread_model`)."""
    back: Mapping[str, str] = field(default_factory=dict)
    """What those show that were brought back, by their references."""


class SharedTuple(tuple[M_co, ...]):
    """A tuple that has grown at its end. Those that have grown from one another share a log, of which each is the
    beginning: which of them begins which other one is known from their lengths."""

    log: list[object]
    """What the longest of them holds. It is only ever added to."""

    @classmethod
    def of(cls, values: tuple[M_co, ...], log: list[object]) -> Self:
        made = cls(values)
        made.log = log
        return made


def extend_tuple(before: tuple[M, ...], *more: M) -> tuple[M, ...]:
    """`before` with more behind it. What is kept of `before` goes on from there without a look at what it holds."""
    if not more:
        return before
    log = before.log if isinstance(before, SharedTuple) else list[object](before)
    behind = log[len(before) :]
    if not behind:
        log.extend(more)
    elif len(more) > len(behind) or not all(map(is_, more, behind)):
        log = [*before, *more]  # something else was said behind `before`, too
    return SharedTuple.of(before + more, log)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Conversation:
    """What the next request shows: a summary of what was compacted away, then the messages since."""

    messages: tuple[Message, ...] = ()
    """The newest messages of the session, without a gap."""
    summary: Summary = Summary()  # a frozen value
    anchor: Usage | None = field(default=None)
    """What the provider counted for the request that `anchored` messages were part of, or None before the first."""
    anchored: int = 0
    """How many of `messages` (the reply included) `anchor` covers."""
    masked: frozenset[str] = frozenset()
    """The ids of the calls whose outputs are shown as one line each."""
    outputs_before: int = 0
    """How many outputs the session stored before those in `messages`: the next one is `r<outputs_before + 1>`."""
    held: int = 0
    """The user took a rewrite back: below so many tokens of a request nothing is rewritten unasked."""
    messages_before: int = 0
    """How many messages the session had before `messages`."""
    pinned: frozenset[str] = frozenset()
    """The keys of what stays in view until the user unpins it: `r12` for an output, `m41` for a message."""
    retold: tuple[ShortenedPart, ...] = ()
    """What is shown otherwise than it was said, at the user's wish, each key once."""
    held_back: frozenset[str] = frozenset()
    """The names of the tools whose definitions the user keeps out of requests."""
    recalls: Recalls = Recalls()  # a frozen value

    def plus(self, *messages: Message) -> "Conversation":
        """This conversation with messages appended; empty ones are left out."""
        return replace(self, messages=extend_tuple(self.messages, *(message for message in messages if message.parts)))

    @property
    def unanswered_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last reply that have no output yet."""
        if self.messages and isinstance(self.messages[-1], Assistant):
            return self.messages[-1].calls
        return ()
