"""Attachments of a user message: how files, folders, pictures and piped input are noted for the model and labelled for
the user, also in resumed sessions. Pure; reads no files."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ebbtide.agent.context.estimate import estimate_message, estimate_text
from ebbtide.agent.context.images import image_size
from ebbtide.agent.context.long_texts import (
    both_ends,
    fair_share,
    is_noise,
    manner_of,
    readable,
    sendable,
    size_of,
    truncate_part,
)
from ebbtide.agent.context.mask import is_at_length
from ebbtide.agent.context.mentions import note_with_heading, room_for
from ebbtide.agent.context.references import message_ref
from ebbtide.agent.messages import Image, Message, Note, Text, User, UserPart
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.outputs.plain_text import printable


def file_note(name: str, text: str, extent: Extent | None = None) -> Note:
    """Return the note for a file. `text`: the content that `read` returned; `extent`: how much of the file it
    covers."""
    lines = pluralize(extent.shown, extent.noun) if extent else pluralize(text.count("\n") + 1, "line")
    about = lines if extent is None or extent.is_all else f"{lines} of it"
    return note_with_heading(f"`{name}` holds:\n\n", text, "file", name, about)


def picture_note(name: str) -> Note:
    """Return the note that precedes the picture."""
    return Note(f"`{name}` is this picture:", kind="picture", name=name)


def folder_note(name: str, entries: Sequence[str], left_out: int) -> Note:
    more = [f"({left_out:,} more: `glob` lists them)"] if left_out else []
    held = "\n".join([*entries, *more]) or "nothing that git does not ignore"
    count = len(entries) + left_out
    about = f"folder, {count:,} entr{'ies' if count != 1 else 'y'}"
    return note_with_heading(f"The folder `{name}` holds:\n\n", held, "folder", name, about)


def attachment_labels(parts: Sequence[UserPart]) -> tuple[str, ...]:
    """Return a short label for each attachment of a message."""
    return tuple(_iter_labels(parts))


def is_attached_picture(parts: Sequence[UserPart], index: int) -> bool:
    """Whether the picture at `index` is one that `attachment_labels` lists."""
    before = parts[index - 1] if index else None
    return isinstance(before, Note) and before.kind == "picture"


def _iter_labels(parts: Sequence[UserPart]) -> Iterator[str]:
    for index, part in enumerate(parts):
        match part:
            case Note(kind="piped"):
                yield f"piped input ({_about_piped(part)})"
            case Note(kind="file" | "folder", name=name, about=about):
                yield f"`{printable(name)}` ({about})"
            case Note(kind="picture", name=name):
                yield f"`{printable(name)}` ({_about_picture(parts[index + 1 :])})"
            case _:
                pass


def _about_piped(note: Note) -> str:
    text = (note.whole or note.text)[note.heading :]
    lines = text.count("\n") + (not text.endswith("\n"))
    parts = pluralize(lines, "line"), pluralize(size_of(text), "byte"), manner_of(note)
    return ", ".join(filter(None, parts))


def _about_picture(behind: Sequence[UserPart]) -> str:
    size = image_size(behind[0].data) if behind and isinstance(behind[0], Image) else None
    return f"picture, {size[0]}×{size[1]}" if size else "picture"


MIN_NOTE_BYTES = 200
"""Size of a note at its shortest, in bytes."""

MIN_ATTACHMENT_BYTES = 400
"""Attachments below this many bytes are not worth a line of their own."""

LONG_WORDS = 2_000
"""Characters of the user's text above which it may be shortened."""

WORDS_SHARE = 2
"""User text and piped input are sent whole if they take at most 1/`WORDS_SHARE` of the free room."""

ENDS_SHARE = 8
"""Longer ones are cut to 1/`ENDS_SHARE`: the rest has to be looked up anyway, and every request pays for what is
shown."""

MIN_TEXT_TOKENS = 250
"""Tokens of user text that are shown in any window."""

BYTES_A_TOKEN = 3

_NAME = '[What came with this message is kept under ref_id="{}".]'


def fit_message(said: User, effective: int, free: int) -> User:
    """Fit a message into `free` tokens. Long text and piped input are sent whole if there is room for them, otherwise
    by head and tail; other attachments get their share of an `effective` window. The full message is stored under a
    stable reference. Returns `said` itself if nothing is too long."""
    parts = [readable(part, "") if isinstance(part, Text | Note) else part for part in said.parts]
    words = [estimate_text(part.text) for part in parts if isinstance(part, Text | Note) and _is_words(part)]
    is_too_much = sum(words) > max(free // WORDS_SHARE, MIN_TEXT_TOKENS)
    most_words = fair_share(words, max(free // ENDS_SHARE, MIN_TEXT_TOKENS)) if is_too_much else sys.maxsize
    notes = [size_of(part.text) for part in parts if isinstance(part, Note) and not _is_words(part)]
    room = room_for(effective)
    most_beside = max(fair_share(notes, room), MIN_ATTACHMENT_BYTES) if sum(notes) > room else sys.maxsize

    def cut(part: UserPart, ref: str) -> UserPart:
        if not isinstance(part, Text | Note):
            return part
        part = readable(part, ref)
        return within_tokens(part, most_words, ref) if _is_words(part) else truncate_part(part, most_beside, ref)

    ref = message_ref(User(tuple(cut(part, "") for part in said.parts)))
    shown = tuple(cut(part, ref) for part in said.parts)
    return said if shown == said.parts else User(shown)


def needs_fitting(said: User) -> bool:
    """Whether part of a message may be too long, or cannot be sent as it is."""
    texts = [part.text for part in said.parts if isinstance(part, Text | Note)]
    return len(texts) > 1 or any(len(t) > LONG_WORDS or sendable(t) != t or is_noise(t) for t in texts)


def within_tokens(part: Text | Note, most: int, ref: str) -> Text | Note:
    """Return the part unchanged if its text takes at most `most` tokens, otherwise its head and tail with its
    reference."""
    if estimate_text(part.text) <= most:
        return part
    size = most * BYTES_A_TOKEN
    shown = truncate_part(part, size, ref)
    while estimate_text(shown.text) > most and size > MIN_NOTE_BYTES:
        size = size * 3 // 4
        shown = truncate_part(part, size, ref)
    return shown


def _is_words(part: UserPart) -> bool:
    return isinstance(part, Text) or (isinstance(part, Note) and part.kind == "piped")


def has_large_parts(message: Message) -> bool:
    """Whether the message has long text or an attachment that could be shortened."""
    return isinstance(message, User) and any(_is_shrinkable(part) or _is_long(part) for part in message.parts)


def as_request(message: User) -> tuple[UserPart, ...]:
    """Return the parts as a compaction stores them: as they were sent, followed by the message's reference if it has
    attachments."""
    parts = tuple(replace(p, whole="") if isinstance(p, Note | Text) and p.whole else p for p in message.parts)
    ref = message_ref(message)
    return (*parts, Note(_NAME.format(ref), kind="origin", name=ref)) if has_large_parts(message) else parts


def shrink_attachments(request: User, most: int, *, pictures: bool = True, words: bool = False) -> User:
    """Shorten the attachments until the request takes at most `most` tokens, or as far as possible. The user's text and
    the pictures stay unless `words` is set or `pictures` is false; a picture can only be dropped whole. Returns the
    same request if it already fits or nothing can be shortened."""
    if estimate_message(request) <= most:
        return request
    sizes = [size_of(part.text) for part in request.parts if isinstance(part, Note) and _is_shrinkable(part)]
    shown = request
    for size in _halving_sizes(max(sizes, default=0)):
        shown = User(tuple(_shrunk_parts(request.parts, size, pictures)))
        if estimate_message(shown) <= most:
            break
    if words and estimate_message(shown) > most:
        shown = _fewer_words(shown, most)
    return request if shown.parts == request.parts else shown


def named_pictures(request: User) -> User:
    """Replace the pictures of the request with notes that say where to find them."""
    names, number = _names(request.parts), 0
    shown = list[UserPart]()
    for name, part in zip(names, request.parts, strict=True):
        number = number + 1 if isinstance(part, Image) else 0 if _name_in(part) else number
        shown.append(_left_out(part, f"{name}:tool-{number}" if name else "") if isinstance(part, Image) else part)
    return User(tuple(shown))


def _fewer_words(request: User, most: int) -> User:
    """Shorten the long user text until the request takes at most `most` tokens."""
    names = _names(request.parts)
    sizes = [size_of(part.text) for part in request.parts if _is_long(part) and isinstance(part, Text)]
    shown = request
    for size in _halving_sizes(max(sizes, default=0)):
        shown = User(tuple(_shorten_text(part, size, name) for part, name in zip(request.parts, names, strict=True)))
        if estimate_message(shown) <= most:
            break
    return shown


def _shorten_text(part: UserPart, size: int, name: str) -> UserPart:
    """Shorten one text. `name`: the reference of its message; if that is unknown, the message consists of this text
    alone."""
    if not isinstance(part, Text) or not _is_long(part):
        return part
    ref = name or message_ref(User((part,)))
    text, gap = both_ends(sendable(part.text), size, ref, part.gap)
    return replace(part, text=text, gap=gap, whole="")


def _halving_sizes(size: int) -> Iterator[int]:
    """Yield sizes in bytes for each note, from the largest to the smallest."""
    while size > MIN_NOTE_BYTES:
        yield size
        size //= 2
    yield MIN_NOTE_BYTES


def _shrunk_parts(parts: Sequence[UserPart], size: int, pictures: bool) -> Iterator[UserPart]:
    names, number = _names(parts), 0
    for place, part in enumerate(parts):
        number = number + 1 if isinstance(part, Image) else 0 if _name_in(part) else number
        if isinstance(part, Note) and _is_shrinkable(part):
            yield _shorter(replace(truncate_part(part, size, names[place]), whole=""), part)
        elif isinstance(part, Image) and not pictures:
            yield _shorter(_left_out(part, f"{names[place]}:tool-{number}" if names[place] else ""), part)
        else:
            yield part


def _names(parts: Sequence[UserPart]) -> list[str]:
    """Return, for each part, the reference of the message that it came with, or "" if unknown."""
    names, name = [""] * len(parts), ""
    for place in range(len(parts) - 1, -1, -1):
        name = _name_in(parts[place]) or name
        names[place] = name
    return names


def _name_in(part: UserPart) -> str:
    return part.name if isinstance(part, Note) and part.kind == "origin" else ""


def _left_out(image: Image, ref: str) -> Note:
    where = f': `recall` with ref_id="{ref}" shows it' if ref else ""
    return Note(f"[A picture ({image.media_type}) is not shown, since there is no room for it{where}.]")


def _shorter(less: Note, part: Note | Image) -> Note | Image:
    return less if estimate_message(User((less,))) < estimate_message(User((part,))) else part


def _is_shrinkable(part: UserPart) -> bool:
    """Whether the part can be shortened. A "step" note cannot: nothing else names the outputs of a step that is not
    shown."""
    return isinstance(part, Image) or (isinstance(part, Note) and part.kind != "step" and is_at_length(part))


def _is_long(part: UserPart) -> bool:
    return isinstance(part, Text) and (len(part.text) > LONG_WORDS or bool(part.whole))
