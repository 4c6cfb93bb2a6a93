"""What comes beside the words of the user: files, pastes, resources, pictures. Where the window is too small for all
that came with an open request, it is shown in part, and nothing of it is further than a reference. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from agent.context.estimate import estimate_message
from agent.context.mask import is_at_length
from agent.context.mentions import within
from agent.context.refs import MessageRef, message_digits
from agent.messages import Image, Message, Note, User, UserPart

SHORTEST = 200
"""Bytes of a note that is shown as little as can be."""

_NAME = '[What came with this message is kept under ref_id="{}".]'
_NAMED = re.compile(re.escape(_NAME).replace(r"\{\}", r"(msg-[0-9a-f]{8})"))


def brings_much(message: Message) -> bool:
    """Whether something came with what the user said that could be shown in part."""
    return isinstance(message, User) and any(map(_is_beside, message.parts))


def as_request(message: User) -> tuple[UserPart, ...]:
    """The parts of a message as a compaction keeps them: as they were sent, and with its reference where something came
    with it."""
    parts = tuple(replace(p, whole="") if isinstance(p, Note) and p.whole else p for p in message.parts)
    return (*parts, Note(_NAME.format(MessageRef(message_digits(message))))) if brings_much(message) else parts


def lean(request: User, most: int, *, pictures: bool = True) -> User:
    """The request with as much of what came with it as lets it take so many tokens, or with as little as there can be.
    What the user said stays as it is, and so does each picture unless it may go: there is no less of one. The same
    request when it takes no more, or nothing can be less."""
    if estimate_message(request) <= most:
        return request
    sizes = [len(_encoded(part)) for part in request.parts if isinstance(part, Note) and _is_beside(part)]
    shown = request
    for size in _halved(max(sizes, default=0)):
        shown = User(tuple(_shown(request.parts, size, pictures)))
        if estimate_message(shown) <= most:
            break
    return request if shown.parts == request.parts else shown


def _halved(size: int) -> Iterator[int]:
    """Bytes of each note, from the most to the least."""
    while size > SHORTEST:
        yield size
        size //= 2
    yield SHORTEST


def _shown(parts: Sequence[UserPart], size: int, pictures: bool) -> Iterator[UserPart]:
    names, number = _names(parts), 0
    for place, part in enumerate(parts):
        number = number + 1 if isinstance(part, Image) else 0 if _name_in(part) else number
        if isinstance(part, Note) and _is_beside(part):
            yield _shorter(replace(within(part, size, names[place]), whole=""), part)
        elif isinstance(part, Image) and not pictures:
            yield _shorter(_left_out(part, f"{names[place]}:tool-{number}" if names[place] else ""), part)
        else:
            yield part


def _names(parts: Sequence[UserPart]) -> list[str]:
    """Of each part the reference of the message that it came with; nothing where that is not known."""
    names, name = [""] * len(parts), ""
    for place in range(len(parts) - 1, -1, -1):
        name = _name_in(parts[place]) or name
        names[place] = name
    return names


def _name_in(part: UserPart) -> str:
    found = _NAMED.fullmatch(part.text) if isinstance(part, Note) else None
    return found[1] if found else ""


def _left_out(image: Image, ref: str) -> Note:
    where = f': `recall` with ref_id="{ref}" shows it' if ref else ""
    return Note(f"[A picture ({image.media_type}) is not shown, since there is no room for it{where}.]")


def _shorter(less: Note, part: Note | Image) -> Note | Image:
    return less if estimate_message(User((less,))) < estimate_message(User((part,))) else part


def _is_beside(part: UserPart) -> bool:
    return isinstance(part, Image) or (isinstance(part, Note) and is_at_length(part))


def _encoded(part: Note) -> bytes:
    return part.text.encode("utf-8", "surrogatepass")
