"""Outputs that the model has not been shown yet, and how all of them are shown where there is too little room: each by
its share, with its reference. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ebbtide.agent.context.budget import shares
from ebbtide.agent.context.estimate import estimate_message, output_size
from ebbtide.agent.context.mask import NumberedOutput, numbered_outputs, outcome_with_ref, output_stub, visible_output
from ebbtide.agent.context.offload import Offloading, preview_of, stored_form, text_without_insertions
from ebbtide.agent.context.steps import unseen_from
from ebbtide.agent.messages import Conversation, Image, Note, ShortenedPart, ToolOutput, User

MIN_PART_TOKENS = 100
"""Tokens of an output below which no part of it is worth more than the line that stands for it."""
_MIN_FRAMED_BYTES = 256
"""Bytes of an output below which a sentence of how to see the rest takes more than they do: a line tells it then."""
_MIN_PREVIEW_BYTES = 32
_STEP_OMITTED = "[The newest step took more than the whole window, so it is not shown. What its calls gave back:"
_LINES = 24
"""Outputs of a step that is not shown which are named in a line each."""


def unseen_outputs(conversation: Conversation) -> tuple[NumberedOutput, ...]:
    """The outputs that stand behind the model's last reply, in order."""
    first = unseen_from(conversation.messages)
    count = sum(len(message.outputs) for message in conversation.messages[first:] if isinstance(message, User))
    return numbered_outputs(conversation)[-count:] if count else ()


def size_of_unseen(conversation: Conversation) -> int:
    """Estimated tokens of all of them, as they are shown now."""
    told = {one.key: one for one in conversation.retold}
    return sum(output_size(visible_output(found, conversation.masked, told)) for found in unseen_outputs(conversation))


def cut_to_fit(conversation: Conversation, room: int) -> Conversation:
    """The conversation with its unseen outputs in no more than so many tokens, as far as that can be: small ones whole,
    of the large ones the ends of the text and the pictures for which there is room, always with the reference. The same
    conversation when nothing gets smaller."""
    outputs, told = unseen_outputs(conversation), {one.key: one for one in conversation.retold}
    sizes = [output_size(visible_output(found, conversation.masked, told)) for found in outputs]
    if sum(sizes) <= room:
        return conversation
    for found, size, part in zip(outputs, sizes, shares(sizes, room), strict=True):
        if part < size and found.output.call_id not in conversation.masked:
            less = _fit_output(found, part)
            if output_size(_shortened_output(found, less)) < size:
                told[found.ref] = less
    retold = tuple(told.values())
    return (
        conversation if retold == conversation.retold else replace(conversation, retold=retold, anchor=None, anchored=0)
    )


def without_pictures(conversation: Conversation) -> Conversation:
    """The conversation with the unseen outputs' pictures named instead of shown. The same conversation when there are
    none."""
    told = {one.key: one for one in conversation.retold}
    shown = [(found, visible_output(found, conversation.masked, told)) for found in unseen_outputs(conversation)]
    named = [
        ShortenedPart(
            found.ref, "preview", output.text + "".join(f"\n{name}" for name in _names(output.images, found.ref)), 0
        )
        for found, output in shown
        if output.images and found.ref not in conversation.pinned
    ]
    if not named:
        return conversation
    retold = tuple((told | {one.key: one for one in named}).values())
    return replace(conversation, retold=retold, anchor=None, anchored=0)


def by_reference(conversation: Conversation) -> Conversation:
    """The conversation with a line in the place of each unseen output that takes more and is not pinned. The same
    conversation when none does."""
    told = {one.key: one for one in conversation.retold}
    chosen = {
        found.output.call_id: found.ref
        for found in unseen_outputs(conversation)
        if found.ref not in conversation.pinned
        and output_size(replace(found.output, text=output_stub(found), images=()))
        < output_size(visible_output(found, conversation.masked, told))
    }
    if not chosen:
        return conversation
    retold = tuple(one for one in conversation.retold if one.key not in chosen.values())
    masked = conversation.masked | chosen.keys()
    return replace(conversation, masked=masked, retold=retold, anchor=None, anchored=0)


def named_step(request: User, outputs: Sequence[NumberedOutput]) -> User:
    """What the user wants now, with a note that names the outputs of a step for which there is no room at all."""
    parts = without_named_step(request).parts
    gone = Note("\n".join((_STEP_OMITTED, *_output_lines(outputs))) + "]", kind="step")
    return User((*parts, gone)) if outputs else request


def without_named_step(request: User) -> User:
    """The same without the note about an earlier step."""
    return replace(
        request, parts=tuple(part for part in request.parts if not (isinstance(part, Note) and part.kind == "step"))
    )


def _output_lines(outputs: Sequence[NumberedOutput]) -> Iterator[str]:
    for found in outputs[:_LINES]:
        yield f"- {outcome_with_ref(found)}"
    if len(outputs) > _LINES:
        yield f"- and {outputs[_LINES].ref} to {outputs[-1].ref}"


def _fit_output(found: NumberedOutput, part: int) -> ShortenedPart:
    """As much of the output as takes so many tokens: pictures while there is room, and the ends of the text."""
    output = found.output
    pictures = _pictures_in(output.images, part - MIN_PART_TOKENS)
    names = "".join(f"\n{name}" for name in _names(output.images, found.ref, pictures))
    whole = ShortenedPart(found.ref, "preview", output.text + names, pictures)
    if names and output_size(_shortened_output(found, whole)) <= part:
        return whole
    stored = output.stored
    text = output.text if stored is None else text_without_insertions(output.text, output.inserted).strip("\n")
    whole_size = len(text.encode("utf-8", "surrogatepass")) * max(part, 0) // max(output_size(output), 1)
    # A preview of a part would count the lines of that part.
    is_part = stored is not None and len(text.encode("utf-8", "surrogatepass")) < stored.size
    for is_plain in (True,) if is_part else (False, True):
        keep = whole_size
        while keep >= _MIN_FRAMED_BYTES:
            shown, size, lines = preview_of(text, Offloading(preview=keep))
            size, lines = (stored.size, stored.lines) if stored is not None else (size, lines)
            form = _ends(text, keep) if is_plain else shown
            told = stored_form(found.call.name, found.ref, size, lines, form).text + names
            less = ShortenedPart(found.ref, "preview", told, pictures)
            if output_size(_shortened_output(found, less)) <= part:
                return less
            keep = keep * 3 // 4
    keep = whole_size
    while keep >= _MIN_PREVIEW_BYTES:
        less = ShortenedPart(found.ref, "preview", f"{outcome_with_ref(found)}\n{_ends(text, keep)}{names}", pictures)
        if output_size(_shortened_output(found, less)) <= part:
            return less
        keep = keep * 3 // 4
    return ShortenedPart(found.ref, "line", outcome_with_ref(found) + names, pictures)


def _ends(text: str, keep: int) -> str:
    """Both ends of a text, also of long lines, of which a preview would show more."""
    most = min(keep, len(text)) * 3 // 4
    return f"{text[: most * 2 // 3]}\n[…]\n{text[len(text) - most // 3 :]}"


def _shortened_output(found: NumberedOutput, one: ShortenedPart) -> ToolOutput:
    return replace(found.output, text=one.text, images=found.output.images[: one.pictures])


def _pictures_in(images: Sequence[Image], room: int) -> int:
    """How many of the first pictures take no more than so many tokens."""
    for number, image in enumerate(images):
        room -= estimate_message(User((image,)))
        if room < 0:
            return number
    return len(images)


def _names(images: Sequence[Image], ref: str, shown: int = 0) -> Iterator[str]:
    """Lines for the pictures of an output behind the first ones, which are shown."""
    for number, image in enumerate(images[shown:], shown + 1):
        where = f'`recall` with ref_id="{ref}:tool-{number}" shows it'
        yield f"[A picture ({image.media_type}) is not shown, since there is no room for it: {where}.]"
