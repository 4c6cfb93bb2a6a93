"""Files of JSON lines that other programs write, a line at a time, however long or damaged they are; and values out of
them, taken for what they claim to be only where they are."""

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
"""Bytes of a line that is read. One with a picture in it twice is as long as that."""
LINE_END_BYTES = 1 << 12
"""Bytes of each end of a longer line that are kept: what ties it to others stands there."""
HEAD = 1 << 18
"""Bytes of a file that are looked at to tell what it is."""
_PIECE = 1 << 20

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    offset: int
    data: bytes
    """All of it; of one that is too long both its ends."""
    size: int

    @property
    def is_whole(self) -> bool:
        return self.size <= MAX_LINE_BYTES


def regular_file(path: Path) -> IO[bytes]:
    """The file, opened without waiting. Raises `UnreadableTranscript`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        file = open(descriptor, "rb", buffering=1 << 16)  # noqa: SIM115  # whoever calls closes it
        if not path.is_file():
            file.close()
            raise UnreadableTranscript("it is not a regular file")
    except OSError as error:
        raise UnreadableTranscript(error.strerror or str(error)) from error
    return file


def lines_of(file: IO[bytes]) -> Iterator[Line]:
    """The lines from where the file stands on. The last one needs no line end."""
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
    """The object that a line holds; None where it holds none that can be read."""
    if not line.is_whole:
        return None
    try:
        row = json.loads(line.data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def rows_of(file: IO[bytes], troubles: ImportProblems) -> Iterator[Row]:
    """The objects of a file in which each line stands for itself; the others are counted."""
    for line in lines_of(file):
        row = row_of(line)
        if row is not None:
            yield row
        elif line.data.strip():
            troubles.add(
                "lines that cannot be read" if line.is_whole else f"lines of more than {MAX_LINE_BYTES >> 20} MiB"
            )


def head_rows(path: Path) -> Iterator[Row]:
    """The objects at the beginning of a file; none where it cannot be read."""
    with suppress(UnreadableTranscript, OSError), regular_file(path) as file:
        data = file.read(HEAD)
        for text in data.split(b"\n"):
            row = row_of(Line(0, text, len(text)))
            if row is not None:
                yield row


def text_of(value: object) -> str:
    """A text that can be written down and sent; empty where it is none."""
    if not isinstance(value, str):
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:  # half a pair
        return value.encode("utf-8", "replace").decode()
    return value


def list_of(value: object) -> list[Row]:
    """The objects of a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def object_of(value: object) -> Row:
    return value if isinstance(value, dict) else {}


def time_of(value: object, otherwise: float = 0.0) -> float:
    """Unix seconds out of a time as programs write it: as a text, in seconds or in milliseconds."""
    if isinstance(value, str):
        with suppress(ValueError, OverflowError):
            return max(datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp(), 0.0)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14:
        return value / 1000 if value > 1e11 else float(value)
    return otherwise


def picture_of(data: object) -> Image | None:
    """The picture that stands there in base64, where models can be shown it; None otherwise."""
    if not isinstance(data, str) or not data.isascii() or len(data) * 3 // 4 > MAX_PICTURE_BYTES:
        return None
    try:
        kind = picture_type(base64.b64decode(data, validate=True))
    except ValueError:
        return None
    return Image(kind, data) if kind else None


def picture_in(url: object) -> Image | None:
    """The picture that stands in a `data:` address."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return None
    return picture_of(url.partition(";base64,")[2])
