"""Helpers for references: parsing them, and finding the images, calls and search matches that they point to."""

import base64
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from ebbtide.agent.context.message_text import call_text
from ebbtide.agent.context.references import (
    BadReference,
    MessageRef,
    OutputRef,
    Reference,
    SummaryRef,
    ToolPart,
    parse_reference,
)
from ebbtide.agent.errors import ReferenceFailed, StoreFailed
from ebbtide.agent.messages import Assistant, Image, Message, User
from ebbtide.store.session_rows import OutputRow
from ebbtide.tools.files.pictures import PICTURE_TYPES
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import join_limited, pluralize
from ebbtide.tools.outputs.plain_text import is_mostly_noise
from ebbtide.tools.outputs.stored import Content

URI_ID_DIGITS = 8
"""Digits of a session id in a URI."""

MOST_CANDIDATES = 5

_SNIFF_BYTES = 1 << 14
"""Bytes that are examined to tell whether content is text."""

_MATCH_LINE = regex(rb"\d+:")
"""The start of a matching line in search output."""

_MOST_UNNUMBERED = 50
_NUMBER = regex(rb"([1-9]\d{0,17})\t")


@dataclass(frozen=True, slots=True)
class ResolvedReference:
    """What a reference points to."""

    reference: Reference
    """The reference with the full session id, the full message name, and the name of the project folder."""
    session: str
    position: int
    """Position of the message that it is, that contains it, or that follows it."""
    size: int
    lines: int
    media_type: str = "text/plain"
    tool: str = ""
    created: float = 0.0
    """Unix seconds."""
    output: OutputRow | None = None
    attachments: tuple[int, ...] = ()
    """Image parts of the output, if the reference means all of it."""

    @property
    def uri(self) -> str:
        return str(replace(self.reference, session=self.session[:URI_ID_DIGITS]))


def checked_reference(text: str) -> Reference:
    try:
        return parse_reference(text)
    except BadReference as error:
        raise ReferenceFailed(str(error)) from error


def located_part(located: ResolvedReference, part: int) -> Reference:
    return replace(located.reference, location=ToolPart(part))


def _pictures_in(message: Message) -> tuple[Image, ...]:
    """The images that the user attached to a message."""
    return tuple(part for part in message.parts if isinstance(part, Image)) if isinstance(message, User) else ()


def type_of(message: Message, number: int) -> str:
    pictures = _pictures_in(message)
    return pictures[number - 1].media_type if number <= len(pictures) else "text/plain"


def count_in(message: Message) -> int:
    """How many numbered items a message has: images, outputs or calls."""
    things = message.outputs if isinstance(message, User) else message.calls
    return len(_pictures_in(message)) or len(things)


def part_in(message: Message, number: int, known: Reference) -> bytes:
    """A call of a reply, or an image of a user message. Raises `ReferenceFailed`."""
    pictures, calls = _pictures_in(message), message.calls if isinstance(message, Assistant) else ()
    if number > len(pictures or calls):
        what = pluralize(len(pictures), "picture") if pictures else pluralize(len(calls), "call")
        raise ReferenceFailed(f"`{known.target}` has {what}")
    if not pictures:
        return encode_text(call_text(calls[number - 1]))
    try:
        return base64.b64decode(pictures[number - 1].data)
    except ValueError as error:
        raise StoreFailed(f"the picture `{known}` cannot be read: {error}", "corrupt") from error


def is_a_picture(parts: Sequence[OutputRow]) -> bool:
    """Whether an output is mainly an image: its text is a single line in the message."""
    return len(parts) > 1 and parts[0].digest is None and parts[0].lines <= 1 and parts[1].media_type in PICTURE_TYPES


def attachments_text(count: int) -> str:
    return "one picture or file" if count == 1 else f"{count} pictures and files"


def ambiguous(wanted: Reference, candidates: Sequence[str]) -> str:
    shown = join_limited([f"`{candidate}`" for candidate in candidates], MOST_CANDIDATES)
    return f"`{wanted}` is ambiguous: {shown}; write more of it"


def encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def kind_of(located: ResolvedReference) -> str:
    match located.reference.target:
        case OutputRef():
            return f"output of {located.tool}" if located.tool else "output"
        case MessageRef():
            return "message"
        case SummaryRef():
            return "summary"


def is_text(content: Content) -> bool:
    head = content.read(0, _SNIFF_BYTES)
    return b"\0" not in head and not is_mostly_noise(head.decode("utf-8", "replace"))


def unnumbered_lines(content: Content) -> int:
    """How many lines at the end of a numbered output are unnumbered, such as remarks of the tool."""
    for count in range(min(_MOST_UNNUMBERED, content.lines)):
        line = content.read(content.line_start(content.lines - count), 24)
        if _NUMBER.match(line):
            return count
    return 0


def first_number(content: Content) -> int | None:
    """The number of the first line, if the lines are those of a file with their numbers."""
    number = _NUMBER.match(content.read(0, 20))
    return int(number[1]) if number else None


def match_line(content: Content, number: int) -> int | None:
    """The line of a search output that contains the n-th match."""
    lines = b"".join(content.chunks()).split(b"\n")
    hits = (at for at, line in enumerate(lines, 1) if _MATCH_LINE.match(line))
    return next(islice(hits, number - 1, None), None)
