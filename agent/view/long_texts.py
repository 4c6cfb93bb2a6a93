"""Shortens the user's long text to its start and end, with a reference to the full text."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from ebbtide.agent.messages import Elision, Note, Text
from ebbtide.tools.outputs.plain_text import is_mostly_binary

Part = TypeVar("Part", bound=Text | Note)

_OMISSION_NOTE = '[… {:,} bytes left out: `read_result` or `recall` with ref_id="{}" …]'
_BINARY_NOTE = (
    '[not text, {:,} bytes, which begin with {} and end with {}; `read_result` with ref_id="{}" has all of it]'
)
_SAMPLE_CHARS = 4_096
"""Number of characters at each end that are examined to distinguish text from binary data."""
_MIN_NOISE_CHARS = 200
"""Minimum length of text that can be treated as binary data, in characters. Shorter text may be a word in an encoding
other than the terminal's."""
_BINARY_END_BYTES = 32
"""Number of bytes shown at each end of binary data."""


def truncate_part(part: Part, max_bytes: int, ref: str) -> Part:
    """Shorten a part to its start and end if its text takes more than `max_bytes` bytes. `ref`: the reference with
    which the model can recall the rest."""
    text, gap = head_and_tail(part.text, max_bytes, ref, part.gap)
    return part if text == part.text else replace(part, text=text, gap=gap, whole=part.whole or part.text)


def head_and_tail(text: str, max_bytes: int, ref: str, gap: Elision | None) -> tuple[str, Elision | None]:
    """Shorten text to its start and end if it takes more than `max_bytes` bytes. Also return the gap between them; an
    existing gap is extended."""
    if len(text) <= max_bytes and byte_size(text) <= max_bytes:
        return text, gap
    text_before, omitted_earlier, text_after = (
        (text[: gap.start], gap.size, text[gap.end :]) if gap else (text, 0, text)
    )
    head, tail = _prefix_within(text_before, max_bytes * 2 // 3), _suffix_within(text_after, max_bytes // 3)
    visible_bytes = byte_size(text_before) + byte_size(text_after) if gap else byte_size(text)
    omitted_bytes = omitted_earlier + visible_bytes - byte_size(head) - byte_size(tail)
    head, gap_text = sendable_text(head), f"\n{_OMISSION_NOTE.format(omitted_bytes, ref)}\n"
    return f"{head}{gap_text}{sendable_text(tail)}", Elision(len(head), len(head) + len(gap_text), omitted_bytes)


def with_sendable_text(part: Part, ref: str) -> Part:
    """Make a part's text safe to send. Bytes that are not text become U+FFFD, and binary data is reduced to its first
    and last bytes. The part keeps the original content."""
    if part.whole:
        return part
    heading = part.text[: part.heading] if isinstance(part, Note) else ""
    content = part.text[len(heading) :]
    if is_binary_text(content):
        first_bytes = original_bytes(content[:_BINARY_END_BYTES])[:_BINARY_END_BYTES].hex(" ")
        last_bytes = original_bytes(content[-_BINARY_END_BYTES:])[-_BINARY_END_BYTES:].hex(" ")
        return replace(
            part, text=heading + _BINARY_NOTE.format(byte_size(content), first_bytes, last_bytes, ref), whole=part.text
        )
    text = sendable_text(part.text)
    return part if text == part.text else replace(part, text=text, whole=part.text)


def display_form(note: Note) -> str:
    """Return a short phrase for how a note is shown, such as `head and tail only`. Empty if it is shown in full."""
    if not note.whole or note.text == sendable_text(note.whole):
        return ""
    return "not text" if is_binary_text(note.whole[note.heading :]) else "head and tail only"


def is_binary_text(text: str) -> bool:
    """Whether the text is binary data, and long enough to be sure of that."""
    if len(text) < _MIN_NOISE_CHARS:
        return False
    ends = text if len(text) <= 2 * _SAMPLE_CHARS else text[:_SAMPLE_CHARS] + text[-_SAMPLE_CHARS:]
    return is_mostly_binary(sendable_text(ends))


def sendable_text(text: str) -> str:
    """Make text encodable. Split surrogate pairs are joined. Lone surrogates, which represent bytes that could not be
    decoded, are replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def byte_size(text: str) -> int:
    return len(text) if text.isascii() else len(original_bytes(text))


def original_bytes(text: str) -> bytes:
    """Return the bytes from which text was decoded, including any that could not be decoded."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # some surrogates represent no byte
        return text.encode("utf-8", "surrogatepass")


def fair_limit(sizes: Iterable[int], room: int) -> int:
    """Find the size limit per item that makes the total fit into `room`. Room that smaller items leave unused goes to
    the others."""
    sorted_sizes = sorted(sizes)
    for remaining_count, size in zip(range(len(sorted_sizes), 0, -1), sorted_sizes, strict=True):
        if size > room // remaining_count:
            return room // remaining_count
        room -= size
    return sorted_sizes[-1] if sorted_sizes else room


def _prefix_within(text: str, max_bytes: int) -> str:
    """Return the longest prefix that takes at most `max_bytes` bytes."""
    return _truncate_bytes(text[:max_bytes], max_bytes)


def _suffix_within(text: str, max_bytes: int) -> str:
    return _truncate_bytes(text[-max_bytes:][::-1], max_bytes)[::-1] if max_bytes else ""


def _truncate_bytes(text: str, max_bytes: int) -> str:
    if byte_size(text) <= max_bytes:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if byte_size(text[:middle]) <= max_bytes else (low, middle - 1)
    return text[:low]
