"""Attachments of a user message. Builds the notes that the model sees for files, folders, images and piped input, and
the labels that the user sees, including in resumed sessions. No I/O."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ebbtide.agent.messages import Image, Message, Note, Text, User, UserPart
from ebbtide.agent.prompt.mentions import attachment_byte_limit, note_with_heading
from ebbtide.agent.tokens.estimate import estimate_message, estimate_text
from ebbtide.agent.tokens.images import image_size
from ebbtide.agent.view.long_texts import (
    byte_size,
    display_form,
    fair_limit,
    head_and_tail,
    is_binary_text,
    sendable_text,
    truncate_part,
    with_sendable_text,
)
from ebbtide.agent.view.references import message_ref
from ebbtide.agent.view.visible import is_replaceable
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.outputs.plain_text import printable_name


def file_note(name: str, text: str, extent: Extent | None = None) -> Note:
    """Return the note for a file. `text`: the content as returned by `read`; `extent`: how much of the file it
    covers."""
    extent_text = pluralize(extent.shown, extent.noun) if extent else pluralize(text.count("\n") + 1, "line")
    description = extent_text if extent is None or extent.shows_all else f"{extent_text} of it"
    return note_with_heading(f"`{name}` holds:\n\n", text, "file", name, description)


def image_note(name: str) -> Note:
    """Return the note that precedes an attached image."""
    return Note(f"`{name}` is this picture:", kind="picture", name=name)


def folder_note(name: str, entries: Sequence[str], omitted_count: int) -> Note:
    omission_lines = [f"({omitted_count:,} more: `glob` lists them)"] if omitted_count else []
    listing = "\n".join([*entries, *omission_lines]) or "(empty, apart from files that git ignores)"
    count = len(entries) + omitted_count
    description = f"folder, {count:,} entr{'ies' if count != 1 else 'y'}"
    return note_with_heading(f"The folder `{name}` holds:\n\n", listing, "folder", name, description)


def attachment_labels(parts: Sequence[UserPart]) -> tuple[str, ...]:
    """Return a short label for each attachment of a message."""
    return tuple(_iter_labels(parts))


def is_attached_image(parts: Sequence[UserPart], index: int) -> bool:
    """Whether the image at `index` is one that `attachment_labels` lists."""
    previous_part = parts[index - 1] if index else None
    return isinstance(previous_part, Note) and previous_part.kind == "picture"


def _iter_labels(parts: Sequence[UserPart]) -> Iterator[str]:
    for index, part in enumerate(parts):
        match part:
            case Note(kind="piped"):
                yield f"piped input ({_describe_piped(part)})"
            case Note(kind="file" | "folder", name=name, about=description):
                yield f"`{printable_name(name)}` ({description})"
            case Note(kind="picture", name=name):
                yield f"`{printable_name(name)}` ({_describe_image(parts[index + 1 :])})"
            case _:
                pass


def _describe_piped(note: Note) -> str:
    text = (note.whole or note.text)[note.heading :]
    line_count = text.count("\n") + (not text.endswith("\n"))
    descriptions = pluralize(line_count, "line"), pluralize(byte_size(text), "byte"), display_form(note)
    return ", ".join(filter(None, descriptions))


def _describe_image(following_parts: Sequence[UserPart]) -> str:
    size = image_size(following_parts[0].data) if following_parts and isinstance(following_parts[0], Image) else None
    return f"image, {size[0]}×{size[1]}" if size else "image"


MIN_NOTE_BYTES = 200
"""Size below which a note is not shortened further, in bytes."""

MIN_ATTACHMENT_BYTES = 400
"""Minimum size of a shown attachment, in bytes. A smaller one would be of little use."""

LONG_TEXT_CHARS = 2_000
"""Length above which the user's text can be shortened, in characters."""

FULL_TEXT_DIVISOR = 2
"""User text and piped input are sent in full if they take at most 1/`FULL_TEXT_DIVISOR` of the free room."""

EXCERPT_DIVISOR = 8
"""Longer text and piped input are shortened to 1/`EXCERPT_DIVISOR` of the free room. The model has to look up the rest
anyway, and each request is billed for what is shown."""

MIN_TEXT_TOKENS = 250
"""Tokens of user text that are shown even in the smallest window."""

BYTES_PER_TOKEN = 3

_ORIGIN_NOTE = '[What came with this message is kept under ref_id="{}".]'


def fit_message(message: User, window_tokens: int, free_tokens: int) -> User:
    """Shorten a message to fit into `free_tokens` tokens. Long text and piped input are sent in full if there is room
    for them; otherwise, only their start and end are sent. Other attachments get a share of the window. The full
    content is stored under the message's reference. Returns `message` itself if nothing is too long."""
    parts = [with_sendable_text(part, "") if isinstance(part, Text | Note) else part for part in message.parts]
    text_sizes = [
        estimate_text(part.text) for part in parts if isinstance(part, Text | Note) and _is_user_content(part)
    ]
    exceeds_room = sum(text_sizes) > max(free_tokens // FULL_TEXT_DIVISOR, MIN_TEXT_TOKENS)
    max_text_tokens = (
        fair_limit(text_sizes, max(free_tokens // EXCERPT_DIVISOR, MIN_TEXT_TOKENS)) if exceeds_room else sys.maxsize
    )
    note_sizes = [byte_size(part.text) for part in parts if isinstance(part, Note) and not _is_user_content(part)]
    attachment_bytes = attachment_byte_limit(window_tokens)
    max_attachment_bytes = (
        max(fair_limit(note_sizes, attachment_bytes), MIN_ATTACHMENT_BYTES)
        if sum(note_sizes) > attachment_bytes
        else sys.maxsize
    )

    def shorten(part: UserPart, ref: str) -> UserPart:
        if not isinstance(part, Text | Note):
            return part
        part = with_sendable_text(part, ref)
        return (
            truncate_to_tokens(part, max_text_tokens, ref)
            if _is_user_content(part)
            else truncate_part(part, max_attachment_bytes, ref)
        )

    ref = message_ref(User(tuple(shorten(part, "") for part in message.parts)))
    fitted = tuple(shorten(part, ref) for part in message.parts)
    return message if fitted == message.parts else User(fitted)


def needs_fitting(message: User) -> bool:
    """Whether a part of a message might be too long, or cannot be sent as it is."""
    texts = [part.text for part in message.parts if isinstance(part, Text | Note)]
    return len(texts) > 1 or any(
        len(text) > LONG_TEXT_CHARS or sendable_text(text) != text or is_binary_text(text) for text in texts
    )


def truncate_to_tokens(part: Text | Note, max_tokens: int, ref: str) -> Text | Note:
    """Shorten a part to its start, end and reference if its text takes more than `max_tokens` tokens. Otherwise, return
    it unchanged."""
    if estimate_text(part.text) <= max_tokens:
        return part
    max_bytes = max_tokens * BYTES_PER_TOKEN
    shortened = truncate_part(part, max_bytes, ref)
    while estimate_text(shortened.text) > max_tokens and max_bytes > MIN_NOTE_BYTES:
        max_bytes = max_bytes * 3 // 4
        shortened = truncate_part(part, max_bytes, ref)
    return shortened


def _is_user_content(part: UserPart) -> bool:
    return isinstance(part, Text) or (isinstance(part, Note) and part.kind == "piped")


def has_large_parts(message: Message) -> bool:
    """Whether the message contains long text or an attachment that could be shortened."""
    return isinstance(message, User) and any(_is_shrinkable(part) or _is_long_text(part) for part in message.parts)


def compacted_request_parts(message: User) -> tuple[UserPart, ...]:
    """Return a message's parts as they were sent, for use after a compaction. If any part is large, add a note with the
    message's reference."""
    parts = tuple(
        replace(part, whole="") if isinstance(part, Note | Text) and part.whole else part for part in message.parts
    )
    ref = message_ref(message)
    return (*parts, Note(_ORIGIN_NOTE.format(ref), kind="origin", name=ref)) if has_large_parts(message) else parts


def shrink_attachments(
    request: User, max_tokens: int, *, keeps_images: bool = True, shortens_text: bool = False
) -> User:
    """Shorten the attachments until the request takes at most `max_tokens` tokens, or as far as possible.
    `keeps_images`: keep the images, which cannot be shortened, only removed. `shortens_text`: the user's long text
    may be shortened as well. Return the same request if it already fits or nothing can be shortened."""
    if estimate_message(request) <= max_tokens:
        return request
    sizes = [byte_size(part.text) for part in request.parts if isinstance(part, Note) and _is_shrinkable(part)]
    shrunk = request
    for max_bytes in _halving_sizes(max(sizes, default=0)):
        shrunk = User(tuple(_shrunk_parts(request.parts, max_bytes, keeps_images)))
        if estimate_message(shrunk) <= max_tokens:
            break
    if shortens_text and estimate_message(shrunk) > max_tokens:
        shrunk = _shorten_user_text(shrunk, max_tokens)
    return request if shrunk.parts == request.parts else shrunk


def with_image_notes(request: User) -> User:
    """Return the request with its images replaced by notes that say where to find them."""
    refs, image_number = _message_refs(request.parts), 0
    parts = list[UserPart]()
    for ref, part in zip(refs, request.parts, strict=True):
        image_number = image_number + 1 if isinstance(part, Image) else 0 if _origin_ref(part) else image_number
        parts.append(
            _image_omission_note(part, f"{ref}:tool-{image_number}" if ref else "") if isinstance(part, Image) else part
        )
    return User(tuple(parts))


def _shorten_user_text(request: User, max_tokens: int) -> User:
    """Shorten long user text until the request takes at most `max_tokens` tokens."""
    refs = _message_refs(request.parts)
    sizes = [byte_size(part.text) for part in request.parts if _is_long_text(part) and isinstance(part, Text)]
    shortened = request
    for max_bytes in _halving_sizes(max(sizes, default=0)):
        shortened = User(
            tuple(_shorten_text(part, max_bytes, ref) for part, ref in zip(request.parts, refs, strict=True))
        )
        if estimate_message(shortened) <= max_tokens:
            break
    return shortened


def _shorten_text(part: UserPart, max_bytes: int, ref_of_message: str) -> UserPart:
    """Shorten long user text to `max_bytes` bytes. `ref_of_message`: the reference of its message; if unknown, the text
    is assumed to be the whole message."""
    if not isinstance(part, Text) or not _is_long_text(part):
        return part
    ref = ref_of_message or message_ref(User((part,)))
    text, gap = head_and_tail(sendable_text(part.text), max_bytes, ref, part.gap)
    return replace(part, text=text, gap=gap, whole="")


def _halving_sizes(max_bytes: int) -> Iterator[int]:
    """Yield the text sizes to try, in bytes, from the largest to the smallest."""
    while max_bytes > MIN_NOTE_BYTES:
        yield max_bytes
        max_bytes //= 2
    yield MIN_NOTE_BYTES


def _shrunk_parts(parts: Sequence[UserPart], max_bytes: int, keeps_images: bool) -> Iterator[UserPart]:
    refs, image_number = _message_refs(parts), 0
    for index, part in enumerate(parts):
        image_number = image_number + 1 if isinstance(part, Image) else 0 if _origin_ref(part) else image_number
        if isinstance(part, Note) and _is_shrinkable(part):
            yield _shorter_part(replace(truncate_part(part, max_bytes, refs[index]), whole=""), part)
        elif isinstance(part, Image) and not keeps_images:
            yield _shorter_part(
                _image_omission_note(part, f"{refs[index]}:tool-{image_number}" if refs[index] else ""), part
            )
        else:
            yield part


def _message_refs(parts: Sequence[UserPart]) -> list[str]:
    """Return the reference of the message that each part belongs to; empty if unknown."""
    refs, ref = [""] * len(parts), ""
    for index in range(len(parts) - 1, -1, -1):
        ref = _origin_ref(parts[index]) or ref
        refs[index] = ref
    return refs


def _origin_ref(part: UserPart) -> str:
    return part.name if isinstance(part, Note) and part.kind == "origin" else ""


def _image_omission_note(image: Image, ref: str) -> Note:
    lookup_advice = f': `recall` with ref_id="{ref}" shows it' if ref else ""
    return Note(f"[An image ({image.media_type}) is not shown because there is no room for it{lookup_advice}.]")


def _shorter_part(shorter: Note, part: Note | Image) -> Note | Image:
    return shorter if estimate_message(User((shorter,))) < estimate_message(User((part,))) else part


def _is_shrinkable(part: UserPart) -> bool:
    """Whether the part can be shortened. Notes about removed steps cannot, because nothing else names those steps'
    outputs."""
    return isinstance(part, Image) or (isinstance(part, Note) and part.kind != "step" and is_replaceable(part))


def _is_long_text(part: UserPart) -> bool:
    return isinstance(part, Text) and (len(part.text) > LONG_TEXT_CHARS or bool(part.whole))
