"""Stored content that is no longer in context, as the tools that retrieve it read it. Storage is implemented
elsewhere."""

from collections.abc import Iterator
from typing import Protocol

from ebbtide.tools.lazy import dataclass


class Content(Protocol):
    """Stored bytes with random access. Not thread-safe, and must be closed. If bytes are damaged or unreadable, the
    first access to them raises `ToolError`."""

    @property
    def size(self) -> int: ...

    @property
    def lines(self) -> int:
        """The number of lines, including a last one without a newline."""

    def read(self, offset: int, limit: int) -> bytes: ...

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]: ...

    def line_start(self, line: int) -> int:
        """Return the offset of a line, counted from 1."""

    def line_end(self, offset: int) -> int:
        """Return the end of the line that contains an offset, without its newline."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StoredContent:
    """The content behind a reference."""

    ref: str
    content: Content
    media_type: str = "text/plain"
    lines: tuple[int, int] | None = None
    """First and last line, if the reference gives them."""
    span: tuple[int, int] | None = None
    """Start and end offset in bytes, if the reference gives them."""
    attachments: tuple[str, ...] = ()
    """References of pictures that belong to it."""
    first: int | None = None
    """The number of its first line, if its lines have numbers of their own, as those of a file have."""
    frame: str = ""
    """A note that belongs to it but is not part of its text, such as how a program ended."""
    kind: str = ""
    """A description: `output of read`, `message`, `summary`."""
    paths: tuple[str, ...] = ()
    """The files that the call was about."""
    accesses: int = 0
    """Number of earlier lookups."""
    accessed: float | None = None
    """Time of the last lookup, in Unix seconds."""
    unnumbered: int = 0
    """Number of unnumbered lines at its end, where the others are numbered: notes of the tool."""

    @property
    def last(self) -> int:
        """The number of its last line."""
        return (self.first or 1) - 1 + self.content.lines - self.unnumbered


class FramedContent:
    """Content with text appended on separate lines."""

    def __init__(self, content: Content, frame: str) -> None:
        self._content = content
        self._edge = content.size
        is_open = content.size > 0 and content.read(content.size - 1, 1) != b"\n"
        self._frame = ("\n" * is_open + frame).encode("utf-8", "surrogatepass")
        self._starts = [at + 1 for at, byte in enumerate(self._frame) if byte == 10 and at + 1 < len(self._frame)]
        if not is_open:
            self._starts.insert(0, 0)
        self.size = content.size + len(self._frame)
        self.lines = content.lines + len(self._starts)

    def read(self, offset: int, limit: int) -> bytes:
        data = self._content.read(offset, limit) if offset < self._edge else b""
        behind = max(offset - self._edge, 0)
        return data + self._frame[behind : behind + max(limit - len(data), 0)]

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        end = self.size if end is None else min(end, self.size)
        if start < min(end, self._edge):
            yield from self._content.chunks(start, min(end, self._edge))
        if end > max(start, self._edge):
            yield self._frame[max(start - self._edge, 0) : end - self._edge]

    def line_start(self, line: int) -> int:
        if line <= self._content.lines:
            return self._content.line_start(line)
        behind = line - self._content.lines - 1
        return self._edge + self._starts[behind] if behind < len(self._starts) else self.size

    def line_end(self, offset: int) -> int:
        if offset < self._edge:
            end = self._content.line_end(offset)
            if end < self._edge:
                return end
            offset = self._edge
        found = self._frame.find(b"\n", offset - self._edge)
        return self.size if found < 0 else self._edge + found

    def close(self) -> None:
        self._content.close()


class InMemory:
    """Content that is small enough to keep in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self.lines = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))

    def read(self, offset: int, limit: int) -> bytes:
        return self._data[offset : offset + limit]

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        yield self._data[start:end]

    def line_start(self, line: int) -> int:
        if line > self.lines:
            return self.size
        return self.size - len(self._data.split(b"\n", line - 1)[-1]) if line > 1 else 0

    def line_end(self, offset: int) -> int:
        found = self._data.find(b"\n", offset)
        return self.size if found < 0 else found

    def close(self) -> None:
        pass
