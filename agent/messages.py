"""Messages and conversations as plain values, independent of providers' wire formats and of time."""

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
"""Why the model stopped: it was done, wants tools run, hit the output limit, refused, ran out of window, paused, was
interrupted by the user, or was stopped for repeating itself."""

BY_USER = "by-user-"
"""Prefix of the ids of calls made by the user."""

Native: TypeAlias = Mapping[str, object]
"""A part exactly as its provider sent it, to be sent back verbatim to that provider and to no other."""


Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of a text in order, as pairs of start and end (exclusive) in characters."""

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)


_FORMER_NAMES = {"Elision": "Gap", "ProviderItem": "Opaque"}
"""Former names of classes, as they occur in stored digests."""


def digest_name(value: object) -> str:
    """Return the name of a value's class in stored digests."""
    name = type(value).__name__
    return _FORMER_NAMES.get(name, name)


@dataclass(frozen=True, slots=True)
class Elision:
    """The place in a text, up to `end`, where the program says that `size` bytes were left out."""

    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    native: Native | None = None
    """The provider's own item, if it carries more than the text (citations, a phase)."""
    whole: str = ""
    """The user's full text if `text` is only part of it: stored with the message and not sent."""
    gap: Elision | None = None
    """Where its middle was left out."""


@dataclass(frozen=True, slots=True)
class Image:
    media_type: str
    """`image/png`, `image/jpeg`, `image/gif` or `image/webp`."""
    data: str
    """The file's bytes in base64."""
    digest: str = ""
    """Digest of the bytes in the archive; empty if the session's log contains them."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The model's thinking before its answer."""

    text: str
    """The part that people may read; empty if the provider hides it."""
    native: Native
    """The whole item with its signature or encrypted content."""


@dataclass(frozen=True, slots=True)
class ProviderItem:
    """A part that this program does not interpret but that its provider wants back."""

    native: Native
    tools: tuple[str, ...] = ()
    """Tools that it only names; the provider shows the model their definitions in its place."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: Mapping[str, object]
    source: str = ""
    """The arguments as the model wrote them, in JSON; sent back unchanged."""
    problem: str = ""
    """Why the call is invalid. It is answered with this text and never run."""
    called: str = ""
    """The name that the model wrote, if another tool was meant; sent back unchanged."""
    note: str = ""
    """A note to the model, sent with the output: which parts of the call were ignored."""


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """Bytes stored in the archive."""

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
    """The file in which earlier versions stored the full output, if `text` is only part of it."""
    stored: StoredBlob | None = None
    """The original output, if `text` is not all of it."""
    pictures: tuple[StoredBlob, ...] = ()
    """Pictures left out of `images`."""
    files: tuple[StoredBlob, ...] = ()
    """Documents and other media of the output; `text` names each in a line."""
    edited: Mapping[str, object] | None = None
    """Arguments that the user or a hook gave the call in place of the model's."""
    extent: Extent | None = None
    """How much of the whole the output shows, if its tool reported it."""
    program: ProgramState | None = None
    """State of the program that the call was about, if any."""
    frame: str = ""
    """Text at the end of the output that is not in `stored`: how a program ended, and notes of hooks."""
    inserted: Ranges = ()
    """Ranges of `text` in which the program says what was left out and how to see it. Everything else is the output's
    own text."""
    problems: NewProblems | None = None
    """Problems introduced by the call's file changes, as listed in `text`."""

    @property
    def is_part(self) -> bool:
        """Whether `text` is less than the whole output."""
        return self.stored is not None or self.whole is not None or bool(self.inserted)


@dataclass(frozen=True, slots=True)
class PendingEdit:
    """The user has edited a call, and is asked about it again."""

    arguments: Mapping[str, object]
    """The arguments after the edit."""


CallState: TypeAlias = Literal["waiting", "asked", "begun"] | PendingEdit | ToolOutput
"""State of a call: not begun, asked about but not answered, begun, or ended with this output."""


NoteKind: TypeAlias = Literal[
    "told", "brought", "pasted", "piped", "file", "folder", "picture", "origin", "step", "meanwhile", "final",
    "mode", "presence", "context", "deferred", "searched", "servers", "servers_say", "folders", "instructions",
    "undone", "jobs",
]  # fmt: skip
"""Kinds of notes: general; content that the user brought back, pasted, piped in or attached; the reference of
everything that came with the message; a step that is not shown; a message sent during a turn; the final turn; the
permission mode; the user's presence; context usage; the number of deferred tools, found with the program's search or
with the provider's; changes in servers' tools, and servers' instructions; additional working folders; an instruction
file read during the session; a change that was asked for and not made; and finished background jobs."""


@dataclass(frozen=True, slots=True)
class Note:
    """Text from the program, not from the user. It is stored with its message, so its bytes never change."""

    text: str
    whole: str = ""
    """The full text if `text` is only part of it: stored with the message and not sent."""
    kind: NoteKind = "told"
    name: str = ""
    """Name of its content, or a value that depends on its kind: a reference, a path, a number, what is new."""
    heading: int = 0
    """Length of the heading before its content, in characters."""
    about: str = ""
    """The amount of its content, in a few words."""
    gap: Elision | None = None
    """Where its middle was left out."""


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
    """`provider/name` of the model that wrote it. Native items are sent back only to the provider that made them."""
    is_paused: bool = False
    """The provider paused the reply and wants the request again to continue it: it is not an answer yet."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


Message: TypeAlias = User | Assistant


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, in the same form for every provider; the first four numbers never overlap."""

    input: int = 0
    """Prompt tokens that were neither read from nor written to a cache."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    """Everything the model produced, reasoning included."""
    reasoning: int = 0
    """Reasoning tokens, a part of `output`, if the provider reports them."""

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
"""The shorter form in which something is shown: one line, head and tail, or a model's summary."""


@dataclass(frozen=True, slots=True)
class ShortenedPart:
    """A shorter form that the model sees in place of an output or message, at the user's request or for lack of
    room."""

    key: str
    """`r12` for an output, `m41` for the message at that position of the session's log."""
    form: Form
    text: str
    pictures: int = 0
    """How many of an output's pictures are still shown, counted from the first."""


@dataclass(frozen=True, slots=True)
class CarriedPart:
    """Content that stays in view after its message has left it."""

    key: str
    """As in `ShortenedPart`."""
    what: str
    ref: str
    """The reference of the full content."""
    parts: tuple[Text | Image, ...]

    @property
    def title(self) -> str:
        """The heading under which the model sees it."""
        return f"{self.what} [recall:{self.ref}]"


@dataclass(frozen=True, slots=True)
class Summary:
    """The replacement for the messages that were compacted away."""

    retain: str = ""
    """Text that the model wants to keep word for word."""
    summary: str = ""
    """The model's account of the work."""
    ledger: str = ""
    """Facts collected without a model."""
    request: User = User(())  # a frozen value
    """The open turn's user message, unchanged, if it was compacted away."""
    facts: str = ""
    """More facts than `ledger` shows, as a basis for the next summary; empty if it shows all."""
    kept: tuple[CarriedPart, ...] = ()
    """Pinned content that was compacted away, in session order."""
    carried: tuple[CarriedPart, ...] = ()
    """Recently read, unchanged files that were compacted away, in session order. The next summary drops them."""
    names: str = ""
    """Outputs that were compacted away, one line each, with names found in them. The next summary drops them."""

    def __bool__(self) -> bool:
        return bool(self.text or self.request.parts or self.kept)

    @property
    def text(self) -> str:
        """The full text of the summary, for people to read."""
        return "\n\n".join(part for part in (self.retain, self.summary, self.ledger) if part)


@dataclass(frozen=True, slots=True)
class Recalls:
    """Which outputs were cut or masked, and which of them the model has recalled."""

    left: Mapping[str, int] = field(default_factory=dict)
    """Number of outputs cut on arrival or masked later, by what they show (`ebbtide.agent.context.reread_model`)."""
    back: Mapping[str, str] = field(default_factory=dict)
    """What the recalled outputs show, by reference."""


class SharedTuple(tuple[M_co, ...]):
    """A tuple that grows at its end. Tuples grown from one another share a log and are prefixes of it, so comparing
    their lengths is enough to tell which is a prefix of which."""

    log: list[object]
    """The content of the longest of them; append-only."""

    @classmethod
    def of(cls, values: tuple[M_co, ...], log: list[object]) -> Self:
        made = cls(values)
        made.log = log
        return made


def extend_tuple(before: tuple[M, ...], *more: M) -> tuple[M, ...]:
    """Return `before` with more values appended. The shared log is extended without examining its content."""
    if not more:
        return before
    log = before.log if isinstance(before, SharedTuple) else list[object](before)
    behind = log[len(before) :]
    if not behind:
        log.extend(more)
    elif len(more) > len(behind) or not all(map(is_, more, behind)):
        log = [*before, *more]  # `before` was already extended differently
    return SharedTuple.of(before + more, log)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Conversation:
    """What the next request shows: a summary of what was compacted away, then the messages since."""

    messages: tuple[Message, ...] = ()
    """The newest messages of the session, without a gap."""
    summary: Summary = Summary()  # a frozen value
    anchor: Usage | None = field(default=None)
    """The provider's count for the request that contained the `anchored` messages, or None before the first one."""
    anchored: int = 0
    """Number of `messages` (reply included) that `anchor` covers."""
    masked: frozenset[str] = frozenset()
    """Ids of the calls whose outputs are masked."""
    outputs_before: int = 0
    """Number of outputs in the session before those in `messages`: the next one is `r<outputs_before + 1>`."""
    held: int = 0
    """After the user undid a rewrite: smaller requests than this, in tokens, are not rewritten automatically."""
    messages_before: int = 0
    """Number of messages in the session before `messages`."""
    pinned: frozenset[str] = frozenset()
    """Keys of what stays in view until the user unpins it: `r12` for an output, `m41` for a message."""
    retold: tuple[ShortenedPart, ...] = ()
    """Parts shown in shorter form, each key once."""
    held_back: frozenset[str] = frozenset()
    """Names of the tools whose definitions the user keeps out of requests."""
    recalls: Recalls = Recalls()  # a frozen value

    def plus(self, *messages: Message) -> "Conversation":
        """Return the conversation with messages appended; empty ones are skipped."""
        return replace(self, messages=extend_tuple(self.messages, *(message for message in messages if message.parts)))

    @property
    def unanswered_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last reply that have no output yet."""
        if self.messages and isinstance(self.messages[-1], Assistant):
            return self.messages[-1].calls
        return ()
