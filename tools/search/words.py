"""Words looked for in kept content of any size: a piece at a time, for as long as there is time."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ebbtide.tools.outputs.stored import Content

PIECE = 1 << 18
"""Bytes that are looked through at once. Nothing else in the process runs meanwhile."""
_OVERLAP_BYTES = 1 << 10
"""Bytes that neighbouring pieces share, so that nothing short is lost between them."""
_EDGE = 4
"""Characters at the beginning of a piece, which may be parts of one, and which the piece before shows whole."""
_BEFORE_CHARS, _SHOWN_CHARS = 80, 200
"""Characters that are shown before a place, and in all."""
_TOKEN = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where one word of a name ends and the next begins."""
_NAME = re.compile(r"\w+(?:-\w+)*")
_ONE_CASE = re.compile(r"[a-z0-9]+|[^\x00-\x7f]+")
"""What may stand in bytes in one way only, when it has no capitals."""


@dataclass(frozen=True, slots=True)
class ScanResult:
    """How far a content was looked through, and what was found."""

    lines: tuple[tuple[int, str], ...] = ()
    """For each word the first line that holds it, with its number, or a part of that; in the order of the content."""
    is_found: bool = False
    """Whether all words were found."""
    searched: int = 0
    """Bytes from the beginning on."""


def scan_words(content: Content, words: Sequence[str], is_over: Callable[[], bool]) -> ScanResult:
    """Whether a content holds all of the words, capitals or not, each from where a word begins; as far as it got until
    it was over. Raises what the content raises."""
    open_ones = [_Word(word) for word in words if _TOKEN.search(word)]
    found, searched = dict[int, str](), 0
    for start, newlines, data in _pieces(content):
        small = data.lower()
        for word in [one for one in open_ones if one.may_be_in(small)]:
            text = data.decode("utf-8", "replace")
            low = text.lower()
            at = word.find(low, _EDGE if start else 0)
            if at is not None:
                number = newlines + low.count("\n", 0, at) + 1
                found.setdefault(number, _line(text if len(text) == len(low) else low, at))
                open_ones.remove(word)
        searched = start + len(data)
        if not open_ones or is_over():
            break
    return ScanResult(tuple(sorted(found.items())), not open_ones, searched)


class _Word:
    """A word or several that follow each other, and how to know quickly that bytes lack them. The words of a name, as
    in `user_name` and `userName`, may also be glued together, or stand apart."""

    def __init__(self, word: str) -> None:
        is_name = _NAME.fullmatch(word) is not None
        tokens = [token.lower() for token in _TOKEN.findall(_HUMP.sub("_", word) if is_name else word)]
        self._pattern = re.compile((r"[\W_]*" if is_name else r"[\W_]+").join(map(re.escape, tokens)))
        runs = [run for token in tokens for run in _ONE_CASE.findall(token) if run.isascii() or run == run.upper()]
        self._needle = max((run.encode() for run in runs), key=len, default=b"")

    def may_be_in(self, small: bytes) -> bool:
        """`small`: bytes whose letters of ASCII are small."""
        return self._needle in small

    def find(self, low: str, first: int) -> int | None:
        """Where it stands first in a text in small letters, from a place on and from where a word begins."""
        starts = (match.start() for match in self._pattern.finditer(low, first))
        return next((at for at in starts if at == 0 or not low[at - 1].isalnum()), None)


def _pieces(content: Content) -> Iterator[tuple[int, int, bytes]]:
    """Pieces of a content, each with the byte at which it begins and how many lines end before that."""
    held, start, newlines = b"", 0, 0
    for chunk in content.chunks():
        for at in range(0, len(chunk), PIECE):
            data = held + chunk[at : at + PIECE]
            yield start, newlines, data
            held = data[-_OVERLAP_BYTES:]
            passed = len(data) - len(held)
            newlines += data.count(b"\n", 0, passed)
            start += passed


def _line(text: str, at: int) -> str:
    """The line around a place, or a part of it."""
    first, last = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    last = len(text) if last < 0 else last
    start = max(first, at - _BEFORE_CHARS)
    end = min(last, start + _SHOWN_CHARS)
    return f"{'… ' if start > first else ''}{text[start:end].strip()}{' …' if end < last else ''}"
