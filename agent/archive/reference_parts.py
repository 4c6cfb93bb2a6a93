"""Helpers for references: parsing them, and finding the images, calls and search matches that they point to."""

import base64
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from ebbtide.agent.errors import ReferenceFailed, StoreFailed
from ebbtide.agent.messages import Assistant, Image, Message, User
from ebbtide.agent.view.message_text import call_text
from ebbtide.agent.view.references import (
    BadReference,
    MessageRef,
    OutputRef,
    Reference,
    SummaryRef,
    ToolPart,
    parse_reference,
)
from ebbtide.store.session_rows import OutputRow
from ebbtide.tools.files.image_types import IMAGE_TYPES
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import join_limited, pluralize
from ebbtide.tools.outputs.plain_text import is_mostly_binary
from ebbtide.tools.outputs.stored_content import Content

URI_ID_DIGITS = 8
"""Digits of a session id in a URI."""

MAX_NAMED_CANDIDATES = 5

_SNIFF_BYTES = 1 << 14
"""Number of bytes examined to decide whether content is text."""

_MATCH_LINE = regex(rb"\d+:")
"""The start of a matching line in search output."""

_MAX_UNNUMBERED_LINES = 50
_LINE_NUMBER = regex(rb"([1-9]\d{0,17})\t")


@dataclass(frozen=True, slots=True)
class ResolvedReference:
    """What a reference points to."""

    reference: Reference
    """The reference with the full session id, the full message name, and the name of the project folder."""
    session: str
    position: int
    """Position of the message that the reference names, or that contains the named output. For a summary, position of
    the message that follows it."""
    size: int
    line_count: int
    media_type: str = "text/plain"
    tool: str = ""
    created_at: float = 0.0
    """Unix seconds."""
    output: OutputRow | None = None
    attachments: tuple[int, ...] = ()
    """Numbers of the output's image parts, if the reference names the whole output."""

    @property
    def uri(self) -> str:
        return str(replace(self.reference, session=self.session[:URI_ID_DIGITS]))


def parse_user_reference(text: str) -> Reference:
    try:
        return parse_reference(text)
    except BadReference as error:
        raise ReferenceFailed(str(error)) from error


def part_reference(reference: ResolvedReference, part: int) -> Reference:
    return replace(reference.reference, location=ToolPart(part))


def _attached_images(message: Message) -> tuple[Image, ...]:
    """Return the images that the user attached to a message."""
    return tuple(part for part in message.parts if isinstance(part, Image)) if isinstance(message, User) else ()


def part_media_type(message: Message, number: int) -> str:
    images = _attached_images(message)
    return images[number - 1].media_type if number <= len(images) else "text/plain"


def count_numbered_items(message: Message) -> int:
    """Count the items in a message that can be referred to by number: images, outputs or calls."""
    items = message.outputs if isinstance(message, User) else message.calls
    return len(_attached_images(message)) or len(items)


def part_content(message: Message, number: int, reference: Reference) -> bytes:
    """Return the content of a numbered part: a call of a reply, or an image of a user message. Raises
    `ReferenceFailed`."""
    images, calls = _attached_images(message), message.calls if isinstance(message, Assistant) else ()
    if number > len(images or calls):
        available = pluralize(len(images), "image") if images else pluralize(len(calls), "call")
        raise ReferenceFailed(f"`{reference.target}` has {available}")
    if not images:
        return encode_text(call_text(calls[number - 1]))
    try:
        return base64.b64decode(images[number - 1].data)
    except ValueError as error:
        raise StoreFailed(f"the image `{reference}` cannot be read: {error}", "corrupt") from error


def is_mainly_image(parts: Sequence[OutputRow]) -> bool:
    """Whether an output is mainly an image, with only one line of text in the message."""
    return len(parts) > 1 and parts[0].digest is None and parts[0].lines <= 1 and parts[1].media_type in IMAGE_TYPES


def attachment_count_text(count: int) -> str:
    return "one image or file" if count == 1 else f"{count} images and files"


def ambiguous_reference_message(reference: Reference, candidates: Sequence[str]) -> str:
    names = join_limited([f"`{candidate}`" for candidate in candidates], MAX_NAMED_CANDIDATES)
    return f"`{reference}` is ambiguous: {names}; use a longer form"


def encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def reference_kind(reference: ResolvedReference) -> str:
    match reference.reference.target:
        case OutputRef():
            return f"output of {reference.tool}" if reference.tool else "output"
        case MessageRef():
            return "message"
        case SummaryRef():
            return "summary"


def is_text(content: Content) -> bool:
    sample = content.read(0, _SNIFF_BYTES)
    return b"\0" not in sample and not is_mostly_binary(sample.decode("utf-8", "replace"))


def count_unnumbered_lines(content: Content) -> int:
    """Count the lines without a line number at the end of numbered output, such as notes from the tool."""
    for count in range(min(_MAX_UNNUMBERED_LINES, content.lines)):
        line = content.read(content.line_start(content.lines - count), 24)
        if _LINE_NUMBER.match(line):
            return count
    return 0


def first_line_number(content: Content) -> int | None:
    """Return the number of the first line if the content consists of numbered file lines; otherwise None."""
    match = _LINE_NUMBER.match(content.read(0, 20))
    return int(match[1]) if match else None


def find_match_line(content: Content, number: int) -> int | None:
    """Find the line of search output that contains match `number`; None if there are fewer matches. Lines and matches
    are counted from 1."""
    lines = b"".join(content.chunks()).split(b"\n")
    line_numbers = (line_number for line_number, line in enumerate(lines, 1) if _MATCH_LINE.match(line))
    return next(islice(line_numbers, number - 1, None), None)
