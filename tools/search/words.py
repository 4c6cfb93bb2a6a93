"""Searches stored content of any size for words, piece by piece, within a time limit."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ebbtide.tools.outputs.stored import Content

PIECE = 1 << 18
"""Number of bytes searched at once, which blocks the rest of the process."""
_OVERLAP_BYTES = 1 << 10
"""Number of bytes that neighbouring pieces overlap, so that no short match is lost."""
_EDGE = 4
"""Number of characters at the beginning of a piece that may be incomplete, and that are complete in the piece
before."""
_BEFORE_CHARS, _SHOWN_CHARS = 80, 200
"""Number of characters shown before a match, and in total."""
_TOKEN = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""The boundary between two words of a name."""
_NAME = re.compile(r"\w+(?:-\w+)*")
_ONE_CASE = re.compile(r"[a-z0-9]+|[^\x00-\x7f]+")
"""Characters with a single byte representation, if not upper case."""


@dataclass(frozen=True, slots=True)
class ScanResult:
    """How far a content was searched, and what was found."""

    lines: tuple[tuple[int, str], ...] = ()
    """For each word, number and text of the first line that contains it, possibly shortened, in order."""
    is_found: bool = False
    """Whether all words were found."""
    searched: int = 0
    """Number of bytes searched from the beginning."""


def scan_words(content: Content, words: Sequence[str], is_over: Callable[[], bool]) -> ScanResult:
    """Search a content for all of the words, ignoring case and only at the start of words, until `is_over`. Raises what
    reading the content raises."""
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
    """One or several consecutive words, with a quick test that excludes most data. The words of a name, such as
    `user_name` and `userName`, may also be joined or separated."""

    def __init__(self, word: str) -> None:
        is_name = _NAME.fullmatch(word) is not None
        tokens = [token.lower() for token in _TOKEN.findall(_HUMP.sub("_", word) if is_name else word)]
        self._pattern = re.compile((r"[\W_]*" if is_name else r"[\W_]+").join(map(re.escape, tokens)))
        runs = [run for token in tokens for run in _ONE_CASE.findall(token) if run.isascii() or run == run.upper()]
        self._needle = max((run.encode() for run in runs), key=len, default=b"")

    def may_be_in(self, small: bytes) -> bool:
        """`small`: bytes with ASCII letters in lower case."""
        return self._needle in small

    def find(self, low: str, first: int) -> int | None:
        """Return the first position in lower-case text, from `first` on and at the start of a word."""
        starts = (match.start() for match in self._pattern.finditer(low, first))
        return next((at for at in starts if at == 0 or not low[at - 1].isalnum()), None)


def _pieces(content: Content) -> Iterator[tuple[int, int, bytes]]:
    """Yield pieces of a content, with their offset and the number of newlines before it."""
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
    """Return the line around a position, possibly shortened."""
    first, last = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    last = len(text) if last < 0 else last
    start = max(first, at - _BEFORE_CHARS)
    end = min(last, start + _SHOWN_CHARS)
    return f"{'… ' if start > first else ''}{text[start:end].strip()}{' …' if end < last else ''}"
