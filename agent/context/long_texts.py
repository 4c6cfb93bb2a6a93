"""Long text from the user, reduced to head and tail under the reference of the full text. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from ebbtide.agent.messages import Elision, Note, Text
from ebbtide.tools.outputs.plain_text import is_mostly_noise

Part = TypeVar("Part", bound=Text | Note)

_LEFT_OUT = '[… {:,} bytes left out: `read_result` or `recall` with ref_id="{}" …]'
_NO_TEXT = '[not text, {:,} bytes, which begin with {} and end with {}; `read_result` with ref_id="{}" has all of it]'
_SAMPLE = 4_096
"""Characters at each end that are examined to tell text from binary data."""
_LEAST_NOISE = 200
"""Anything shorter is shown as it is: it may be a word in an encoding other than the terminal's."""
_BYTES = 32
"""Bytes shown at each end of binary data."""


def truncate_part(part: Part, most: int, ref: str) -> Part:
    """Return the part unchanged if its text takes at most `most` bytes, otherwise with head and tail and the reference
    under which the model finds the rest."""
    text, gap = both_ends(part.text, most, ref, part.gap)
    return part if text == part.text else replace(part, text=text, gap=gap, whole=part.whole or part.text)


def both_ends(text: str, most: int, ref: str, gap: Elision | None) -> tuple[str, Elision | None]:
    """Return the text unchanged if it takes at most `most` bytes, otherwise its head and tail with a new gap. An
    existing gap is widened."""
    if len(text) <= most and size_of(text) <= most:
        return text, gap
    before, gone, after = (text[: gap.start], gap.size, text[gap.end :]) if gap else (text, 0, text)
    head, tail = _beginning(before, most * 2 // 3), _end(after, most // 3)
    there = size_of(before) + size_of(after) if gap else size_of(text)
    left_out = gone + there - size_of(head) - size_of(tail)
    head, told = sendable(head), f"\n{_LEFT_OUT.format(left_out, ref)}\n"
    return f"{head}{told}{sendable(tail)}", Elision(len(head), len(head) + len(told), left_out)


def readable(part: Part, ref: str) -> Part:
    """Return the part in sendable form: undecodable bytes are marked, and binary data is reduced to its first and last
    bytes. The full content is stored."""
    if part.whole:
        return part
    heading = part.text[: part.heading] if isinstance(part, Note) else ""
    bare = part.text[len(heading) :]
    if is_noise(bare):
        begins, ends = bytes_of(bare[:_BYTES])[:_BYTES].hex(" "), bytes_of(bare[-_BYTES:])[-_BYTES:].hex(" ")
        return replace(part, text=heading + _NO_TEXT.format(size_of(bare), begins, ends, ref), whole=part.text)
    text = sendable(part.text)
    return part if text == part.text else replace(part, text=text, whole=part.text)


def manner_of(note: Note) -> str:
    """Say how a note is shown; empty if it is shown in full."""
    if not note.whole or note.text == sendable(note.whole):
        return ""
    return "not text" if is_noise(note.whole[note.heading :]) else "head and tail only"


def is_noise(text: str) -> bool:
    """Whether the text is binary data, and long enough not to be shown."""
    if len(text) < _LEAST_NOISE:
        return False
    ends = text if len(text) <= 2 * _SAMPLE else text[:_SAMPLE] + text[-_SAMPLE:]
    return is_mostly_noise(sendable(ends))


def sendable(text: str) -> str:
    """Return the text in encodable form: split surrogate pairs are joined, and lone surrogates, which represent
    undecodable bytes, are replaced by a mark."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def size_of(text: str) -> int:
    return len(text) if text.isascii() else len(bytes_of(text))


def bytes_of(text: str) -> bytes:
    """Return the bytes that a text was decoded from, undecodable ones included."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # surrogates that represent no byte
        return text.encode("utf-8", "surrogatepass")


def fair_share(sizes: Iterable[int], room: int) -> int:
    """Return the cap for each size with which the total fits into `room`. Smaller sizes leave their rest to the
    others."""
    waiting = sorted(sizes)
    for count, size in zip(range(len(waiting), 0, -1), waiting, strict=True):
        if size > room // count:
            return room // count
        room -= size
    return waiting[-1] if waiting else room


def _beginning(text: str, most: int) -> str:
    """Return the longest prefix that takes at most `most` bytes."""
    return _truncate_bytes(text[:most], most)


def _end(text: str, most: int) -> str:
    return _truncate_bytes(text[-most:][::-1], most)[::-1] if most else ""


def _truncate_bytes(text: str, most: int) -> str:
    if size_of(text) <= most:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size_of(text[:middle]) <= most else (low, middle - 1)
    return text[:low]
