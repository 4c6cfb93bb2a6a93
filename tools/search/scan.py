"""The process that searches bytes for matching lines: takes bytes, and prints JSON lists.

RE2 matches patterns that it interprets like `re`: its time is linear, and it searches a megabyte at once rather than a
line. `re` matches the others, line by line.
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

PIECE = 1 << 20
"""Number of bytes searched at a time, also of a longer line. Neighbouring pieces of a line overlap, so that no short
match is lost."""
_OVERLAP_BYTES = 1 << 12
_AROUND = 200
"""Number of bytes of a long line shown before the match. Twice as many are shown in total."""
_PROGRESS_EVERY_S = 0.2
"""Seconds between reports of the current line of a slow search."""

_NUMBERS = re.compile(rb"^\d{1,18}\t", re.MULTILINE)
_RETURNS = re.compile(rb"\r+(?=\n|\Z)")
_OTHERWISE = re.compile(r"\\[AZz]|\{,|\(\?[a-zA-Z]*[sxauL]")
"""Syntax that RE2 interprets differently, or only in text of several lines."""
_ASCII_ONLY = re.compile(r"\\[wWdDsSbB]|\(\?[a-zA-Z]*i")
"""Syntax that RE2 interprets differently in text that is not ASCII."""
_BLANKS = (b"\x0b", b"\x1c", b"\x1d", b"\x1e", b"\x1f")
"""ASCII characters that only `re` counts as blanks."""


@dataclass(frozen=True, slots=True)
class ScanBlock:
    """Many whole lines, or a piece of a longer line."""

    number: int
    """Number of the first line."""
    offset: int
    """Offset in the first line at which the data begins, in bytes."""
    again: int
    """Number of bytes at the beginning that were already searched."""
    data: bytes
    is_open: bool = False
    """Whether the last line continues after the data."""

    @property
    def next_line(self) -> int:
        """Number of the first line that does not end in the block."""
        return self.number + self.data.count(b"\n") + (not self.is_open)


class SlowLine(Exception):
    """The pattern takes too long on a line."""


class LineTimeout:
    """Time limit for a line. `re` handles signals while it searches, so an alarm interrupts it."""

    def __init__(self, seconds: float, give_up: Callable[[int], None]) -> None:
        """A line gets at least this many seconds and at most twice as many. `give_up` is called with lines that take
        longer."""
        self._give_up = give_up
        self._line = self._seen = 0
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)

    def search(self, pattern: re.Pattern[str], text: str, line: int) -> re.Match[str] | None:
        """Return the first match, or None, also if the line is skipped."""
        try:
            self._line = line
            found = pattern.search(text)
            self._line = 0
            return found
        except SlowLine:
            self._give_up(line)
            return None

    def _look(self, number: int, frame: FrameType | None) -> None:
        is_same = self._line != 0 and self._line == self._seen
        self._seen = self._line
        if is_same:
            self._line = 0
            raise SlowLine


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


MatchSpan = tuple[int, int]
"""Start of a line and of the first match in it, as byte offsets in a block."""
Search = Callable[[ScanBlock], Iterator[MatchSpan]]


def main(request_json: str) -> None:
    """Print a list for each line shown; regularly one with the number of the next line and of the bytes searched; and
    an empty one if everything was found."""
    request = json.loads(request_json)
    output = _Output(int(request["last"]), int(request["before"]), int(request["after"]), int(request["most"]))
    search, searched = searcher(request["pattern"], output.report_progress), 0
    for block in blocks(sys.stdin.buffer, int(request["first"]), int(request["offset"])):
        data = _NUMBERS.sub(b"", block.data) if request["numbered"] else block.data
        output.searched = searched
        if not output.take(replace(block, data=data), search):
            return
        searched += len(block.data) - block.again + (not block.is_open)
        output.report_progress(block.next_line, searched)
    print("[]", flush=True)


class _Output:
    """Prints matching lines with their context."""

    def __init__(self, last: int, before: int, after: int, most: int) -> None:
        self._last, self._before, self._after, self._left = last, before, after, most
        self._earlier: list[tuple[int, int, bytes]] = []
        """Unprinted lines just before the next one, as many as may be needed as context."""
        self._follow = 0
        """Number of context lines still to print after a match."""
        self.searched = 0

    def report_progress(self, line: int, searched: int | None = None) -> None:
        print(json.dumps([line, self.searched if searched is None else searched]), flush=True)

    def take(self, block: ScanBlock, search: Search) -> bool:
        """Print the matches in a block, and return whether more is wanted."""
        if block.number > self._last:
            return self._end()
        at, number, data = 0, block.number, block.data
        for start, found in search(block):
            between = data.count(b"\n", at, start)
            if not self._pass(block, at, start, number, between):
                return self._end()
            number += between
            if number > self._last:
                return self._end()
            for line in self._earlier:
                self._print(*line, None)
            end = data.find(b"\n", start)
            end = len(data) if end < 0 else end
            self._print(number, block.offset if start == 0 else 0, data[start:end], found - start)
            self._earlier, self._follow = [], self._after
            at, number = end + 1, number + 1
            if self._left <= 0:
                return False
        if at <= len(data) and not self._pass(block, at, len(data) + 1, number, data.count(b"\n", at) + 1):
            return self._end()
        return self._left > 0

    def _end(self) -> bool:
        print("[]", flush=True)
        return False

    def _pass(self, block: ScanBlock, start: int, end: int, number: int, count: int) -> bool:
        """Skip lines without matches, and return whether to continue after them."""
        if not count or not (self._follow or self._before):
            return True
        lines = block.data[start : end - 1].split(b"\n") if count <= self._follow + self._before else []
        followed = min(self._follow, count)
        head = lines[:followed] or block.data[start : end - 1].split(b"\n", followed)[:followed]
        for index, line in enumerate(head, number):
            if index > self._last:
                return False
            self._print(index, block.offset if start == 0 and index == number else 0, line, None)
        self._follow -= followed
        rest = min(count - followed, self._before)
        if rest:
            tail = block.data[start : end - 1].rsplit(b"\n", rest)[-rest:]
            first = number + count - rest
            here = [
                (index, block.offset if index == block.number else 0, line) for index, line in enumerate(tail, first)
            ]
            self._earlier = [*(self._earlier if not followed else ()), *here][-self._before :]
        elif followed:
            self._earlier = []
        return True

    def _print(self, number: int, offset: int, line: bytes, found: int | None) -> None:
        at = -1
        if len(line) > 4 * _AROUND or offset:
            start = max((found or 0) - _AROUND, 0)
            at, line = offset + start, line[start : start + 2 * _AROUND]
        text = line.decode("utf-8", "replace")
        print(json.dumps([number, text, found is not None, at]), flush=found is not None)
        self._left -= len(text) + 8


def searcher(
    pattern: str, reached: Callable[[int], None], *, ignore_case: bool = False, patience: LineTimeout | None = None
) -> Search:
    """Return the function that finds matching lines in a block. `reached` gets the current line of a slow search.
    Without `patience`, a line may take forever."""
    by_line, by_block = _by_line(pattern, reached, ignore_case, patience), _by_block(pattern, ignore_case)
    if by_block is None:
        return by_line
    needs_plain = ignore_case or _ASCII_ONLY.search(pattern) is not None

    def search(block: ScanBlock) -> Iterator[MatchSpan]:
        if block.data.isascii():
            is_fit = not needs_plain or not any(blank in block.data for blank in _BLANKS)
        else:
            is_fit = not needs_plain and _is_text(block.data)
        return by_block(block) if is_fit else by_line(block)

    return search


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _by_block(pattern: str, ignore_case: bool) -> Search | None:
    """Return a search with RE2, or None if it is not installed or would interpret the pattern differently from `re`."""
    if _OTHERWISE.search(pattern):
        return None
    try:
        import re2  # noqa: PLC0415  # deferred: only needed in this process
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors, options.never_nl, options.case_sensitive = False, True, not ignore_case
    with suppress(re2.error):
        return _found_by(re2.compile(f"(?m:{pattern})", options).search)
    return None


def _found_by(search: Callable[[bytes, int], re.Match[bytes] | None]) -> Search:
    def found(block: ScanBlock) -> Iterator[MatchSpan]:
        data, at = block.data, 0
        while at <= len(data):
            match = search(data, at)
            if match is None:
                return
            if block.again and match.end() <= block.again:
                at = max(match.end(), at + 1)
                continue
            start = data.rfind(b"\n", 0, match.start()) + 1
            yield start, match.start()
            end = data.find(b"\n", match.start())
            at = len(data) + 1 if end < 0 else end + 1

    return found


def _by_line(
    pattern: str, reached: Callable[[int], None], ignore_case: bool = False, patience: LineTimeout | None = None
) -> Search:
    compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)

    def found(block: ScanBlock) -> Iterator[MatchSpan]:
        at, told = 0, time.monotonic()
        for number, line in enumerate(block.data.split(b"\n"), block.number):
            text = line.decode("utf-8", "replace")
            again = len(line[: block.again].decode("utf-8", "replace")) if at == 0 and block.again else 0
            match = patience.search(compiled, text, number) if patience else compiled.search(text)
            if match is not None and again and match.end() <= again:
                match = next((each for each in compiled.finditer(text) if each.end() > again), None)
            if match is not None:
                yield at, at + len(text[: match.start()].encode("utf-8", "replace"))
            if time.monotonic() - told > _PROGRESS_EVERY_S:
                told = time.monotonic()
                reached(number + 1)
            at += len(line) + 1

    return found


def blocks(stream: Readable, number: int, offset: int = 0) -> Iterator[ScanBlock]:
    """Yield whole lines without the final newline, and pieces of longer lines. `offset`: bytes of the first line before
    the stream."""
    held, again = b"", 0
    while chunk := stream.read(PIECE):
        data = held + chunk
        end = data.rfind(b"\n")
        if end >= 0:
            lines = data[:end]
            yield ScanBlock(number, offset, again, _plain(lines))
            number, held, offset, again = number + lines.count(b"\n") + 1, data[end + 1 :], 0, 0
        elif len(data) >= PIECE:
            yield ScanBlock(number, offset, again, _plain(data), is_open=True)
            held = data[-_OVERLAP_BYTES:]
            offset, again = offset + len(data) - len(held), len(held)
        else:
            held = data
    if len(held) > again or offset:
        yield ScanBlock(number, offset, again, _plain(held))


def _plain(data: bytes) -> bytes:
    return _RETURNS.sub(b"", data) if b"\r" in data else data
