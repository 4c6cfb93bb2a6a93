"""Splits output into lines of limited size. Pure."""

from dataclasses import dataclass
from typing import TypeAlias

_MAX_EDGE_BYTES = 4096
"""Number of bytes stored of each end of a line that is too long."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line of which only both ends were stored."""

    head: bytes
    tail: bytes
    size: int


OutputLine: TypeAlias = bytes | bytearray | TooLong


class LineBuffer:
    """Collects bytes and returns complete lines. Stores at most one line of `most` bytes."""

    def __init__(self, most: int, end: bytes = b"\n") -> None:
        self._most = most
        self._end = end
        self._held = bytearray()
        self._tail = b""
        """The end of a line that is too long. `_held` is then its beginning."""
        self.size = 0
        """Number of bytes of the incomplete line."""

    @property
    def problem(self) -> str:
        """Why reading should stop: a line twice as long as one that is merely skipped."""
        return f"a line of more than {2 * self._most:,} bytes" if self.size > 2 * self._most else ""

    def take(self, chunk: bytes) -> list[OutputLine]:
        *ended, rest = chunk.split(self._end)
        lines: list[OutputLine] = []
        for part in ended:
            if self.size or len(part) > self._most:
                self._add(part)
                lines.append(self._finish_line())
            else:
                lines.append(part)
        self._add(rest)
        return lines

    def _add(self, part: bytes) -> None:
        if not part:
            return
        self.size += len(part)
        if self.size <= self._most:
            self._held += part
            return
        if not self._tail:
            self._tail = bytes(self._held[-_MAX_EDGE_BYTES:])
            self._held = self._held[:_MAX_EDGE_BYTES]
            self._held += part[: _MAX_EDGE_BYTES - len(self._held)]
        self._tail = (self._tail + part[-_MAX_EDGE_BYTES:])[-_MAX_EDGE_BYTES:]

    def _finish_line(self) -> OutputLine:
        line = TooLong(bytes(self._held), self._tail, self.size) if self._tail else self._held
        self._held, self._tail, self.size = bytearray(), b"", 0
        return line
