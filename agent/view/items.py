"""The parts of the model's view, their states, and pins. Everything that displays or edits the view uses this module.

A pinned output or message stays in place as long as its step is in the view. When the step is removed, the pinned
content moves into the message that opens the view. If pins leave too little room, they are reduced to previews or, if
that is not enough, to one line each. They stay pinned, and their references still recall the full content.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.messages import (
    Assistant,
    CarriedPart,
    Conversation,
    Image,
    Message,
    Note,
    ShortenedForm,
    ShortenedPart,
    Summary,
    Text,
    ToolOutput,
    User,
)
from ebbtide.agent.tokens.estimate import estimate_message, estimate_output
from ebbtide.agent.tokens.incremental import memoized
from ebbtide.agent.tool_specs import unwrapped_call
from ebbtide.agent.view.previews import build_preview, stored_excerpt
from ebbtide.agent.view.references import message_ref
from ebbtide.agent.view.stubs import one_line, outcome_line, safe_line
from ebbtide.agent.view.visible import NumberedOutput, message_key, numbered_outputs, visible_messages
from ebbtide.tools.lazy import dataclass

ItemKind: TypeAlias = Literal["you", "reply", "output", "picture", "note", "instructions", "pin"]
"""Kinds of items: user text, a reply with its calls, an output, an image, a note from the program, an instruction file
read during the session, or pinned content outside its message."""

ViewState: TypeAlias = Literal["visible", "preview", "summarised", "masked"]
"""How an item is shown. `visible`: in full. `preview`: its start and end. `summarised`: as a model's summary. `masked`:
as one line."""

_FORM_STATES: dict[ShortenedForm, ViewState] = {"line": "masked", "preview": "preview", "summary": "summarised"}
MAX_DESCRIPTION_CHARS = 200
"""Maximum length of an item's description, in characters."""
MAX_QUOTE_CHARS = 60
"""Maximum length of a quotation from a message within a sentence, in characters."""


@dataclass(frozen=True, slots=True)
class OutputPart:
    """An output, as the model sees it."""

    message_index: int
    """Index of the output's message in the view."""
    key: str
    ref: str
    numbered_output: NumberedOutput
    visible_form: ToolOutput
    state: ViewState
    is_pinned: bool

    @property
    def description(self) -> str:
        return outcome_line(self.numbered_output.call, self.numbered_output.output)


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A message without its outputs, as the model sees it."""

    message_index: int
    key: str
    original: Message
    visible_form: Message
    state: ViewState
    is_pinned: bool

    @property
    def message_ref(self) -> str:
        return message_ref(self.original)

    @property
    def recalled_ref(self) -> str:
        """Reference of the content that this message brought back into view. Empty for other messages."""
        notes = (part for part in self.original.parts if isinstance(part, Note))
        return next((note.name for note in notes if note.kind == "brought"), "")

    @property
    def ref(self) -> str:
        """The reference under which the full content can be recalled."""
        return self.recalled_ref or self.message_ref

    @property
    def description(self) -> str:
        return one_line(self.original.text, MAX_QUOTE_CHARS) or "a message"


@dataclass(frozen=True, slots=True)
class PinnedPart:
    """Content in the message that opens the view: pinned or formerly pinned content, or a carried output."""

    key: str
    ref: str
    description: str
    content: CarriedPart
    is_pinned: bool
    message_index: int = -1
    state: ViewState = "visible"

    @property
    def visible_form(self) -> User:
        return User((Text(self.content.title), *self.content.parts))


ViewPart: TypeAlias = OutputPart | MessagePart | PinnedPart


@memoized
def view_parts(conversation: Conversation) -> tuple[ViewPart, ...]:
    """Return all parts of a view in display order, each message before its outputs."""
    pinned, carried = conversation.pinned, (*conversation.summary.pinned, *conversation.summary.carried)
    pins = (PinnedPart(pin.key, pin.ref, pin.what, pin, pin.key in pinned) for pin in carried)
    return (*pins, *_parts_of_messages(conversation))


def _parts_of_messages(conversation: Conversation) -> Iterator[MessagePart | OutputPart]:
    forms = {shortened.key: shortened.form for shortened in conversation.retold}
    outputs = iter(numbered_outputs(conversation))
    pairs = zip(conversation.messages, visible_messages(conversation), strict=True)
    for index, (original, visible) in enumerate(pairs):
        key = message_key(conversation.messages_before + index)
        state: ViewState = _FORM_STATES[forms[key]] if key in forms else "visible"
        yield MessagePart(index, key, original, visible, state, key in conversation.pinned)
        for output in visible.outputs if isinstance(visible, User) else ():
            numbered = next(outputs)
            ref, state = numbered.ref, _state_of(numbered.output, conversation.masked, forms.get(numbered.ref))
            yield OutputPart(index, ref, ref, numbered, output, state, ref in conversation.pinned)


def _state_of(output: ToolOutput, masked: frozenset[str], form: ShortenedForm | None) -> ViewState:
    if output.call_id in masked:
        return "masked"
    if form is not None:
        return _FORM_STATES[form]
    return "preview" if output.is_part else "visible"


@dataclass(frozen=True, slots=True)
class ViewItem:
    """One part of what the model sees."""

    key: str
    """`r12` for an output; `m41` for parts of the message at position 41 of the session's log."""
    ref: str
    """The item's reference, such as `r12` or `msg-1a2b3c4d`."""
    kind: ItemKind
    what: str
    tokens: int
    age: int
    """Number of steps since the item was added."""
    state: ViewState = "visible"
    is_pinned: bool = False


def view_items(
    conversation: Conversation, count_tokens: Callable[[Message], int], total: int | None = None
) -> tuple[ViewItem, ...]:
    """Return the items of all messages, in session order. `count_tokens`: estimates a message's tokens. `total`: the
    measured total to which the items' sizes are scaled; None to leave them unscaled."""
    items = tuple(_iter_items(conversation, count_tokens))
    if total is None:
        return items
    shares = proportional_shares([item.tokens for item in items], total)
    return tuple(replace(item, tokens=share) for item, share in zip(items, shares, strict=True))


def pin_items(conversation: Conversation, form: Callable[[Message], int]) -> tuple[ViewItem, ...]:
    """Return an item for each piece of pinned, formerly pinned or carried content in the message that opens the
    view."""
    return tuple(
        ViewItem(part.key, part.ref, "pin", part.description, form(part.visible_form), 0, "visible", part.is_pinned)
        for part in view_parts(conversation)
        if isinstance(part, PinnedPart)
    )


def proportional_shares(weights: Sequence[int], target_total: int) -> tuple[int, ...]:
    """Split `target_total` into integers that are proportional to the weights and add up to exactly `target_total`."""
    total = sum(weights)
    if not weights or total <= 0:
        return (target_total, *(0 for _ in weights[1:])) if weights else ()
    shares = [weight * target_total // total for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda index: (-(weights[index] * target_total % total), index))
    for index in by_remainder[: target_total - sum(shares)]:
        shares[index] += 1
    return tuple(shares)


def _iter_items(conversation: Conversation, count_tokens: Callable[[Message], int]) -> Iterator[ViewItem]:
    age = sum(isinstance(message, Assistant) for message in conversation.messages)
    for part in view_parts(conversation):
        match part:
            case MessagePart(original=original):
                age -= isinstance(original, Assistant)
                yield from _build_message_items(part, age, count_tokens)
            case OutputPart():
                yield from _output_items(part, age, count_tokens)
            case PinnedPart():
                pass


def _output_items(part: OutputPart, age: int, count_tokens: Callable[[Message], int]) -> Iterator[ViewItem]:
    description, output = one_line(part.description, MAX_DESCRIPTION_CHARS), replace(part.visible_form, images=())
    item = ViewItem(
        part.key, part.ref, "output", description, count_tokens(User((output,))), age, part.state, part.is_pinned
    )
    yield item
    for image in part.visible_form.images:
        yield replace(
            item, kind="picture", what=f"{image.media_type} of {description}", tokens=count_tokens(User((image,)))
        )


def _build_message_items(part: MessagePart, age: int, count_tokens: Callable[[Message], int]) -> Iterator[ViewItem]:
    original, visible = part.original, part.visible_form
    item = ViewItem(part.key, part.message_ref, "reply", "", 0, age, part.state, part.is_pinned)
    if isinstance(visible, Assistant):
        yield replace(item, what=_reply_description(visible), tokens=count_tokens(visible))
        return
    texts = tuple(message_part for message_part in visible.parts if isinstance(message_part, Text))
    all_notes = tuple(message_part for message_part in visible.parts if isinstance(message_part, Note))
    notes = tuple(message_part for message_part in all_notes if message_part.kind != "instructions")
    if texts:
        yield replace(
            item, kind="you", what=one_line(original.text, MAX_DESCRIPTION_CHARS), tokens=count_tokens(User(texts))
        )
    for message_part in visible.parts:
        if isinstance(message_part, Image):
            yield replace(
                item,
                kind="picture",
                what=message_part.media_type,
                tokens=count_tokens(User((message_part,))),
                state="visible",
            )
    if notes:
        description = one_line(" ".join(note.text for note in notes), MAX_DESCRIPTION_CHARS)
        state = "visible" if texts else part.state
        yield replace(item, kind="note", what=description, tokens=count_tokens(User(notes)), state=state)
    for message_part in all_notes:
        if message_part.kind == "instructions":
            yield replace(
                item,
                kind="instructions",
                what=message_part.name,
                tokens=count_tokens(User((message_part,))),
                state="visible",
            )


def _reply_description(message: Assistant) -> str:
    calls = ", ".join(unwrapped_call(call).name for call in message.calls)
    quote = one_line(message.text, MAX_DESCRIPTION_CHARS)
    return " – ".join(part for part in (quote, f"calls {calls}" if calls else "") if part) or "thinking"


PinForm: TypeAlias = Literal["whole", "preview", "line"]
"""The form in which all pinned content is shown."""

PINS_STRATEGY = "pins"
"""Name of the strategy that reduces pins."""

MAX_PIN_LINE_CHARS = 160
"""Maximum length of pinned content in its one-line form, in characters."""


def displaced_pins(conversation: Conversation, cut: int) -> tuple[CarriedPart, ...]:
    """Return the pinned content, as currently shown, that removing the first `cut` messages would displace."""
    return tuple(_iter_pins_after_cut(conversation, cut))


def _iter_pins_after_cut(conversation: Conversation, cut: int) -> Iterator[CarriedPart]:
    for part in view_parts(conversation) if conversation.pinned else ():
        if not part.is_pinned or part.message_index >= cut:
            continue
        match part:
            case MessagePart(original=original, visible_form=visible):
                title = "What the user said" if isinstance(original, User) else "What you said"
                parts = (Text(item.text) if isinstance(item, Text) else item for item in visible.parts)
                yield CarriedPart(
                    part.key, title, part.message_ref, tuple(item for item in parts if isinstance(item, Text | Image))
                )
            case OutputPart(visible_form=output):
                yield CarriedPart(
                    part.key,
                    one_line(part.description, MAX_PIN_LINE_CHARS),
                    part.ref,
                    (Text(output.text), *output.images),
                )
            case PinnedPart(content=content):
                yield content


def view_after_cut(conversation: Conversation, cut: int) -> Conversation:
    """Return the conversation from message `cut` onwards. Only pinned content remains of the earlier messages. The
    provider's token counts are discarded."""
    tail = conversation.messages[cut:]
    remaining_call_ids = {output.call_id for message in tail if isinstance(message, User) for output in message.outputs}
    removed_output_count = sum(
        len(message.outputs) for message in conversation.messages[:cut] if isinstance(message, User)
    )
    pinned = displaced_pins(conversation, cut)
    outputs_before = conversation.outputs_before + removed_output_count
    messages_before = conversation.messages_before + cut
    remaining_keys = {
        f"r{number}" for number in range(outputs_before + 1, outputs_before + len(remaining_call_ids) + 1)
    }
    remaining_keys |= {message_key(position) for position in range(messages_before, messages_before + len(tail))}
    return replace(
        conversation,
        messages=tail,
        summary=Summary(pinned=pinned),
        anchor=None,
        anchored=0,
        masked=conversation.masked & remaining_call_ids,
        outputs_before=outputs_before,
        messages_before=messages_before,
        pinned=conversation.pinned & (remaining_keys | {pin.key for pin in pinned}),
        retold=tuple(shortened for shortened in conversation.retold if shortened.key in remaining_keys),
    )


def pin_tokens(conversation: Conversation, cut: int | None = None) -> int:
    """Estimate the tokens of all pinned content, or only of content pinned in or before the first `cut` messages."""
    pinned = displaced_pins(conversation, len(conversation.messages) if cut is None else cut)
    return sum(_tokens((Text(pin.title), *pin.parts)) for pin in pinned)


def shrink_pins(conversation: Conversation, form: PinForm) -> Conversation:
    """Reduce all pinned content to previews or lines, where that is shorter. Return the conversation unchanged if
    nothing gets shorter."""
    if form == "whole" or not conversation.pinned:
        return conversation
    shortened = {shortened_part.key: shortened_part for shortened_part in conversation.retold}
    unanswered = unanswered_indices(conversation)
    for part in view_parts(conversation):
        if not part.is_pinned or part.state == "masked":
            continue
        match part:
            case OutputPart(numbered_output=numbered_output, visible_form=output):
                short_text = shortened_text(output.text, part.ref, numbered_output.call.name, form)
                if estimate_output(replace(output, text=short_text, images=())) < estimate_output(output):
                    shortened[part.key] = ShortenedPart(part.key, form, short_text)
            case MessagePart(original=User(text=user_text)) if user_text and part.message_index not in unanswered:
                text = shortened[part.key].text if part.key in shortened else user_text
                short_text = shortened_text(text, part.message_ref, "the user", form)
                if len(short_text) < len(text):
                    shortened[part.key] = ShortenedPart(part.key, form, short_text)
            case MessagePart() | PinnedPart():
                pass
    shrunk_pins = tuple(_shrink_pin(pin, form) for pin in conversation.summary.pinned)
    if tuple(shortened.values()) == conversation.retold and shrunk_pins == conversation.summary.pinned:
        return conversation
    summary = replace(conversation.summary, pinned=shrunk_pins)
    return replace(conversation, retold=tuple(shortened.values()), summary=summary, anchor=None, anchored=0)


def _shrink_pin(pin: CarriedPart, form: PinForm) -> CarriedPart:
    """Shorten the text of one pin."""
    text = "\n".join(part.text for part in pin.parts if isinstance(part, Text))
    short_text = shortened_text(text, pin.ref, "a pin", form)
    short_parts = (Text(short_text),)
    return replace(pin, parts=short_parts) if _tokens(short_parts) < _tokens(pin.parts) else pin


def _tokens(parts: tuple[Text | Image, ...]) -> int:
    return estimate_message(User(parts))


def shortened_text(text: str, ref: str, source: str, form: PinForm) -> str:
    """Return the text unchanged, as a preview, or as one line with its reference, depending on the form."""
    match form:
        case "whole":
            return text
        case "preview":
            return preview_text(text, ref, source)
        case "line":
            return f"{safe_line(text, MAX_PIN_LINE_CHARS)} [recall:{ref}]"


def preview_text(text: str, ref: str, source: str) -> str:
    """Build a preview of text that is stored elsewhere."""
    preview, form, lines = build_preview(text)
    return stored_excerpt(source, ref, form, lines, preview).text


def unanswered_indices(conversation: Conversation) -> frozenset[int]:
    """Return the indices of the user's messages that are not answered yet; these are shown unchanged."""
    unanswered = set[int]()
    for index in range(len(conversation.messages) - 1, -1, -1):
        message = conversation.messages[index]
        if isinstance(message, User):
            unanswered.add(index)
        elif not message.calls and not message.is_paused:
            break
    return frozenset(unanswered)
