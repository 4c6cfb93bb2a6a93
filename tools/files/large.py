"""Reads part of a text file that is too large to load into memory."""

from typing import IO

from ebbtide.tools.base import ReadLimits, ToolError
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.plain_text import truncate_line

_CHUNK_BYTES = 1 << 20
_MAX_BYTES_PER_CHARACTER = 4
MAX_SCANNED_BYTES = 1 << 30
"""Offset in bytes beyond which lines are neither searched nor counted. Reading further would take minutes and could not
be interrupted."""


@dataclass(frozen=True, slots=True)
class LargePage:
    text: str
    last_line: int
    """Number of the last line shown."""
    line_count: int | None
    """Number of lines in the file; None if not all of them were counted."""


def read_numbered_page(file: IO[bytes], name: str, offset: int, limit: int, limits: ReadLimits) -> LargePage:
    """Read numbered lines from `offset` on: as many as fit, but at least one. Memory use is bounded. Raises `ToolError`
    if the file has no line `offset`, or if that line is too far from the beginning."""
    preceding_count, start = _find_line_start(file, offset)
    file.seek(start)
    page, page_bytes, number = list[str](), 0, offset
    while (
        number < offset + limit
        and file.tell() < MAX_SCANNED_BYTES
        and (line := _read_line(file, limits.max_line_chars)) is not None
    ):
        numbered = f"{number}\t{line}"
        page_bytes += len(numbered.encode()) + 1
        if page_bytes > limits.max_bytes and page:
            break
        page.append(numbered)
        number += 1
    if not page and start >= MAX_SCANNED_BYTES:
        limit_text = f"its first {MAX_SCANNED_BYTES / 1e9:.1f} GB, which contain {preceding_count:,} lines"
        raise ToolError(f"line {offset:,} of `{name}` is beyond {limit_text}: look at it in bash, with tail or sed")
    if not page:
        raise ToolError(f"`{name}` has {pluralize(preceding_count, 'line')}: offset={offset} is beyond its end")
    file.seek(start)
    remaining_count = _count_remaining_lines(file)
    return LargePage("\n".join(page), number - 1, None if remaining_count is None else offset - 1 + remaining_count)


def _find_line_start(file: IO[bytes], line_number: int) -> tuple[int, int]:
    """Return how many lines precede a line, and the offset at which it begins. If the file is shorter than that, count
    all its lines."""
    file.seek(0)
    offset, remaining_lines, ends_mid_line = 0, line_number - 1, False
    while remaining_lines > 0 and offset < MAX_SCANNED_BYTES and (chunk := file.read(_CHUNK_BYTES)):
        newline_count = chunk.count(b"\n")
        if newline_count >= remaining_lines:
            newline = -1
            for _ in range(remaining_lines):
                newline = chunk.index(b"\n", newline + 1)
            return line_number - 1, offset + newline + 1
        remaining_lines -= newline_count
        offset += len(chunk)
        ends_mid_line = not chunk.endswith(b"\n")
    return line_number - 1 - remaining_lines + ends_mid_line, offset


def _read_line(file: IO[bytes], max_chars: int) -> str | None:
    """Return the next line, truncated if it is too long; None at the end of the file."""
    max_bytes = max_chars * _MAX_BYTES_PER_CHARACTER
    raw = file.readline(max_bytes)
    if not raw:
        return None
    omitted_bytes = 0
    while not raw.endswith(b"\n") and file.tell() < MAX_SCANNED_BYTES and (more := file.readline(_CHUNK_BYTES)):
        omitted_bytes += len(more)
        if more.endswith(b"\n"):
            break
    suffix = " and more" if omitted_bytes and file.tell() >= MAX_SCANNED_BYTES else ""
    line = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
    return (
        f"{line[:max_chars]}… [cut: {len(raw) + omitted_bytes:,} bytes{suffix}]"
        if omitted_bytes
        else truncate_line(line, max_chars)
    )


def _count_remaining_lines(file: IO[bytes]) -> int | None:
    """Count the lines from the current position on. None if the end is beyond `MAX_SCANNED_BYTES`."""
    count, last_byte = 0, b"\n"
    while chunk := file.read(_CHUNK_BYTES):
        count, last_byte = count + chunk.count(b"\n"), chunk[-1:]
        if file.tell() >= MAX_SCANNED_BYTES:
            return None
    return count + (last_byte != b"\n")
