"""Splits output into lines of limited size. No I/O."""

from dataclasses import dataclass
from typing import TypeAlias

_MAX_EDGE_BYTES = 4096
"""Number of bytes stored from each end of a line that is too long."""


@dataclass(frozen=True, slots=True)
class TruncatedLine:
    """The start and end of a line that was too long."""

    head: bytes
    tail: bytes
    byte_count: int


OutputLine: TypeAlias = bytes | bytearray | TruncatedLine


class LineBuffer:
    """Collects bytes and returns complete lines. Buffers at most one line, of up to `max_line_bytes` bytes."""

    def __init__(self, max_line_bytes: int, separator: bytes = b"\n") -> None:
        self._max_line_bytes = max_line_bytes
        self._separator = separator
        self._buffer = bytearray()
        self._tail = b""
        """The end of a line that is too long. `_buffer` is then its beginning."""
        self.size = 0
        """Number of bytes of the incomplete line."""

    @property
    def problem(self) -> str:
        """Why reading should stop: a line is longer than twice the limit for truncation. Empty if reading can
        continue."""
        return f"a line of more than {2 * self._max_line_bytes:,} bytes" if self.size > 2 * self._max_line_bytes else ""

    def feed(self, chunk: bytes) -> list[OutputLine]:
        *complete_lines, unfinished = chunk.split(self._separator)
        lines: list[OutputLine] = []
        for line in complete_lines:
            if self.size or len(line) > self._max_line_bytes:
                self._add(line)
                lines.append(self._finish_line())
            else:
                lines.append(line)
        self._add(unfinished)
        return lines

    def _add(self, data: bytes) -> None:
        if not data:
            return
        self.size += len(data)
        if self.size <= self._max_line_bytes:
            self._buffer += data
            return
        if not self._tail:
            self._tail = bytes(self._buffer[-_MAX_EDGE_BYTES:])
            self._buffer = self._buffer[:_MAX_EDGE_BYTES]
            self._buffer += data[: _MAX_EDGE_BYTES - len(self._buffer)]
        self._tail = (self._tail + data[-_MAX_EDGE_BYTES:])[-_MAX_EDGE_BYTES:]

    def _finish_line(self) -> OutputLine:
        line = TruncatedLine(bytes(self._buffer), self._tail, self.size) if self._tail else self._buffer
        self._buffer, self._tail, self.size = bytearray(), b"", 0
        return line
