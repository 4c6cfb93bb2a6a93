"""Reads part of a text file that is too large for memory."""

from typing import IO

from ebbtide.tools.base import ReadLimits, ToolError
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.plain_text import cut_line

_CHUNK = 1 << 20
_BYTES_A_CHARACTER = 4
MAX_SCANNED_BYTES = 1 << 30
"""Bytes after which lines are neither searched nor counted: it would take minutes and cannot be interrupted."""


@dataclass(frozen=True, slots=True)
class LargePage:
    text: str
    last: int
    """Number of the last line shown."""
    lines: int | None
    """Number of lines in the file, or None if they were not all counted."""


def page_of_file(file: IO[bytes], name: str, offset: int, limit: int, limits: ReadLimits) -> LargePage:
    """Return numbered lines from `offset`, as many as fit but at least one, with bounded memory. Raises `ToolError` if
    the file ends before them, or they are too far from its beginning."""
    passed, start = _start_of(file, offset)
    file.seek(start)
    shown, size, number = list[str](), 0, offset
    while (
        number < offset + limit
        and file.tell() < MAX_SCANNED_BYTES
        and (line := _line(file, limits.longest_line)) is not None
    ):
        numbered = f"{number}\t{line}"
        size += len(numbered.encode()) + 1
        if size > limits.most_bytes and shown:
            break
        shown.append(numbered)
        number += 1
    if not shown and start >= MAX_SCANNED_BYTES:
        where = f"its first {MAX_SCANNED_BYTES / 1e9:.1f} GB, which hold {passed:,} lines"
        raise ToolError(f"line {offset:,} of `{name}` is beyond {where}: look at it in bash, with tail or sed")
    if not shown:
        raise ToolError(f"`{name}` has {pluralize(passed, 'line')}: offset={offset} is beyond its end")
    file.seek(start)
    count = _lines_from(file)
    return LargePage("\n".join(shown), number - 1, None if count is None else offset - 1 + count)


def _start_of(file: IO[bytes], line: int) -> tuple[int, int]:
    """Return how many lines precede a line, at most all there are, and the offset where it begins."""
    file.seek(0)
    at, left, is_open = 0, line - 1, False
    while left > 0 and at < MAX_SCANNED_BYTES and (chunk := file.read(_CHUNK)):
        count = chunk.count(b"\n")
        if count >= left:
            place = -1
            for _ in range(left):
                place = chunk.index(b"\n", place + 1)
            return line - 1, at + place + 1
        left, at, is_open = left - count, at + len(chunk), not chunk.endswith(b"\n")
    return line - 1 - left + is_open, at


def _line(file: IO[bytes], longest: int) -> str | None:
    """Return the next line, cut if it is too long, or None at the end."""
    most = longest * _BYTES_A_CHARACTER
    raw = file.readline(most)
    if not raw:
        return None
    left_out = 0
    while not raw.endswith(b"\n") and file.tell() < MAX_SCANNED_BYTES and (more := file.readline(_CHUNK)):
        left_out += len(more)
        if more.endswith(b"\n"):
            break
    more_follow = " and more" if left_out and file.tell() >= MAX_SCANNED_BYTES else ""
    line = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
    return (
        f"{line[:longest]}… [cut: {len(raw) + left_out:,} bytes{more_follow}]" if left_out else cut_line(line, longest)
    )


def _lines_from(file: IO[bytes]) -> int | None:
    """Return the number of lines from the current position, or None if the end is too far away."""
    count, last = 0, b"\n"
    while chunk := file.read(_CHUNK):
        count, last = count + chunk.count(b"\n"), chunk[-1:]
        if file.tell() >= MAX_SCANNED_BYTES:
            return None
    return count + (last != b"\n")
