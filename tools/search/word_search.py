"""Searches stored content of any size for words, piece by piece and with a time limit."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ebbtide.tools.outputs.stored_content import Content

PIECE_BYTES = 1 << 18
"""Number of bytes searched at once. Searching them blocks the process."""
_OVERLAP_BYTES = 1 << 10
"""Number of bytes by which neighbouring pieces overlap, so that no short match is missed."""
_INCOMPLETE_CHARS = 4
"""Number of characters at the beginning of a piece that might be incomplete. The previous piece contains them in
full."""
_CHARS_BEFORE_MATCH, _MAX_EXCERPT_CHARS = 80, 200
"""Number of characters shown before a match, and in total."""
_TOKEN = re.compile(r"[^\W_]+")
_NAME_WORD_BOUNDARY = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Matches the boundary between two words in a name."""
_NAME = re.compile(r"\w+(?:-\w+)*")
_SINGLE_CASE_RUN = re.compile(r"[a-z0-9]+|[^\x00-\x7f]+")
"""Matches a run of lower-case ASCII letters and digits, or of non-ASCII characters."""


@dataclass(frozen=True, slots=True)
class ScanResult:
    """How far the content was searched, and what was found."""

    lines: tuple[tuple[int, str], ...] = ()
    """Number and text of the first line with each word, in line order. The text may be shortened."""
    has_found_all: bool = False
    """Whether all words were found."""
    searched_bytes: int = 0
    """Number of bytes searched, counted from the beginning."""


def scan_words(content: Content, words: Sequence[str], should_stop: Callable[[], bool]) -> ScanResult:
    """Search content for all of the words until `should_stop` returns True. Case is ignored, and a match must be at the
    start of a word. Errors from reading the content are passed on."""
    words_not_found = [_WordMatcher(word) for word in words if _TOKEN.search(word)]
    text_by_line = dict[int, str]()
    searched_bytes = 0
    for start, newline_count, data in _pieces(content):
        lower_data = data.lower()
        for word in [word for word in words_not_found if word.may_occur_in(lower_data)]:
            text = data.decode("utf-8", "replace")
            lower_text = text.lower()
            offset = word.find(lower_text, _INCOMPLETE_CHARS if start else 0)
            if offset is not None:
                line_number = newline_count + lower_text.count("\n", 0, offset) + 1
                same_length_text = text if len(text) == len(lower_text) else lower_text
                text_by_line.setdefault(line_number, _line_around(same_length_text, offset))
                words_not_found.remove(word)
        searched_bytes = start + len(data)
        if not words_not_found or should_stop():
            break
    return ScanResult(tuple(sorted(text_by_line.items())), not words_not_found, searched_bytes)


class _WordMatcher:
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

    def may_occur_in(self, lower_data: bytes) -> bool:
        """Whether the word may occur in the data. `lower_data`: the data with ASCII letters in lower case."""
        return self._required_bytes in lower_data

    def find(self, lower_text: str, min_offset: int) -> int | None:
        """Find the first offset, at or after `min_offset`, at which the word occurs at the start of a word. None if
        there is none."""
        offsets = (match.start() for match in self._pattern.finditer(lower_text, min_offset))
        return next((offset for offset in offsets if offset == 0 or not lower_text[offset - 1].isalnum()), None)


def _pieces(content: Content) -> Iterator[tuple[int, int, bytes]]:
    """Yield the pieces of the content, each with its offset and the number of newlines before it."""
    overlap, start, newline_count = b"", 0, 0
    for chunk in content.chunks():
        for offset in range(0, len(chunk), PIECE_BYTES):
            data = overlap + chunk[offset : offset + PIECE_BYTES]
            yield start, newline_count, data
            overlap = data[-_OVERLAP_BYTES:]
            passed_bytes = len(data) - len(overlap)
            newline_count += data.count(b"\n", 0, passed_bytes)
            start += passed_bytes


def _line_around(text: str, offset: int) -> str:
    """Return the line around an offset, possibly shortened."""
    line_start, line_end = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
    line_end = len(text) if line_end < 0 else line_end
    start = max(line_start, offset - _CHARS_BEFORE_MATCH)
    end = min(line_end, start + _MAX_EXCERPT_CHARS)
    return f"{'… ' if start > line_start else ''}{text[start:end].strip()}{' …' if end < line_end else ''}"
