"""Lines out of what a program prints, none of them larger than agreed. Pure; it knows no protocol."""

from dataclasses import dataclass

_KEPT = 4096
"""Bytes of the beginning and of the end of a line that is too long."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line of which only both ends were kept."""

    head: bytes
    tail: bytes
    size: int


class Lines:
    """Takes bytes as they come and gives the lines that are complete. Holds at most one line of `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._tail = b""
        self.size = 0
        """Bytes of the line that is not complete yet."""

    def take(self, chunk: bytes) -> list[bytes | TooLong]:
        *ended, rest = chunk.split(b"\n")
        lines = []
        for part in ended:
            self._add(part)
            lines.append(self._finished())
        self._add(rest)
        return lines

    def _add(self, part: bytes) -> None:
        if not part:
            return
        self.size += len(part)
        if self.size <= self._most:
            self._parts.append(part)
            return
        if not self._tail:
            whole = b"".join(self._parts)
            self._parts = [(whole + part[:_KEPT])[:_KEPT]]
            self._tail = whole[-_KEPT:]
        self._tail = (self._tail + part[-_KEPT:])[-_KEPT:]

    def _finished(self) -> bytes | TooLong:
        whole = b"".join(self._parts)
        line = TooLong(whole, self._tail, self.size) if self._tail else whole
        self._parts, self._tail, self.size = [], b"", 0
        return line
