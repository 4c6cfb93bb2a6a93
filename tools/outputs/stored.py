"""Stored content that is no longer in context, as seen by the tools that retrieve it. Storage itself is implemented
elsewhere."""

from collections.abc import Iterator
from typing import Protocol

from ebbtide.tools.lazy import dataclass


class Content(Protocol):
    """Stored bytes with random access. Not thread-safe; must be closed. If bytes are damaged or unreadable, the first
    access to them raises `ToolError`."""

    @property
    def size(self) -> int: ...

    @property
    def lines(self) -> int:
        """The number of lines; a last line without a newline counts."""

    def read(self, offset: int, limit: int) -> bytes: ...

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]: ...

    def line_start(self, line: int) -> int:
        """Return the offset at which a line starts; lines are counted from 1."""

    def line_end(self, offset: int) -> int:
        """Return the offset at which the line that contains an offset ends, excluding its newline."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StoredContent:
    """The content behind a reference."""

    ref: str
    content: Content
    media_type: str = "text/plain"
    line_range: tuple[int, int] | None = None
    """First and last line of the part, if the reference specifies lines."""
    byte_range: tuple[int, int] | None = None
    """Start and end offset of the part, if the reference specifies bytes."""
    attachments: tuple[str, ...] = ()
    """References to the pictures that belong to the content."""
    first_line: int | None = None
    """The number of the first line, if the lines are already numbered, as in an excerpt of a file."""
    trailing_note: str = ""
    """A note that belongs to the content but is not part of its text, such as how a program ended."""
    kind: str = ""
    """What the content is: `output of read`, `message`, `summary`."""
    paths: tuple[str, ...] = ()
    """The files that the call was about."""
    access_count: int = 0
    """Number of earlier lookups."""
    last_accessed_at: float | None = None
    """Time of the last lookup, in Unix seconds."""
    unnumbered_lines: int = 0
    """Number of lines at the end that are notes from the tool and have no number although the other lines have one."""

    @property
    def last_line(self) -> int:
        """The number of the last line, not counting unnumbered ones."""
        return (self.first_line or 1) - 1 + self.content.lines - self.unnumbered_lines


class ContentWithNote:
    """Content with a note appended on separate lines."""

    def __init__(self, content: Content, frame: str) -> None:
        self._content = content
        self._content_size = content.size
        is_open = content.size > 0 and content.read(content.size - 1, 1) != b"\n"
        self._note_bytes = ("\n" * is_open + frame).encode("utf-8", "surrogatepass")
        self._starts = [
            at + 1 for at, byte in enumerate(self._note_bytes) if byte == 10 and at + 1 < len(self._note_bytes)
        ]
        if not is_open:
            self._starts.insert(0, 0)
        self.size = content.size + len(self._note_bytes)
        self.lines = content.lines + len(self._starts)

    def read(self, offset: int, limit: int) -> bytes:
        data = self._content.read(offset, limit) if offset < self._content_size else b""
        behind = max(offset - self._content_size, 0)
        return data + self._note_bytes[behind : behind + max(limit - len(data), 0)]

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        end = self.size if end is None else min(end, self.size)
        if start < min(end, self._content_size):
            yield from self._content.chunks(start, min(end, self._content_size))
        if end > max(start, self._content_size):
            yield self._note_bytes[max(start - self._content_size, 0) : end - self._content_size]

    def line_start(self, line: int) -> int:
        if line <= self._content.lines:
            return self._content.line_start(line)
        behind = line - self._content.lines - 1
        return self._content_size + self._starts[behind] if behind < len(self._starts) else self.size

    def line_end(self, offset: int) -> int:
        if offset < self._content_size:
            end = self._content.line_end(offset)
            if end < self._content_size:
                return end
            offset = self._content_size
        found = self._note_bytes.find(b"\n", offset - self._content_size)
        return self.size if found < 0 else self._content_size + found

    def close(self) -> None:
        self._content.close()


class InMemoryContent:
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
