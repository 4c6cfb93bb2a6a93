"""Data classes for messages and conversations. They contain no timestamps and do not depend on any provider's wire
format."""

import json
from collections.abc import Mapping
from dataclasses import field, replace
from operator import is_
from typing import Literal, Self, TypeAlias, TypeVar

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.outputs.new_problems import NewProblems
from ebbtide.tools.process.state import ProgramState

OutputStatus: TypeAlias = Literal["done", "failed", "denied", "cancelled", "interrupted"]
"""How a tool call ended. A conversation is valid after any of these."""

StopReason: TypeAlias = Literal[
    "end", "calls", "max_tokens", "refusal", "overflow", "pause", "interrupted", "repetition"
]
"""Why the reply ended: the model finished, called tools, reached the output limit, refused, ran out of context window
or paused; the user interrupted it; or it was stopped because it repeated itself."""

USER_CALL_PREFIX = "by-user-"
"""Prefix of call ids for calls that the user made."""

Native: TypeAlias = Mapping[str, object]
"""A part in its provider's own format. It is sent back unchanged to that provider, and to no other."""


Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Ordered ranges of text, as pairs of start and end in characters. The end is exclusive."""

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)


_FORMER_NAMES = {"Elision": "Gap", "ProviderItem": "Opaque"}
"""Former names of classes, which stored digests still depend on."""


def digest_name(value: object) -> str:
    """Return the name of a value's class as used in stored digests."""
    name = type(value).__name__
    return _FORMER_NAMES.get(name, name)


@dataclass(frozen=True, slots=True)
class Elision:
    """A note inside text, from `start` to `end`, saying that `size` bytes were omitted there."""

    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    native: Native | None = None
    """The provider's own item, if it contains more than the text (citations, a phase)."""
    whole: str = ""
    """The user's full text, if `text` is only part of it. It is stored with the message and not sent."""
    gap: Elision | None = None
    """The note that replaces the omitted middle of the text, if any."""


@dataclass(frozen=True, slots=True)
class Source:
    """A web page that a reply cites."""

    url: str
    """Empty if an entry of the provider's list has no web address. It keeps its place, because the text cites the
    entries by number."""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    media_type: str
    """`image/png`, `image/jpeg`, `image/gif` or `image/webp`."""
    data: str
    """The file's bytes in base64."""
    digest: str = ""
    """Digest of the bytes in the archive; empty if the bytes are in the session's log."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The model's thinking before its answer."""

    text: str
    """The part that people can read; empty if the provider hides it."""
    native: Native
    """The full item, with its signature or encrypted content."""


@dataclass(frozen=True, slots=True)
class ProviderItem:
    """A part that this program does not interpret, but that must be sent back to its provider."""

    native: Native
    tools: tuple[str, ...] = ()
    """Names of tools that the part refers to; the provider replaces them with the tools' definitions."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: Mapping[str, object]
    source: str = ""
    """The arguments as the model wrote them, as JSON; sent back unchanged."""
    problem: str = ""
    """Why the call is invalid. An invalid call is not run; this text is its output."""
    called: str = ""
    """The tool name that the model wrote, if a different tool is run; sent back unchanged."""
    note: str = ""
    """A note to the model, sent with the output, about what was changed or ignored in the call."""
    native: Native | None = None
    """Fields that the provider requires to be sent back with the call, such as Gemini's thought signature."""

    @property
    def arguments_text(self) -> str:
        """The arguments as JSON, as the model wrote them if that is known."""
        return self.source if self.source.strip() else json.dumps(dict(self.arguments), ensure_ascii=False)


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
    """Images that `images` does not contain."""
    files: tuple[StoredBlob, ...] = ()
    """Documents and other media in the output. Each of them is named on a line of `text`."""
    edited: Mapping[str, object] | None = None
    """The arguments that the call ran with, if the user or a hook changed them."""
    extent: Extent | None = None
    """How much of the full content the output shows, if its tool reported that."""
    program: ProgramState | None = None
    """State of the program that the call started or asked about; None for other calls."""
    frame: str = ""
    """Text at the end of the output that is not part of `stored`: how a program ended, and notes from hooks."""
    inserted: Ranges = ()
    """Ranges of `text` that Ebbtide inserted, to say what was omitted and how to see it. Everything else is the tool's
    own output."""
    problems: NewProblems | None = None
    """Problems introduced by the call's file changes, as listed in `text`."""

    @property
    def is_part(self) -> bool:
        """Whether `text` is only a part of the output."""
        return self.stored is not None or self.whole is not None or bool(self.inserted)


@dataclass(frozen=True, slots=True)
class PendingEdit:
    """State of a call that the user has edited and that therefore needs approval again."""

    arguments: Mapping[str, object]
    """The arguments after the edit."""


CallState: TypeAlias = Literal["waiting", "asked", "begun"] | PendingEdit | ToolOutput
"""State of a call: `waiting` for its turn, `asked` while the user decides, `begun`, edited by the user, or ended with
an output."""


NoteKind: TypeAlias = Literal[
    "told", "brought", "pasted", "piped", "file", "folder", "picture", "origin", "step", "meanwhile", "final",
    "mode", "presence", "context", "deferred", "searched", "servers", "servers_say", "folders", "instructions",
    "undone", "jobs",
]  # fmt: skip
"""Kinds of notes:

- `told`: anything without a kind of its own.
- `brought`: content that the user restored to the context.
- `pasted`, `piped`: content that was pasted or piped in.
- `file`, `folder`, `picture`: attachments.
- `origin`: the reference of everything that came with the message.
- `step`: a step that is not shown.
- `meanwhile`: a message sent during a turn.
- `final`: the final turn.
- `mode`: the permission mode.
- `presence`: whether the user is present.
- `context`: context usage.
- `deferred`, `searched`: the number of deferred tools that the program's or the provider's search finds.
- `servers`: changes in servers' tools.
- `servers_say`: servers' instructions.
- `folders`: additional working folders.
- `instructions`: an instruction file read during the session.
- `undone`: a requested change that was not made.
- `jobs`: finished background jobs.
"""


@dataclass(frozen=True, slots=True)
class Note:
    """Text from the program, not from the user. It is stored with its message and never changes, so that requests keep
    their cached prefix."""

    text: str
    whole: str = ""
    """The full text, if `text` is only part of it. It is stored with the message and not sent."""
    kind: NoteKind = "told"
    name: str = ""
    """A value that depends on the kind: a name, reference, path or number, or the new items."""
    heading: int = 0
    """Length of the heading before the note's content, in characters."""
    about: str = ""
    """Depends on the kind: the amount of content, such as `12 lines`, or a digest of an instruction file."""
    gap: Elision | None = None
    """The note that replaces the omitted middle of the text, if any."""


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
    """`provider/name` of the model that wrote the reply. Native items are sent back only to that provider."""
    is_paused: bool = False
    """Whether the provider paused the reply. If so, the request must be sent again to get the rest."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


Message: TypeAlias = User | Assistant


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, in a form that does not depend on the provider. The first four numbers do not overlap."""

    input: int = 0
    """Prompt tokens that were neither read from nor written to a cache."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    """Tokens that the model produced, including reasoning tokens."""
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


ShortenedForm: TypeAlias = Literal["line", "preview", "summary"]
"""A shorter form of an output or message: a single line, only the start and end, or a model's summary."""


@dataclass(frozen=True, slots=True)
class ShortenedPart:
    """Text that the model sees instead of an output or message, because the user asked for it or space was short."""

    key: str
    """`r12` for an output; `m41` for a message, by its position in the session's log."""
    form: ShortenedForm
    text: str
    pictures: int = 0
    """Number of the output's images that are still shown, counted from the first."""


@dataclass(frozen=True, slots=True)
class CarriedPart:
    """Content that stays in view although its message has left the view."""

    key: str
    """Same as `ShortenedPart.key`."""
    what: str
    ref: str
    """The reference of the full content."""
    parts: tuple[Text | Image, ...]

    @property
    def title(self) -> str:
        """Heading of this content in the summary that the model sees."""
        return f"{self.what} [recall:{self.ref}]"


@dataclass(frozen=True, slots=True)
class Summary:
    """What replaces the messages that were compacted away."""

    retain: str = ""
    """Text that the model chose to keep word for word."""
    summary: str = ""
    """The model's account of the work."""
    ledger: str = ""
    """Facts collected without a model."""
    request: User = User(())  # a frozen value
    """The current turn's user message, unchanged, if compaction removed it from the messages."""
    facts: str = ""
    """All facts, if `ledger` shows only some of them; empty if it shows all. The next summary is based on them."""
    pinned: tuple[CarriedPart, ...] = ()
    """Pinned content whose messages were compacted away, in session order."""
    carried: tuple[CarriedPart, ...] = ()
    """Files and search results that have not changed since, but whose messages were compacted away, in session order.
    The next summary drops them."""
    names: str = ""
    """One line for each output that was compacted away, with the names found in it. The next summary puts its own
    lines first and drops the ones without room."""

    def __bool__(self) -> bool:
        return bool(self.text or self.request.parts or self.pinned)

    @property
    def text(self) -> str:
        """The full text of the summary, for display."""
        return "\n\n".join(part for part in (self.retain, self.summary, self.ledger) if part)


@dataclass(frozen=True, slots=True)
class Recalls:
    """Which outputs were cut or masked, and which of them the model has recalled."""

    left: Mapping[str, int] = field(default_factory=dict)
    """Number of outputs cut on arrival or masked later, by kind of content (`ebbtide.agent.view.recalls`)."""
    back: Mapping[str, str] = field(default_factory=dict)
    """Kind of content of each recalled output, by reference."""


class SharedTuple(tuple[M_co, ...]):
    """A tuple that shares its storage with the tuples extended from it. All of them are prefixes of one log, so
    comparing their lengths shows which is a prefix of which."""

    log: list[object]
    """The content of the longest tuple that shares the log. Append-only."""

    @classmethod
    def of(cls, values: tuple[M_co, ...], log: list[object]) -> Self:
        shared = cls(values)
        shared.log = log
        return shared


def extend_tuple(prefix: tuple[M, ...], *values: M) -> tuple[M, ...]:
    """Append values to `prefix`, sharing its log if possible."""
    if not values:
        return prefix
    log = prefix.log if isinstance(prefix, SharedTuple) else list[object](prefix)
    following_values = log[len(prefix) :]
    if not following_values:
        log.extend(values)
    elif len(values) > len(following_values) or not all(map(is_, values, following_values)):
        log = [*prefix, *values]  # `prefix` was already extended differently
    return SharedTuple.of(prefix + values, log)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Conversation:
    """What the next request shows: a summary of what was compacted away, followed by the messages since then."""

    messages: tuple[Message, ...] = ()
    """The newest messages of the session, without gaps."""
    summary: Summary = Summary()  # a frozen value
    anchor: Usage | None = field(default=None)
    """The provider's count for the request that ended with the `anchored` messages; None before the first count."""
    anchored: int = 0
    """Number of `messages`, including the reply, that `anchor` covers."""
    masked: frozenset[str] = frozenset()
    """Ids of the calls whose outputs are masked."""
    outputs_before: int = 0
    """Number of outputs in the session before those in `messages`. The next output is `r<outputs_before + 1>`."""
    min_rewrite_size: int = 0
    """Requests smaller than this, in tokens, are not rewritten automatically. Set when the user undoes a rewrite."""
    messages_before: int = 0
    """Number of messages in the session before `messages`."""
    pinned: frozenset[str] = frozenset()
    """Keys of the items that stay in view until the user unpins them: `r12` for an output, `m41` for a message."""
    retold: tuple[ShortenedPart, ...] = ()
    """Parts that are shown in a shorter form; each key occurs once."""
    excluded_tools: frozenset[str] = frozenset()
    """Names of the tools that the user has excluded from requests."""
    recalls: Recalls = Recalls()  # a frozen value

    def plus(self, *messages: Message) -> "Conversation":
        """Return the conversation with messages appended; messages without parts are skipped."""
        return replace(self, messages=extend_tuple(self.messages, *(message for message in messages if message.parts)))

    @property
    def unanswered_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last reply that have no output yet."""
        if self.messages and isinstance(self.messages[-1], Assistant):
            return self.messages[-1].calls
        return ()
