"""The parts of a conversation as it is shown, one by one: what each is, what it takes, and how it is shown. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agent.context.mask import as_shown, message_key, numbered_outputs, one_line, what_happened
from agent.context.references import message_ref
from agent.context.tool_selection import meant
from agent.messages import Assistant, Conversation, Form, Image, Kept, Message, Note, Text, ToolOutput, User

Kind: TypeAlias = Literal["you", "reply", "output", "picture", "note", "pin"]
"""What the user said, what the model said and called, what a call gave back, a picture, what the program told, or what
is pinned and stands in no message any more."""

State: TypeAlias = Literal["visible", "preview", "summarised", "masked"]
"""Shown as it is, by its ends, as a model summed it up, or as one line."""

WHAT = 200
"""Characters that say what an item is."""
_STATES: dict[Form, State] = {"line": "masked", "preview": "preview", "summary": "summarised"}


@dataclass(frozen=True, slots=True)
class ViewItem:
    """One part of what the model is shown."""

    key: str
    """`r12` for an output, `m41` for what stands in the message at that position of the log."""
    ref: str
    """By what it is found: `r12`, `msg-1a2b3c4d`."""
    kind: Kind
    what: str
    tokens: int
    age: int
    """Steps since."""
    state: State = "visible"
    is_pinned: bool = False


def items_of(
    conversation: Conversation, size: Callable[[Message], int], whole: int | None = None
) -> tuple[ViewItem, ...]:
    """Every part of the messages, in the order in which they were said. `size`: estimated tokens of a message by
    itself; `whole`: what all of them together are known to take, which is shared out."""
    items = tuple(_items(conversation, size))
    if whole is None:
        return items
    shares = shared_out([item.tokens for item in items], whole)
    return tuple(replace(item, tokens=share) for item, share in zip(items, shares, strict=True))


def pins_of(conversation: Conversation, size: Callable[[Message], int]) -> tuple[ViewItem, ...]:
    """What is pinned, or was, and stands in the message that opens the view."""
    return tuple(_pin(one, conversation, size) for one in conversation.summary.kept)


def shared_out(weights: Sequence[int], whole: int) -> tuple[int, ...]:
    """Whole numbers in the proportion of the weights that are together exactly `whole`."""
    total = sum(weights)
    if not weights or total <= 0:
        return (whole, *(0 for _ in weights[1:])) if weights else ()
    shares = [weight * whole // total for weight in weights]
    rests = sorted(range(len(weights)), key=lambda place: (-(weights[place] * whole % total), place))
    for place in rests[: whole - sum(shares)]:
        shares[place] += 1
    return tuple(shares)


def _items(conversation: Conversation, size: Callable[[Message], int]) -> Iterator[ViewItem]:
    shown = as_shown(conversation)
    steps = sum(isinstance(message, Assistant) for message in shown)
    told = {one.key: one.form for one in conversation.retold}
    outputs = {found.ref: found for found in numbered_outputs(conversation)}
    number = conversation.outputs_before
    for index, (said, message) in enumerate(zip(conversation.messages, shown, strict=True)):
        key, ref = message_key(conversation.messages_before + index), message_ref(said)
        is_pinned, form = key in conversation.pinned, told.get(key)
        said_as: State = "visible" if form is None else _STATES[form]
        if isinstance(message, Assistant):
            steps -= 1
            yield ViewItem(key, ref, "reply", _reply(message), size(message), steps, said_as, is_pinned)
            continue
        for output in message.outputs:
            number += 1
            found = outputs[f"r{number}"]
            state = _state(found.output, conversation.masked, told.get(found.ref))
            what = one_line(what_happened(found.call, found.output), WHAT)
            item = ViewItem(found.ref, found.ref, "output", what, 0, steps, state, found.ref in conversation.pinned)
            yield replace(item, tokens=size(User((replace(output, images=()),))))
            for image in output.images:
                yield replace(item, kind="picture", what=f"{image.media_type} of {what}", tokens=size(User((image,))))
        texts = tuple(part for part in message.parts if isinstance(part, Text))
        notes = tuple(part for part in message.parts if isinstance(part, Note))
        if texts:
            what = one_line(said.text if isinstance(said, User) else "", WHAT)
            yield ViewItem(key, ref, "you", what, size(User(texts)), steps, said_as, is_pinned)
        for part in message.parts:
            if isinstance(part, Image):
                yield ViewItem(key, ref, "picture", part.media_type, size(User((part,))), steps, "visible", is_pinned)
        if notes:
            what = one_line(" ".join(note.text for note in notes), WHAT)
            state = said_as if not texts else "visible"
            yield ViewItem(key, ref, "note", what, size(User(notes)), steps, state, is_pinned)


def _reply(message: Assistant) -> str:
    calls = ", ".join(meant(call).name for call in message.calls)
    said = one_line(message.text, WHAT)
    return " – ".join(part for part in (said, f"calls {calls}" if calls else "") if part) or "thinking"


def _state(output: ToolOutput, masked: frozenset[str], form: Form | None) -> State:
    if output.call_id in masked:
        return "masked"
    if form is not None:
        return _STATES[form]
    return "preview" if output.is_part else "visible"


def _pin(one: Kept, conversation: Conversation, size: Callable[[Message], int]) -> ViewItem:
    is_pinned = one.key in conversation.pinned
    tokens = size(User((Text(one.title), *one.parts)))
    return ViewItem(one.key, one.ref, "pin", one.what, tokens, 0, "visible", is_pinned)
