"""Reads other programs' JSON Lines files line by line, even if lines are very long or damaged, and validates the
types of their values."""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from ebbtide.agent.integrations.imports.transcript import ImportProblems, UnreadableTranscriptError
from ebbtide.agent.messages import Image
from ebbtide.tools.files.image_types import MAX_IMAGE_BYTES, image_type
from ebbtide.tools.lazy import dataclass

MAX_LINE_BYTES = 12 << 20
"""Maximum size of a line, in bytes; large enough for a line that contains the same image twice."""
LINE_END_BYTES = 1 << 12
"""Number of bytes read from each end of a line that is too long. They contain the ids that link it to other lines."""
HEAD_BYTES = 1 << 18
"""Number of bytes of a file that are read to identify it."""
_CHUNK_BYTES = 1 << 20

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    offset: int
    data: bytes
    """The complete line; for a line that is too long, its start and end."""
    size: int

    @property
    def is_complete(self) -> bool:
        return self.size <= MAX_LINE_BYTES


def open_regular_file(path: Path) -> IO[bytes]:
    """Open a file without blocking. Raises `UnreadableTranscriptError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        file = open(descriptor, "rb", buffering=1 << 16)  # noqa: SIM115  # closed by the caller
        if not path.is_file():
            file.close()
            raise UnreadableTranscriptError("it is not a regular file")
    except OSError as error:
        raise UnreadableTranscriptError(error.strerror or str(error)) from error
    return file


def read_lines(file: IO[bytes]) -> Iterator[Line]:
    """Yield the lines from the current position. The last line need not end with a line break."""
    offset = file.tell()
    while data := file.readline(MAX_LINE_BYTES + 1):
        size = len(data)
        if size > MAX_LINE_BYTES:
            line_end = data[-LINE_END_BYTES:]
            while not line_end.endswith(b"\n") and (chunk := file.readline(_CHUNK_BYTES)):
                size += len(chunk)
                line_end = (line_end + chunk)[-LINE_END_BYTES:]
            data = data[:LINE_END_BYTES] + line_end
        yield Line(offset, data, size)
        offset += size


def parse_row(line: Line) -> Row | None:
    """Parse a line as an object; None if that fails."""
    if not line.is_complete:
        return None
    try:
        row = json.loads(line.data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def parse_rows(file: IO[bytes], problems: ImportProblems) -> Iterator[Row]:
    """Parse a file that contains one object per line. Invalid lines are counted as problems."""
    for line in read_lines(file):
        row = parse_row(line)
        if row is not None:
            yield row
        elif line.data.strip():
            problems.add(
                "lines that cannot be read" if line.is_complete else f"lines of more than {MAX_LINE_BYTES >> 20} MiB"
            )


def head_rows(path: Path) -> Iterator[Row]:
    """Yield the objects at the start of a file; nothing if it cannot be read."""
    with suppress(UnreadableTranscriptError, OSError), open_regular_file(path) as file:
        data = file.read(HEAD_BYTES)
        for text in data.split(b"\n"):
            row = parse_row(Line(0, text, len(text)))
            if row is not None:
                yield row


def as_text(value: object) -> str:
    """Return the value if it is a string, with lone surrogates replaced; otherwise an empty string."""
    if not isinstance(value, str):
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return value.encode("utf-8", "replace").decode()
    return value


def objects_in(value: object) -> list[Row]:
    """Return the objects in a list; empty if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_object(value: object) -> Row:
    return value if isinstance(value, dict) else {}


def parse_time(value: object, default: float = 0.0) -> float:
    """Convert a time to Unix seconds; accepts ISO strings, seconds and milliseconds."""
    if isinstance(value, str):
        with suppress(ValueError, OverflowError):
            return max(datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp(), 0.0)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14:
        return value / 1000 if value > 1e11 else float(value)
    return default


def decode_image(data: object) -> Image | None:
    """Decode a base64 image; None if models do not accept it."""
    if not isinstance(data, str) or not data.isascii() or len(data) * 3 // 4 > MAX_IMAGE_BYTES:
        return None
    try:
        media_type = image_type(base64.b64decode(data, validate=True))
    except ValueError:
        return None
    return Image(media_type, data) if media_type else None


def image_from_url(url: object) -> Image | None:
    """Decode the image in a `data:` URL; None if it contains no image, or one that models do not accept."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return None
    return decode_image(url.partition(";base64,")[2])
