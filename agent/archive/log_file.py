"""A file in which an earlier version kept an output, as content that can be read in parts. It knows files, not what is
in them."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

_PIECE = 1 << 18


class LogFile:
    """The bytes of a plain file. Lines are found by looking for them."""

    @classmethod
    def opened(cls, path: Path) -> "LogFile | None":
        """None when the file is not there any more."""
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
        while start < end and (piece := self.read(start, min(_PIECE, end - start))):
            yield piece
            start += len(piece)

    def line_start(self, line: int) -> int:
        at, left = 0, line - 1
        for piece in self.chunks():
            found = piece.count(b"\n")
            if left <= 0:
                return at
            if found >= left:
                return at + len(piece) - len(piece.split(b"\n", left)[-1])
            at, left = at + len(piece), left - found
        return self.size if left > 0 else at

    def line_end(self, offset: int) -> int:
        at = offset
        for piece in self.chunks(offset):
            found = piece.find(b"\n")
            if found >= 0:
                return at + found
            at += len(piece)
        return self.size

    def close(self) -> None:
        self._file.close()
