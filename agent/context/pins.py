"""Pinned content, which stays in view through every rewrite. Pure.

A pinned output or message stays in place as long as its step does. When the step is removed, the pinned content moves
into the message that opens the view. If pins alone would leave too little room, they are reduced to previews, and at
last to one line each; they stay pinned, and the full content can be recalled by its reference.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.context.estimate import estimate_message, output_size
from ebbtide.agent.context.mask import (
    message_key,
    one_line,
    safe_line,
)
from ebbtide.agent.context.offload import preview_of, stored_form
from ebbtide.agent.context.view_items import MessagePart, OutputPart, PinnedPart, view_parts
from ebbtide.agent.messages import CarriedPart, Conversation, Image, ShortenedPart, Summary, Text, User

PinSize: TypeAlias = Literal["whole", "preview", "line"]
"""How much of all pinned content is shown."""

PINS_STRATEGY = "pins"
"""Name of the strategy that reduces pins."""

LINE = 160
"""Maximum characters of pinned content in its line."""


def pins_after_cut(conversation: Conversation, cut: int) -> tuple[CarriedPart, ...]:
    """Return the pinned content that a view without its first `cut` messages would not show in place, as it is shown
    now."""
    return tuple(_iter_pins_after_cut(conversation, cut))


def _iter_pins_after_cut(conversation: Conversation, cut: int) -> Iterator[CarriedPart]:
    for part in view_parts(conversation) if conversation.pinned else ():
        if not part.is_pinned or part.index >= cut:
            continue
        match part:
            case MessagePart(original=said, visible=shown):
                who = "What the user said" if isinstance(said, User) else "What you said"
                parts = (Text(one.text) if isinstance(one, Text) else one for one in shown.parts)
                yield CarriedPart(
                    part.key, who, part.message_ref, tuple(p for p in parts if isinstance(p, Text | Image))
                )
            case OutputPart(visible=output):
                yield CarriedPart(part.key, one_line(part.what, LINE), part.ref, (Text(output.text), *output.images))
            case PinnedPart(content=kept):
                yield kept


def view_from(conversation: Conversation, cut: int) -> Conversation:
    """Return the conversation from message `cut` on, with nothing before it but the pinned content of what was there.
    It has no token counts yet."""
    tail = conversation.messages[cut:]
    shown = {output.call_id for message in tail if isinstance(message, User) for output in message.outputs}
    gone = sum(len(message.outputs) for message in conversation.messages[:cut] if isinstance(message, User))
    kept = pins_after_cut(conversation, cut)
    outputs, messages = conversation.outputs_before + gone, conversation.messages_before + cut
    there = {f"r{number}" for number in range(outputs + 1, outputs + len(shown) + 1)}
    there |= {message_key(position) for position in range(messages, messages + len(tail))}
    return replace(
        conversation,
        messages=tail,
        summary=Summary(kept=kept),
        anchor=None,
        anchored=0,
        masked=conversation.masked & shown,
        outputs_before=outputs,
        messages_before=messages,
        pinned=conversation.pinned & (there | {one.key for one in kept}),
        retold=tuple(one for one in conversation.retold if one.key in there),
    )


def size_of_pins(conversation: Conversation, cut: int | None = None) -> int:
    """Estimated tokens of the content pinned in or before the first `cut` messages; of all of it if `cut` is None."""
    kept = pins_after_cut(conversation, len(conversation.messages) if cut is None else cut)
    return sum(_tokens((Text(one.title), *one.parts)) for one in kept)


def smaller_pins(conversation: Conversation, size: PinSize) -> Conversation:
    """Reduce all pinned content to previews or lines, where that is shorter. Returns the same conversation if nothing
    is."""
    if size == "whole" or not conversation.pinned:
        return conversation
    told = {one.key: one for one in conversation.retold}
    open_ones = open_request(conversation)
    for part in view_parts(conversation):
        if not part.is_pinned or part.state == "masked":
            continue
        match part:
            case OutputPart(found=found, visible=output):
                less = shorter(output.text, part.ref, found.call.name, size)
                if output_size(replace(output, text=less, images=())) < output_size(output):
                    told[part.key] = ShortenedPart(part.key, size, less)
            case MessagePart(original=User(text=words)) if words and part.index not in open_ones:
                shown = told[part.key].text if part.key in told else words
                less = shorter(shown, part.message_ref, "the user", size)
                if len(less) < len(shown):
                    told[part.key] = ShortenedPart(part.key, size, less)
            case MessagePart() | PinnedPart():
                pass
    kept = tuple(_smaller(one, size) for one in conversation.summary.kept)
    if tuple(told.values()) == conversation.retold and kept == conversation.summary.kept:
        return conversation
    summary = replace(conversation.summary, kept=kept)
    return replace(conversation, retold=tuple(told.values()), summary=summary, anchor=None, anchored=0)


def _smaller(one: CarriedPart, size: PinSize) -> CarriedPart:
    """Reduce one pin."""
    text = "\n".join(part.text for part in one.parts if isinstance(part, Text))
    less = shorter(text, one.ref, "a pin", size)
    less_of_it = (Text(less),)
    return replace(one, parts=less_of_it) if _tokens(less_of_it) < _tokens(one.parts) else one


def _tokens(parts: tuple[Text | Image, ...]) -> int:
    return estimate_message(User(parts))


def shorter(text: str, ref: str, source: str, size: PinSize) -> str:
    """Return the text as it is, as a preview in the form of long outputs, or as a line with its reference."""
    match size:
        case "whole":
            return text
        case "preview":
            return preview_form(text, ref, source)
        case "line":
            return f"{safe_line(text, LINE)} [recall:{ref}]"


def preview_form(text: str, ref: str, source: str) -> str:
    """Return the preview of a text that is stored elsewhere."""
    shown, size, lines = preview_of(text)
    return stored_form(source, ref, size, lines, shown).text


def open_request(conversation: Conversation) -> frozenset[int]:
    """Return the indices of the user's messages without an answer: they are shown byte for byte."""
    open_ones = set[int]()
    for index in range(len(conversation.messages) - 1, -1, -1):
        message = conversation.messages[index]
        if isinstance(message, User):
            open_ones.add(index)
        elif not message.calls and not message.is_paused:
            break
    return frozenset(open_ones)
