"""Searches stored content of any size for words, piece by piece and with a time limit."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ebbtide.tools.outputs.stored import Content

PIECE_BYTES = 1 << 18
"""Number of bytes searched at once. The rest of the process is blocked meanwhile."""
_OVERLAP_BYTES = 1 << 10
"""Number of bytes by which neighbouring pieces overlap, so that no short match is missed."""
_INCOMPLETE_CHARS = 4
"""Number of characters at the beginning of a piece that may be incomplete. The previous piece contains them completely.
"""
_CHARS_BEFORE_MATCH, _MAX_EXCERPT_CHARS = 80, 200
"""Number of characters shown before a match, and number shown in total."""
_TOKEN = re.compile(r"[^\W_]+")
_NAME_WORD_BOUNDARY = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""The boundary between two words of a name."""
_NAME = re.compile(r"\w+(?:-\w+)*")
_SINGLE_CASE_RUN = re.compile(r"[a-z0-9]+|[^\x00-\x7f]+")
"""Runs of lower-case ASCII letters and digits, or of other characters."""


@dataclass(frozen=True, slots=True)
class ScanResult:
    """How far the content was searched, and what was found."""

    lines: tuple[tuple[int, str], ...] = ()
    """Number and text of the first line that contains each word, in order of lines; the text may be shortened."""
    is_found: bool = False
    """Whether all words were found."""
    searched_bytes: int = 0
    """Number of bytes searched, from the beginning."""


def scan_words(content: Content, words: Sequence[str], should_stop: Callable[[], bool]) -> ScanResult:
    """Search content for all of the words until `should_stop` returns True. Case is ignored, and a match must be at the
    start of a word. Raises what reading the content raises."""
    words_not_found = [_Word(word) for word in words if _TOKEN.search(word)]
    found, searched = dict[int, str](), 0
    for start, newlines, data in _pieces(content):
        small = data.lower()
        for word in [one for one in words_not_found if one.may_occur_in(small)]:
            text = data.decode("utf-8", "replace")
            low = text.lower()
            at = word.find(low, _INCOMPLETE_CHARS if start else 0)
            if at is not None:
                number = newlines + low.count("\n", 0, at) + 1
                found.setdefault(number, _line(text if len(text) == len(low) else low, at))
                words_not_found.remove(word)
        searched = start + len(data)
        if not words_not_found or should_stop():
            break
    return ScanResult(tuple(sorted(found.items())), not words_not_found, searched)


class _Word:
    """One word or several consecutive words, with a quick test that rules out most data. The parts of a name, such as
    `user_name` or `userName`, may also be joined or separated in the text."""

    def __init__(self, word: str) -> None:
        is_name = _NAME.fullmatch(word) is not None
        tokens = [token.lower() for token in _TOKEN.findall(_NAME_WORD_BOUNDARY.sub("_", word) if is_name else word)]
        self._pattern = re.compile((r"[\W_]*" if is_name else r"[\W_]+").join(map(re.escape, tokens)))
        runs = [
            run for token in tokens for run in _SINGLE_CASE_RUN.findall(token) if run.isascii() or run == run.upper()
        ]
        self._required_bytes = max((run.encode() for run in runs), key=len, default=b"")

    def may_occur_in(self, small: bytes) -> bool:
        """Whether the word may occur in the data. `small`: the data with ASCII letters in lower case."""
        return self._required_bytes in small

    def find(self, low: str, first: int) -> int | None:
        """Return the first position, from `first` on, at which the word occurs in the lower-case text at the start of a
        word, or None."""
        starts = (match.start() for match in self._pattern.finditer(low, first))
        return next((at for at in starts if at == 0 or not low[at - 1].isalnum()), None)


def _pieces(content: Content) -> Iterator[tuple[int, int, bytes]]:
    """Yield the pieces of the content, each with its offset and the number of newlines before it."""
    overlap, start, newlines = b"", 0, 0
    for chunk in content.chunks():
        for at in range(0, len(chunk), PIECE_BYTES):
            data = overlap + chunk[at : at + PIECE_BYTES]
            yield start, newlines, data
            overlap = data[-_OVERLAP_BYTES:]
            passed = len(data) - len(overlap)
            newlines += data.count(b"\n", 0, passed)
            start += passed


def _line(text: str, at: int) -> str:
    """Return the line around a position; it may be shortened."""
    first, last = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    last = len(text) if last < 0 else last
    start = max(first, at - _CHARS_BEFORE_MATCH)
    end = min(last, start + _MAX_EXCERPT_CHARS)
    return f"{'… ' if start > first else ''}{text[start:end].strip()}{' …' if end < last else ''}"
