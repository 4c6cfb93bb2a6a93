"""What is kept apart from the view, as the tools that bring it back read it. Where it is kept they do not know."""

from collections.abc import Iterator
from typing import Protocol

from ebbtide.tools.lazy import dataclass


class Content(Protocol):
    """Kept bytes, of which any part can be read. Not for two threads at once; to be closed in the end. Bytes that are
    damaged or cannot be read are a `ToolError`, with the first of them."""

    @property
    def size(self) -> int: ...

    @property
    def lines(self) -> int:
        """The last one counts also when no line end follows it."""

    def read(self, offset: int, limit: int) -> bytes: ...

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]: ...

    def line_start(self, line: int) -> int:
        """Where a line begins, counted from 1."""

    def line_end(self, offset: int) -> int:
        """Where the line that holds an offset ends, without its line end."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StoredContent:
    """What a reference stands for."""

    ref: str
    content: Content
    media_type: str = "text/plain"
    lines: tuple[int, int] | None = None
    """First and last line, when the reference names them."""
    span: tuple[int, int] | None = None
    """Start and end in bytes, when the reference names them."""
    attachments: tuple[str, ...] = ()
    """References of the pictures that came with it and are not part of it."""
    first: int | None = None
    """The number that its first line carries, when its lines carry their own: those of the file that it shows."""
    frame: str = ""
    """What belongs to it and stands not in it, since it is no text: how a program ended."""
    kind: str = ""
    """What it is, in words: `output of read`, `message`, `summary`."""
    paths: tuple[str, ...] = ()
    """The files that the call was about."""
    accesses: int = 0
    """How often it was looked up before."""
    accessed: float | None = None
    """When it was looked up last, in Unix seconds."""
    unnumbered: int = 0
    """Lines at its end that carry no number where the others do: what the tool said of them."""

    @property
    def last(self) -> int:
        """The number of its last line."""
        return (self.first or 1) - 1 + self.content.lines - self.unnumbered


class FramedContent:
    """Content with a text at its end, on lines of its own."""

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
    """Content that is small enough to be held."""

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
