"""How tools see stored content that is no longer in context. Storage itself is implemented elsewhere."""

from collections.abc import Iterator
from typing import Protocol

from ebbtide.tools.lazy import dataclass


class Content(Protocol):
    """Stored bytes with random access. Not thread-safe, and must be closed. The first access to damaged or unreadable
    bytes raises `ToolError`."""

    @property
    def size(self) -> int: ...

    @property
    def lines(self) -> int:
        """The number of lines, including a last line without a newline."""

    def read(self, offset: int, limit: int) -> bytes: ...

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]: ...

    def line_start(self, line: int) -> int:
        """Return the offset at which a line starts; lines are counted from 1."""

    def line_end(self, offset: int) -> int:
        """Return the offset at which the line that contains `offset` ends, excluding its newline."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StoredContent:
    """The content that a reference points to."""

    ref: str
    content: Content
    media_type: str = "text/plain"
    line_range: tuple[int, int] | None = None
    """First and last line, if the reference specifies a range of lines."""
    byte_range: tuple[int, int] | None = None
    """Start and end offset, if the reference specifies a range of bytes."""
    image_refs: tuple[str, ...] = ()
    """References to the images that belong to the content."""
    first_line: int | None = None
    """The number of the first line, if the lines are already numbered, as in an excerpt of a file."""
    trailing_note: str = ""
    """A note that belongs to the content but is not part of its text, such as how a program ended."""
    kind: str = ""
    """A description of the content, such as `output of read`, `message` or `summary`."""
    paths: tuple[str, ...] = ()
    """The files that the call was about."""
    access_count: int = 0
    """Number of earlier lookups."""
    last_accessed_at: float | None = None
    """Time of the last lookup, in Unix seconds."""
    unnumbered_lines: int = 0
    """Number of trailing lines that the tool added as notes. Unlike the lines before them, they are not numbered."""

    @property
    def last_line(self) -> int:
        """The number of the last line, not counting unnumbered ones."""
        return (self.first_line or 1) - 1 + self.content.lines - self.unnumbered_lines


class ContentWithNote:
    """Content followed by a note on separate lines."""

    def __init__(self, content: Content, note: str) -> None:
        self._content = content
        self._content_size = content.size
        lacks_final_newline = content.size > 0 and content.read(content.size - 1, 1) != b"\n"
        self._note_bytes = ("\n" * lacks_final_newline + note).encode("utf-8", "surrogatepass")
        self._note_line_starts = [
            offset + 1
            for offset, byte in enumerate(self._note_bytes)
            if byte == 10 and offset + 1 < len(self._note_bytes)
        ]
        if not lacks_final_newline:
            self._note_line_starts.insert(0, 0)
        self.size = content.size + len(self._note_bytes)
        self.lines = content.lines + len(self._note_line_starts)

    def read(self, offset: int, limit: int) -> bytes:
        data = self._content.read(offset, limit) if offset < self._content_size else b""
        note_offset = max(offset - self._content_size, 0)
        return data + self._note_bytes[note_offset : note_offset + max(limit - len(data), 0)]

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        end = self.size if end is None else min(end, self.size)
        if start < min(end, self._content_size):
            yield from self._content.chunks(start, min(end, self._content_size))
        if end > max(start, self._content_size):
            yield self._note_bytes[max(start - self._content_size, 0) : end - self._content_size]

    def line_start(self, line: int) -> int:
        if line <= self._content.lines:
            return self._content.line_start(line)
        note_line = line - self._content.lines - 1
        return (
            self._content_size + self._note_line_starts[note_line]
            if note_line < len(self._note_line_starts)
            else self.size
        )

    def line_end(self, offset: int) -> int:
        if offset < self._content_size:
            end = self._content.line_end(offset)
            if end < self._content_size:
                return end
            offset = self._content_size
        newline = self._note_bytes.find(b"\n", offset - self._content_size)
        return self.size if newline < 0 else self._content_size + newline

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
        newline = self._data.find(b"\n", offset)
        return self.size if newline < 0 else newline

    def close(self) -> None:
        pass
