"""The parts of the model's view and their states. This is the only place where they are derived; everything that
displays or edits the view uses it. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.context.incremental import memoized
from ebbtide.agent.context.mask import (
    NumberedOutput,
    message_key,
    numbered_outputs,
    one_line,
    outcome_line,
    visible_messages,
)
from ebbtide.agent.context.references import message_ref
from ebbtide.agent.context.tool_selection import unwrapped_call
from ebbtide.agent.messages import (
    Assistant,
    CarriedPart,
    Conversation,
    Form,
    Image,
    Message,
    Note,
    Text,
    ToolOutput,
    User,
)
from ebbtide.tools.lazy import dataclass

ItemKind: TypeAlias = Literal["you", "reply", "output", "picture", "note", "instructions", "pin"]
"""User text, a reply with its calls, an output, a picture, a note of the program, an instruction file read during the
session, or pinned content that is in no message."""

ViewState: TypeAlias = Literal["visible", "preview", "summarised", "masked"]
"""Shown in full, as head and tail, as a model's summary, or as one line."""

_STATES: dict[Form, ViewState] = {"line": "masked", "preview": "preview", "summary": "summarised"}
WHAT = 200
"""Maximum characters of an item's description."""
ABOUT = 60
"""Maximum characters of a message quoted within a sentence."""


@dataclass(frozen=True, slots=True)
class OutputPart:
    """An output, as the model sees it."""

    index: int
    """Index of its message in the view."""
    key: str
    ref: str
    found: NumberedOutput
    visible: ToolOutput
    state: ViewState
    is_pinned: bool

    @property
    def what(self) -> str:
        return outcome_line(self.found.call, self.found.output)


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A message without its outputs, as the model sees it."""

    index: int
    key: str
    original: Message
    visible: Message
    state: ViewState
    is_pinned: bool

    @property
    def message_ref(self) -> str:
        return message_ref(self.original)

    @property
    def recalled_ref(self) -> str:
        """Reference of what the user brought back with it; empty for any other message."""
        notes = (part for part in self.original.parts if isinstance(part, Note))
        return next((note.name for note in notes if note.kind == "brought"), "")

    @property
    def ref(self) -> str:
        """The reference that recalls the full content."""
        return self.recalled_ref or self.message_ref

    @property
    def what(self) -> str:
        return one_line(self.original.text, ABOUT) or "a message"


@dataclass(frozen=True, slots=True)
class PinnedPart:
    """Pinned or formerly pinned content, or a carried file, in the message that opens the view."""

    key: str
    ref: str
    what: str
    content: CarriedPart
    is_pinned: bool
    index: int = -1
    state: ViewState = "visible"

    @property
    def visible(self) -> User:
        return User((Text(self.content.title), *self.content.parts))


ViewPart: TypeAlias = OutputPart | MessagePart | PinnedPart


@memoized
def view_parts(conversation: Conversation) -> tuple[ViewPart, ...]:
    """Return every part of a view in display order, each message before its outputs."""
    pinned, kept = conversation.pinned, (*conversation.summary.kept, *conversation.summary.carried)
    pins = (PinnedPart(one.key, one.ref, one.what, one, one.key in pinned) for one in kept)
    return (*pins, *_parts_of_messages(conversation))


def _parts_of_messages(conversation: Conversation) -> Iterator[MessagePart | OutputPart]:
    forms, numbered = {one.key: one.form for one in conversation.retold}, iter(numbered_outputs(conversation))
    pairs = zip(conversation.messages, visible_messages(conversation), strict=True)
    for index, (said, shown) in enumerate(pairs):
        key = message_key(conversation.messages_before + index)
        state: ViewState = _STATES[forms[key]] if key in forms else "visible"
        yield MessagePart(index, key, said, shown, state, key in conversation.pinned)
        for output in shown.outputs if isinstance(shown, User) else ():
            found = next(numbered)
            ref, state = found.ref, _state_of(found.output, conversation.masked, forms.get(found.ref))
            yield OutputPart(index, ref, ref, found, output, state, ref in conversation.pinned)


def _state_of(output: ToolOutput, masked: frozenset[str], form: Form | None) -> ViewState:
    if output.call_id in masked:
        return "masked"
    if form is not None:
        return _STATES[form]
    return "preview" if output.is_part else "visible"


@dataclass(frozen=True, slots=True)
class ViewItem:
    """One part of what the model sees."""

    key: str
    """`r12` for an output, `m41` for parts of the message at that position of the log."""
    ref: str
    """Its reference: `r12`, `msg-1a2b3c4d`."""
    kind: ItemKind
    what: str
    tokens: int
    age: int
    """Number of steps since."""
    state: ViewState = "visible"
    is_pinned: bool = False


def items_of(
    conversation: Conversation, size: Callable[[Message], int], whole: int | None = None
) -> tuple[ViewItem, ...]:
    """Return every part of the messages in session order. `size`: estimates the tokens of a single message; `whole`:
    known total, which is distributed over the items."""
    items = tuple(_items(conversation, size))
    if whole is None:
        return items
    shares = shared_out([item.tokens for item in items], whole)
    return tuple(replace(item, tokens=share) for item, share in zip(items, shares, strict=True))


def pins_of(conversation: Conversation, size: Callable[[Message], int]) -> tuple[ViewItem, ...]:
    """Return the pinned or formerly pinned content in the message that opens the view."""
    return tuple(
        ViewItem(part.key, part.ref, "pin", part.what, size(part.visible), 0, "visible", part.is_pinned)
        for part in view_parts(conversation)
        if isinstance(part, PinnedPart)
    )


def shared_out(weights: Sequence[int], whole: int) -> tuple[int, ...]:
    """Return integers proportional to the weights that add up to exactly `whole`."""
    total = sum(weights)
    if not weights or total <= 0:
        return (whole, *(0 for _ in weights[1:])) if weights else ()
    shares = [weight * whole // total for weight in weights]
    rests = sorted(range(len(weights)), key=lambda place: (-(weights[place] * whole % total), place))
    for place in rests[: whole - sum(shares)]:
        shares[place] += 1
    return tuple(shares)


def _items(conversation: Conversation, size: Callable[[Message], int]) -> Iterator[ViewItem]:
    steps = sum(isinstance(message, Assistant) for message in conversation.messages)
    for part in view_parts(conversation):
        match part:
            case MessagePart(original=said):
                steps -= isinstance(said, Assistant)
                yield from _message_items(part, steps, size)
            case OutputPart():
                yield from _output_items(part, steps, size)
            case PinnedPart():
                pass


def _output_items(part: OutputPart, age: int, size: Callable[[Message], int]) -> Iterator[ViewItem]:
    what, output = one_line(part.what, WHAT), replace(part.visible, images=())
    item = ViewItem(part.key, part.ref, "output", what, size(User((output,))), age, part.state, part.is_pinned)
    yield item
    for image in part.visible.images:
        yield replace(item, kind="picture", what=f"{image.media_type} of {what}", tokens=size(User((image,))))


def _message_items(part: MessagePart, age: int, size: Callable[[Message], int]) -> Iterator[ViewItem]:
    said, shown = part.original, part.visible
    item = ViewItem(part.key, part.message_ref, "reply", "", 0, age, part.state, part.is_pinned)
    if isinstance(shown, Assistant):
        yield replace(item, what=_reply(shown), tokens=size(shown))
        return
    texts = tuple(one for one in shown.parts if isinstance(one, Text))
    told = tuple(one for one in shown.parts if isinstance(one, Note))
    notes = tuple(one for one in told if one.kind != "instructions")
    if texts:
        yield replace(item, kind="you", what=one_line(said.text, WHAT), tokens=size(User(texts)))
    for one in shown.parts:
        if isinstance(one, Image):
            yield replace(item, kind="picture", what=one.media_type, tokens=size(User((one,))), state="visible")
    if notes:
        what = one_line(" ".join(note.text for note in notes), WHAT)
        state = "visible" if texts else part.state
        yield replace(item, kind="note", what=what, tokens=size(User(notes)), state=state)
    for one in told:
        if one.kind == "instructions":
            yield replace(item, kind="instructions", what=one.name, tokens=size(User((one,))), state="visible")


def _reply(message: Assistant) -> str:
    calls = ", ".join(unwrapped_call(call).name for call in message.calls)
    said = one_line(message.text, WHAT)
    return " – ".join(part for part in (said, f"calls {calls}" if calls else "") if part) or "thinking"
