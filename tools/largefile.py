"""A part of a text file that is too large to be held in memory, as `read` shows it."""

from dataclasses import dataclass
from typing import IO

from tools.base import ReadLimits, ToolError
from tools.truncate import cut_line

_CHUNK = 1 << 20
_BYTES_A_CHARACTER = 4


@dataclass(frozen=True, slots=True)
class LargePage:
    text: str
    last: int
    """The number of the last line shown."""
    lines: int
    """How many the file has."""


def page_of_file(file: IO[bytes], name: str, offset: int, limit: int, limits: ReadLimits) -> LargePage:
    """Numbered lines from `offset`, as many as fit, but always one. No more of the file than that is ever held. Raises
    `ToolError` when it ends before them."""
    passed, start = _start_of(file, offset)
    file.seek(start)
    shown, size, number = list[str](), 0, offset
    while number < offset + limit and (line := _line(file, limits.longest_line)) is not None:
        numbered = f"{number}\t{line}"
        size += len(numbered.encode()) + 1
        if size > limits.most_bytes and shown:
            break
        shown.append(numbered)
        number += 1
    if not shown:
        raise ToolError(f"`{name}` has {passed:,} lines: offset={offset} is beyond its end")
    file.seek(start)
    return LargePage("\n".join(shown), number - 1, offset - 1 + _lines_from(file))


def _start_of(file: IO[bytes], line: int) -> tuple[int, int]:
    """How many lines stand before a line, at most all there are, and at which byte it begins."""
    file.seek(0)
    at, left, is_open = 0, line - 1, False
    while left > 0 and (chunk := file.read(_CHUNK)):
        count = chunk.count(b"\n")
        if count >= left:
            place = -1
            for _ in range(left):
                place = chunk.index(b"\n", place + 1)
            return line - 1, at + place + 1
        left, at, is_open = left - count, at + len(chunk), not chunk.endswith(b"\n")
    return line - 1 - left + is_open, at


def _line(file: IO[bytes], longest: int) -> str | None:
    """The next line, cut where it is too long; None at the end."""
    most = longest * _BYTES_A_CHARACTER
    raw = file.readline(most)
    if not raw:
        return None
    left_out = 0
    while not raw.endswith(b"\n") and (more := file.readline(_CHUNK)):
        left_out += len(more)
        if more.endswith(b"\n"):
            break
    line = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
    return f"{line[:longest]}… [cut: {len(raw) + left_out:,} bytes]" if left_out else cut_line(line, longest)


def _lines_from(file: IO[bytes]) -> int:
    """How many lines there are from where the file stands."""
    count, last = 0, b"\n"
    while chunk := file.read(_CHUNK):
        count, last = count + chunk.count(b"\n"), chunk[-1:]
    return count + (last != b"\n")
