"""Reads JSON Lines files of other programs line by line, however long or damaged the lines are, and validates the types
of their values."""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from ebbtide.agent.imports.transcript import ImportProblems, UnreadableTranscript
from ebbtide.agent.messages import Image
from ebbtide.tools.files.pictures import MAX_PICTURE_BYTES, picture_type
from ebbtide.tools.lazy import dataclass

MAX_LINE_BYTES = 12 << 20
"""Maximum size of a line. A line with the same picture twice can be this long."""
LINE_END_BYTES = 1 << 12
"""Bytes kept from each end of a longer line; they contain the ids that link it to other lines."""
HEAD = 1 << 18
"""Bytes of a file that are read to identify it."""
_PIECE = 1 << 20

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    offset: int
    data: bytes
    """The whole line; for a line that is too long, its start and end."""
    size: int

    @property
    def is_whole(self) -> bool:
        return self.size <= MAX_LINE_BYTES


def regular_file(path: Path) -> IO[bytes]:
    """Open a file without blocking. Raises `UnreadableTranscript`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        file = open(descriptor, "rb", buffering=1 << 16)  # noqa: SIM115  # closed by the caller
        if not path.is_file():
            file.close()
            raise UnreadableTranscript("it is not a regular file")
    except OSError as error:
        raise UnreadableTranscript(error.strerror or str(error)) from error
    return file


def lines_of(file: IO[bytes]) -> Iterator[Line]:
    """Yield the lines from the current position. The last line needs no line end."""
    offset = file.tell()
    while data := file.readline(MAX_LINE_BYTES + 1):
        size = len(data)
        if size > MAX_LINE_BYTES:
            ending = data[-LINE_END_BYTES:]
            while not ending.endswith(b"\n") and (more := file.readline(_PIECE)):
                size += len(more)
                ending = (ending + more)[-LINE_END_BYTES:]
            data = data[:LINE_END_BYTES] + ending
        yield Line(offset, data, size)
        offset += size


def row_of(line: Line) -> Row | None:
    """Parse a line as an object; None if that fails."""
    if not line.is_whole:
        return None
    try:
        row = json.loads(line.data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def rows_of(file: IO[bytes], troubles: ImportProblems) -> Iterator[Row]:
    """Yield the objects in a file with one object per line; invalid lines are counted."""
    for line in lines_of(file):
        row = row_of(line)
        if row is not None:
            yield row
        elif line.data.strip():
            troubles.add(
                "lines that cannot be read" if line.is_whole else f"lines of more than {MAX_LINE_BYTES >> 20} MiB"
            )


def head_rows(path: Path) -> Iterator[Row]:
    """Yield the objects at the start of a file; nothing if it cannot be read."""
    with suppress(UnreadableTranscript, OSError), regular_file(path) as file:
        data = file.read(HEAD)
        for text in data.split(b"\n"):
            row = row_of(Line(0, text, len(text)))
            if row is not None:
                yield row


def text_of(value: object) -> str:
    """The value if it is a string, with lone surrogates replaced; otherwise an empty string."""
    if not isinstance(value, str):
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return value.encode("utf-8", "replace").decode()
    return value


def list_of(value: object) -> list[Row]:
    """The objects in a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def object_of(value: object) -> Row:
    return value if isinstance(value, dict) else {}


def time_of(value: object, otherwise: float = 0.0) -> float:
    """Convert a time to Unix seconds; accepts ISO strings, seconds and milliseconds."""
    if isinstance(value, str):
        with suppress(ValueError, OverflowError):
            return max(datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp(), 0.0)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14:
        return value / 1000 if value > 1e11 else float(value)
    return otherwise


def picture_of(data: object) -> Image | None:
    """Decode a base64 image; None if models cannot be shown it."""
    if not isinstance(data, str) or not data.isascii() or len(data) * 3 // 4 > MAX_PICTURE_BYTES:
        return None
    try:
        kind = picture_type(base64.b64decode(data, validate=True))
    except ValueError:
        return None
    return Image(kind, data) if kind else None


def picture_in(url: object) -> Image | None:
    """Decode the image in a `data:` URL."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return None
    return picture_of(url.partition(";base64,")[2])
