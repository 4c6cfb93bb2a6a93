"""What the user gives at length, shown by its beginning and its end, under the reference of all of it. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from ebbtide.agent.messages import Elision, Note, Text
from ebbtide.tools.outputs.plain_text import is_mostly_noise

Part = TypeVar("Part", bound=Text | Note)

_LEFT_OUT = '[… {:,} bytes left out: `read_result` or `recall` with ref_id="{}" …]'
_NO_TEXT = '[not text, {:,} bytes, which begin with {} and end with {}; `read_result` with ref_id="{}" has all of it]'
_SAMPLE = 4_096
"""Characters of each end that tell whether a text is one."""
_LEAST_NOISE = 200
"""Characters below which a text is shown whatever it holds: a word in another encoding than the terminal's is one."""
_BYTES = 32
"""Bytes that are shown of each end of what is no text."""


def truncate_part(part: Part, most: int, ref: str) -> Part:
    """The part, when its text takes at most so many bytes; otherwise with both ends of it, and the reference under
    which the model finds all of it."""
    text, gap = both_ends(part.text, most, ref, part.gap)
    return part if text == part.text else replace(part, text=text, gap=gap, whole=part.whole or part.text)


def both_ends(text: str, most: int, ref: str, gap: Elision | None) -> tuple[str, Elision | None]:
    """The text, when it takes at most so many bytes; otherwise its ends, with a new gap. Of one whose middle is left
    out already, more of it is."""
    if len(text) <= most and size_of(text) <= most:
        return text, gap
    before, gone, after = (text[: gap.start], gap.size, text[gap.end :]) if gap else (text, 0, text)
    head, tail = _beginning(before, most * 2 // 3), _end(after, most // 3)
    there = size_of(before) + size_of(after) if gap else size_of(text)
    left_out = gone + there - size_of(head) - size_of(tail)
    head, told = sendable(head), f"\n{_LEFT_OUT.format(left_out, ref)}\n"
    return f"{head}{told}{sendable(tail)}", Elision(len(head), len(head) + len(told), left_out)


def readable(part: Part, ref: str) -> Part:
    """The part as it can be sent: bytes that no text has are marked, and of what is no text at all its first and last
    bytes are shown. All of it is kept."""
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
    """How a note is shown; nothing when all of it is there."""
    if not note.whole or note.text == sendable(note.whole):
        return ""
    return "not text" if is_noise(note.whole[note.heading :]) else "both ends of it"


def is_noise(text: str) -> bool:
    """Whether it is no text but the bytes of something else, and more of them than are worth showing."""
    if len(text) < _LEAST_NOISE:
        return False
    ends = text if len(text) <= 2 * _SAMPLE else text[:_SAMPLE] + text[-_SAMPLE:]
    return is_mostly_noise(sendable(ends))


def sendable(text: str) -> str:
    """The text as it can be encoded: halves of surrogate pairs that arrived apart are joined, and for each single one,
    which stands for a byte that no text has, there is a mark."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def size_of(text: str) -> int:
    return len(text) if text.isascii() else len(bytes_of(text))


def bytes_of(text: str) -> bytes:
    """The bytes that a text was read from, also those that are no text."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # halves of pairs that stand for no byte
        return text.encode("utf-8", "surrogatepass")


def fair_share(sizes: Iterable[int], room: int) -> int:
    """The most that each may take, so that all together take no more than there is room for. What is smaller leaves
    what it does not need to the others."""
    waiting = sorted(sizes)
    for count, size in zip(range(len(waiting), 0, -1), waiting, strict=True):
        if size > room // count:
            return room // count
        room -= size
    return waiting[-1] if waiting else room


def _beginning(text: str, most: int) -> str:
    """As many whole characters as take at most so many bytes."""
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
