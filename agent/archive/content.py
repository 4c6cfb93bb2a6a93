"""Access to stored bytes. Reading damaged bytes raises an error whose message suits both the model and the user."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ebbtide.agent.errors import StoreFailed
from ebbtide.store.errors import StoreError
from ebbtide.tools.base import ToolError
from ebbtide.tools.outputs.stored_content import Content

RERUN_ADVICE = "run the call again if it is needed"


class ContentFailed(StoreFailed, ToolError):
    """The content of a reference cannot be read."""


class CheckedContent:
    """Stored content with a name for error messages. Reading returns exactly what was stored, or raises
    `ContentFailed`."""

    def __init__(self, name: str, open_content: Callable[[], Content]) -> None:
        self._name = name
        with self._translate_errors():
            self._content = open_content()

    @property
    def size(self) -> int:
        return self._content.size

    @property
    def lines(self) -> int:
        return self._content.lines

    def read(self, offset: int, limit: int) -> bytes:
        with self._translate_errors():
            return self._content.read(offset, limit)

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        with self._translate_errors():
            yield from self._content.chunks(start, end)

    def line_start(self, line: int) -> int:
        with self._translate_errors():
            return self._content.line_start(line)

    def line_end(self, offset: int) -> int:
        with self._translate_errors():
            return self._content.line_end(offset)

    def close(self) -> None:
        self._content.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            raise ContentFailed(f"`{self._name}` cannot be read: {error}; {RERUN_ADVICE}", error.reason) from error
        except OSError as error:
            message = f"`{self._name}` cannot be read: {error.strerror or error}; {RERUN_ADVICE}"
            raise ContentFailed(message, "unreadable") from error


_CHUNK_BYTES = 1 << 18


class LogFile:
    """A plain file in which an earlier version of the program stored an output. Lines are found by scanning."""

    @classmethod
    def open_if_exists(cls, path: Path) -> "LogFile | None":
        """Open a file; None if it is missing or cannot be opened."""
        try:
            return cls(path)
        except OSError:
            return None

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, "no file", str(path))
        self._file = path.open("rb")
        self.size = os.fstat(self._file.fileno()).st_size
        self.lines = sum(piece.count(b"\n") for piece in self.chunks())
        if self.size and self.read(self.size - 1, 1) != b"\n":
            self.lines += 1

    def read(self, offset: int, limit: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(limit)

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        end = self.size if end is None else min(end, self.size)
        while start < end and (piece := self.read(start, min(_CHUNK_BYTES, end - start))):
            yield piece
            start += len(piece)

    def line_start(self, line: int) -> int:
        offset, remaining = 0, line - 1
        for piece in self.chunks():
            newline_count = piece.count(b"\n")
            if remaining <= 0:
                return offset
            if newline_count >= remaining:
                return offset + len(piece) - len(piece.split(b"\n", remaining)[-1])
            offset, remaining = offset + len(piece), remaining - newline_count
        return self.size if remaining > 0 else offset

    def line_end(self, offset: int) -> int:
        piece_start = offset
        for piece in self.chunks(offset):
            newline_index = piece.find(b"\n")
            if newline_index >= 0:
                return piece_start + newline_index
            piece_start += len(piece)
        return self.size

    def close(self) -> None:
        self._file.close()
