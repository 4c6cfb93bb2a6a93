"""Outputs that the model has not seen yet, and how they are cut to a share each if room is short, always with their
reference. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ebbtide.agent.context.budget import shares
from ebbtide.agent.context.estimate import estimate_message, output_size
from ebbtide.agent.context.mask import NumberedOutput, numbered_outputs, outcome_with_ref, output_stub, visible_output
from ebbtide.agent.context.offload import Offloading, preview_of, stored_form, text_without_insertions
from ebbtide.agent.context.steps import unseen_from
from ebbtide.agent.messages import Conversation, Image, Note, ShortenedPart, ToolOutput, User

MIN_PART_TOKENS = 100
"""Below this many tokens no excerpt is worth more than the stub."""
_MIN_FRAMED_BYTES = 256
"""Below this many bytes the sentence on how to see the rest takes more than the excerpt, so a line is used."""
_MIN_PREVIEW_BYTES = 32
_STEP_OMITTED = "[The newest step took more than the whole window, so it is not shown. What its calls gave back:"
_LINES = 24
"""Maximum number of outputs that are named for a dropped step."""


def unseen_outputs(conversation: Conversation) -> tuple[NumberedOutput, ...]:
    """Return the outputs after the model's last reply, in order."""
    first = unseen_from(conversation.messages)
    count = sum(len(message.outputs) for message in conversation.messages[first:] if isinstance(message, User))
    return numbered_outputs(conversation)[-count:] if count else ()


def size_of_unseen(conversation: Conversation) -> int:
    """Estimated tokens of all unseen outputs as they are shown now."""
    told = {one.key: one for one in conversation.retold}
    return sum(output_size(visible_output(found, conversation.masked, told)) for found in unseen_outputs(conversation))


def cut_to_fit(conversation: Conversation, room: int) -> Conversation:
    """Cut the unseen outputs to `room` tokens in total, as far as possible: small ones stay whole, large ones are
    reduced to head, tail and the pictures that fit, always with the reference. Returns the same conversation if nothing
    gets smaller."""
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
    """Replace the pictures of unseen outputs by their names. Returns the same conversation if there are none."""
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
    """Mask each unseen output that is larger than its stub and not pinned. Returns the same conversation if there is
    none."""
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
    """Return the open request with a note that names the outputs of a step that does not fit at all."""
    parts = without_named_step(request).parts
    gone = Note("\n".join((_STEP_OMITTED, *_output_lines(outputs))) + "]", kind="step")
    return User((*parts, gone)) if outputs else request


def without_named_step(request: User) -> User:
    """Return the request without the note about an earlier step."""
    return replace(
        request, parts=tuple(part for part in request.parts if not (isinstance(part, Note) and part.kind == "step"))
    )


def _output_lines(outputs: Sequence[NumberedOutput]) -> Iterator[str]:
    for found in outputs[:_LINES]:
        yield f"- {outcome_with_ref(found)}"
    if len(outputs) > _LINES:
        yield f"- and {outputs[_LINES].ref} to {outputs[-1].ref}"


def _fit_output(found: NumberedOutput, part: int) -> ShortenedPart:
    """Reduce an output to `part` tokens: pictures while there is room, then head and tail of the text."""
    output = found.output
    pictures = _pictures_in(output.images, part - MIN_PART_TOKENS)
    names = "".join(f"\n{name}" for name in _names(output.images, found.ref, pictures))
    whole = ShortenedPart(found.ref, "preview", output.text + names, pictures)
    if names and output_size(_shortened_output(found, whole)) <= part:
        return whole
    stored = output.stored
    text = output.text if stored is None else text_without_insertions(output.text, output.inserted).strip("\n")
    whole_size = len(text.encode("utf-8", "surrogatepass")) * max(part, 0) // max(output_size(output), 1)
    # The preview of an excerpt would count the lines of that excerpt.
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
    """Return head and tail, also of long lines, for which a preview would show more."""
    most = min(keep, len(text)) * 3 // 4
    return f"{text[: most * 2 // 3]}\n[…]\n{text[len(text) - most // 3 :]}"


def _shortened_output(found: NumberedOutput, one: ShortenedPart) -> ToolOutput:
    return replace(found.output, text=one.text, images=found.output.images[: one.pictures])


def _pictures_in(images: Sequence[Image], room: int) -> int:
    """Number of leading pictures that fit into `room` tokens."""
    for number, image in enumerate(images):
        room -= estimate_message(User((image,)))
        if room < 0:
            return number
    return len(images)


def _names(images: Sequence[Image], ref: str, shown: int = 0) -> Iterator[str]:
    """Yield lines for the pictures after the first `shown` ones."""
    for number, image in enumerate(images[shown:], shown + 1):
        where = f'`recall` with ref_id="{ref}:tool-{number}" shows it'
        yield f"[A picture ({image.media_type}) is not shown, since there is no room for it: {where}.]"
