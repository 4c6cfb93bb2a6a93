"""The process that searches bytes for matching lines. It reads bytes from standard input and prints JSON lists.

RE2 is used for patterns that it interprets as `re` does. It takes linear time and can search a megabyte at once. All
other patterns are matched by `re`, line by line.
"""

import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from types import FrameType
from typing import Protocol

PIECE_BYTES = 1 << 20
"""Number of bytes searched at a time, even within a longer line. Neighbouring pieces of a line overlap, so that no
short match is missed."""
_OVERLAP_BYTES = 1 << 12
_BYTES_BEFORE_MATCH = 200
"""Number of bytes shown before a match in a long line; in total, twice as many are shown."""
_PROGRESS_EVERY_S = 0.2
"""Seconds between two reports of the line that a slow search has reached."""

_LINE_NUMBERS = re.compile(rb"^\d{1,18}\t", re.MULTILINE)
_CARRIAGE_RETURNS = re.compile(rb"\r+(?=\n|\Z)")
_RE2_DIFFERENCES = re.compile(r"\\[AZz]|\{,|\(\?[a-zA-Z]*[sxauL]")
"""Matches syntax that RE2 interprets differently, always or in text with several lines."""
_RE2_NON_ASCII_DIFFERENCES = re.compile(r"\\[wWdDsSbB]|\(\?[a-zA-Z]*i")
"""Matches syntax that RE2 interprets differently in text that is not ASCII."""
_WHITESPACE_ONLY_FOR_RE = (b"\x0b", b"\x1c", b"\x1d", b"\x1e", b"\x1f")
"""ASCII characters that `re` treats as whitespace but RE2 does not."""


@dataclass(frozen=True, slots=True)
class ScanBlock:
    """Several complete lines, or a piece of a longer line."""

    first_line: int
    """Number of the first line."""
    offset: int
    """Offset in bytes within the first line at which the data begins."""
    overlap: int
    """Number of bytes at the beginning that have already been searched."""
    data: bytes
    ends_mid_line: bool = False
    """Whether the last line continues after the data."""

    @property
    def next_line(self) -> int:
        """Number of the first line that does not end in the block."""
        return self.first_line + self.data.count(b"\n") + (not self.ends_mid_line)


class SlowLineError(Exception):
    """Raised if the pattern takes too long on a line."""


class LineTimeout:
    """A time limit for a line. `re` handles signals during a search, so an alarm can interrupt it."""

    def __init__(self, seconds: float, on_slow_line: Callable[[int], None]) -> None:
        """`seconds`: interval of the alarm. A line is skipped after one to two intervals. `on_slow_line`: called with
        the number of each skipped line."""
        self._on_slow_line = on_slow_line
        self._current_line = self._line_at_last_alarm = 0
        signal.signal(signal.SIGALRM, self._on_alarm)
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)

    def search(self, pattern: re.Pattern[str], text: str, line: int) -> re.Match[str] | None:
        """Find the first match. None if there is none or the line is skipped."""
        try:
            self._current_line = line
            match = pattern.search(text)
            self._current_line = 0
            return match
        except SlowLineError:
            self._on_slow_line(line)
            return None

    def _on_alarm(self, signal_number: int, frame: FrameType | None) -> None:
        is_same_line = self._current_line != 0 and self._current_line == self._line_at_last_alarm
        self._line_at_last_alarm = self._current_line
        if is_same_line:
            self._current_line = 0
            raise SlowLineError


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


MatchSpan = tuple[int, int]
"""Byte offsets in a block: where a line starts, and where its first match starts."""
BlockSearch = Callable[[ScanBlock], Iterator[MatchSpan]]


def main(request_json: str) -> None:
    """Print a list for each line shown. At intervals, also print a list with the number of the next line and the number
    of bytes searched. Print an empty list at the end, unless the search stopped early."""
    request = json.loads(request_json)
    printer = _MatchPrinter(
        int(request["last_line"]), int(request["before"]), int(request["after"]), int(request["max_bytes"])
    )
    search = block_searcher(request["pattern"], printer.report_progress)
    searched_bytes = 0
    for block in read_blocks(sys.stdin.buffer, int(request["first_line"]), int(request["offset"])):
        data = _LINE_NUMBERS.sub(b"", block.data) if request["numbered"] else block.data
        printer.searched_bytes = searched_bytes
        if not printer.print_matches(replace(block, data=data), search):
            return
        searched_bytes += len(block.data) - block.overlap + (not block.ends_mid_line)
        printer.report_progress(block.next_line, searched_bytes)
    print("[]", flush=True)


class _MatchPrinter:
    """Prints matching lines with their context."""

    def __init__(self, last_line: int, lines_before: int, lines_after: int, max_bytes: int) -> None:
        self._last_line = last_line
        self._lines_before, self._lines_after = lines_before, lines_after
        self._remaining_bytes = max_bytes
        self._context_before: list[tuple[int, int, bytes]] = []
        """Unprinted lines just before the current position, as many as the context may need."""
        self._context_lines_due = 0
        """Number of context lines that are still to be printed after a match."""
        self.searched_bytes = 0

    def report_progress(self, line: int, searched_bytes: int | None = None) -> None:
        print(json.dumps([line, self.searched_bytes if searched_bytes is None else searched_bytes]), flush=True)

    def print_matches(self, block: ScanBlock, search: BlockSearch) -> bool:
        """Print the matches in a block; return whether to continue with the next block."""
        if block.first_line > self._last_line:
            return self._finish()
        number, data = block.first_line, block.data
        offset = 0
        for line_start, match_start in search(block):
            newline_count = data.count(b"\n", offset, line_start)
            if not self._skip_lines(block, offset, line_start, number, newline_count):
                return self._finish()
            number += newline_count
            if number > self._last_line:
                return self._finish()
            for line in self._context_before:
                self._print(*line, None)
            line_end = data.find(b"\n", line_start)
            line_end = len(data) if line_end < 0 else line_end
            self._print(
                number, block.offset if line_start == 0 else 0, data[line_start:line_end], match_start - line_start
            )
            self._context_before, self._context_lines_due = [], self._lines_after
            offset, number = line_end + 1, number + 1
            if self._remaining_bytes <= 0:
                return False
        if offset <= len(data) and not self._skip_lines(
            block, offset, len(data) + 1, number, data.count(b"\n", offset) + 1
        ):
            return self._finish()
        return self._remaining_bytes > 0

    def _finish(self) -> bool:
        print("[]", flush=True)
        return False

    def _skip_lines(self, block: ScanBlock, start: int, end: int, number: int, line_count: int) -> bool:
        """Handle lines without matches, and print those that are context. Return False after the last line of the
        range."""
        if not line_count or not (self._context_lines_due or self._lines_before):
            return True
        lines = (
            block.data[start : end - 1].split(b"\n")
            if line_count <= self._context_lines_due + self._lines_before
            else []
        )
        after_count = min(self._context_lines_due, line_count)
        head = lines[:after_count] or block.data[start : end - 1].split(b"\n", after_count)[:after_count]
        for line_number, line in enumerate(head, number):
            if line_number > self._last_line:
                return False
            self._print(line_number, block.offset if start == 0 and line_number == number else 0, line, None)
        self._context_lines_due -= after_count
        before_count = min(line_count - after_count, self._lines_before)
        if before_count:
            tail = block.data[start : end - 1].rsplit(b"\n", before_count)[-before_count:]
            first = number + line_count - before_count
            pending_context = [
                (line_number, block.offset if line_number == block.first_line else 0, line)
                for line_number, line in enumerate(tail, first)
            ]
            self._context_before = [*(self._context_before if not after_count else ()), *pending_context][
                -self._lines_before :
            ]
        elif after_count:
            self._context_before = []
        return True

    def _print(self, number: int, offset: int, line: bytes, match_offset: int | None) -> None:
        cut_offset = -1
        if len(line) > 4 * _BYTES_BEFORE_MATCH or offset:
            start = max((match_offset or 0) - _BYTES_BEFORE_MATCH, 0)
            cut_offset, line = offset + start, line[start : start + 2 * _BYTES_BEFORE_MATCH]
        text = line.decode("utf-8", "replace")
        print(json.dumps([number, text, match_offset is not None, cut_offset]), flush=match_offset is not None)
        self._remaining_bytes -= len(text) + 8


def block_searcher(
    pattern: str,
    on_progress: Callable[[int], None],
    *,
    ignore_case: bool = False,
    line_timeout: LineTimeout | None = None,
) -> BlockSearch:
    """Create a function that finds the matching lines in a block. `on_progress`: called with the current line of a slow
    search. `line_timeout`: without it, a line may take any amount of time."""
    by_line = _create_line_searcher(pattern, on_progress, ignore_case, line_timeout)
    by_block = _re2_searcher(pattern, ignore_case)
    if by_block is None:
        return by_line
    needs_ascii = ignore_case or _RE2_NON_ASCII_DIFFERENCES.search(pattern) is not None

    def search(block: ScanBlock) -> Iterator[MatchSpan]:
        if block.data.isascii():
            can_use_re2 = not needs_ascii or not any(character in block.data for character in _WHITESPACE_ONLY_FOR_RE)
        else:
            can_use_re2 = not needs_ascii and is_utf8(block.data)
        return by_block(block) if can_use_re2 else by_line(block)

    return search


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _re2_searcher(pattern: str, ignore_case: bool) -> BlockSearch | None:
    """Create a search that uses RE2. None if RE2 is not installed or would interpret the pattern differently from
    `re`."""
    if _RE2_DIFFERENCES.search(pattern):
        return None
    try:
        import re2  # noqa: PLC0415  # deferred: only needed in this process
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors, options.never_nl, options.case_sensitive = False, True, not ignore_case
    with suppress(re2.error):
        return _searcher_from(re2.compile(f"(?m:{pattern})", options).search)
    return None


def _searcher_from(search: Callable[[bytes, int], re.Match[bytes] | None]) -> BlockSearch:
    def find_lines(block: ScanBlock) -> Iterator[MatchSpan]:
        data = block.data
        offset = 0
        while offset <= len(data):
            match = search(data, offset)
            if match is None:
                return
            if block.overlap and match.end() <= block.overlap:
                offset = max(match.end(), offset + 1)
                continue
            start = data.rfind(b"\n", 0, match.start()) + 1
            yield start, match.start()
            end = data.find(b"\n", match.start())
            offset = len(data) + 1 if end < 0 else end + 1

    return find_lines


def _create_line_searcher(
    pattern: str, on_progress: Callable[[int], None], ignore_case: bool = False, line_timeout: LineTimeout | None = None
) -> BlockSearch:
    compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)

    def find_lines(block: ScanBlock) -> Iterator[MatchSpan]:
        offset = 0
        last_report = time.monotonic()
        for number, line in enumerate(block.data.split(b"\n"), block.first_line):
            text = line.decode("utf-8", "replace")
            overlap_chars = (
                len(line[: block.overlap].decode("utf-8", "replace")) if offset == 0 and block.overlap else 0
            )
            match = line_timeout.search(compiled, text, number) if line_timeout else compiled.search(text)
            if match is not None and overlap_chars and match.end() <= overlap_chars:
                match = next((later for later in compiled.finditer(text) if later.end() > overlap_chars), None)
            if match is not None:
                yield offset, offset + len(text[: match.start()].encode("utf-8", "replace"))
            if time.monotonic() - last_report > _PROGRESS_EVERY_S:
                last_report = time.monotonic()
                on_progress(number + 1)
            offset += len(line) + 1

    return find_lines


def read_blocks(stream: Readable, line_number: int, offset: int = 0) -> Iterator[ScanBlock]:
    """Yield complete lines without the last newline, and pieces of longer lines. `offset`: number of bytes of the first
    line that come before the stream."""
    unfinished, overlap = b"", 0
    while chunk := stream.read(PIECE_BYTES):
        data = unfinished + chunk
        end = data.rfind(b"\n")
        if end >= 0:
            lines = data[:end]
            yield ScanBlock(line_number, offset, overlap, _without_carriage_returns(lines))
            line_number += lines.count(b"\n") + 1
            unfinished = data[end + 1 :]
            offset = 0
            overlap = 0
        elif len(data) >= PIECE_BYTES:
            yield ScanBlock(line_number, offset, overlap, _without_carriage_returns(data), ends_mid_line=True)
            unfinished = data[-_OVERLAP_BYTES:]
            offset, overlap = offset + len(data) - len(unfinished), len(unfinished)
        else:
            unfinished = data
    if len(unfinished) > overlap or offset:
        yield ScanBlock(line_number, offset, overlap, _without_carriage_returns(unfinished))


def _without_carriage_returns(data: bytes) -> bytes:
    return _CARRIAGE_RETURNS.sub(b"", data) if b"\r" in data else data
