"""Extracts rows from the pages of a damaged database, even if its header or schema is damaged. It parses SQLite's page
format and recognises each row's table by the types of its values."""

import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from mmap import mmap
from pathlib import Path
from typing import TypeAlias

from ebbtide.store.session_rows import SESSION_ID

SqlValue: TypeAlias = str | int | float | bytes | None

PAGE_SIZES = (4096, 1024, 8192, 16384, 32768, 512, 2048, 65536)
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x0A, 0x02
_INTEGER_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_SESSION = re.compile(SESSION_ID)
_WAL_HEADER_BYTES, _WAL_FRAME_HEADER_BYTES = 32, 24
_CHUNK_BYTES = 1 << 20


class FileBytes:
    """The first `size` bytes of a file, read on demand."""

    def __init__(self, path: Path, size: int) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, end, _ = part.indices(self._size)
        return os.pread(self._descriptor, max(end - start, 0), start)

    def close(self) -> None:
        os.close(self._descriptor)


Bytes: TypeAlias = bytes | mmap | FileBytes


@dataclass(frozen=True, slots=True)
class SalvagedRow:
    table: str
    values: Sequence[SqlValue]
    """Values in column order; trailing columns may be missing."""


class _Pages:
    """The pages of a database, read on demand."""

    def __init__(self, data: Bytes, size: int) -> None:
        self._data = data
        self._size = size
        self.log_pages: dict[int, bytes] = {}
        """Newer versions of pages, taken from the log. Page numbers start at 0."""

    @property
    def max_row_bytes(self) -> int:
        """Upper bound for the size of a row: the total size of all pages."""
        return len(self._data) + len(self.log_pages) * self._size

    def __getitem__(self, page_index: int) -> bytes:
        offset = page_index * self._size
        return (
            self.log_pages[page_index]
            if page_index in self.log_pages
            else bytes(self._data[offset : offset + self._size])
        )


def rows_in_pages(data: Bytes, page_size: int) -> Iterator[SalvagedRow]:
    """Yield the intact rows in a database's pages."""
    pages = _Pages(data, page_size)
    for page_index in range(len(data) // page_size):
        yield from _rows_on_page(pages[page_index], 100 if page_index == 0 else 0, pages)


def rows_in_log(log: Bytes, database: Bytes) -> Iterator[SalvagedRow]:
    """Yield the rows in the pages of a database's log, newest first. Pages after a damaged part, which SQLite would not
    read, are included."""
    log_format = _read_log_format(log)
    pages, frames = _Pages(database, log_format.page_size), list[bytes]()
    for frame in _frames(log, log_format):
        if log_format.is_header_valid and frame.salts != log[16:24]:
            continue  # the frame belongs to an earlier log, or is damaged
        frames.append(frame.page)
        pages.log_pages[frame.page_number - 1] = frame.page
    for page in reversed(frames):
        yield from _rows_on_page(page, 0, pages)


def is_log_damaged(log: Bytes) -> bool:
    """Whether SQLite would ignore part of the log."""
    log_format = _read_log_format(log)
    if not log_format.is_header_valid:
        return any(log[offset : offset + _CHUNK_BYTES].strip(b"\0") for offset in range(0, len(log), _CHUNK_BYTES))
    salts, valid_count = log[16:24], _first_invalid_frame(log, log_format, 0)
    return any(frame.salts == salts for frame in _frames(log, log_format, valid_count))


def has_unreadable_commits(log: Bytes, readable_frame_count: int) -> bool:
    """Whether a log contains complete transactions after a damaged part. SQLite reads only the first
    `readable_frame_count` frames, so its next write would overwrite those transactions. Uncommitted frames left by a
    killed process do not count."""
    log_format = _read_log_format(log)
    if log_format.is_header_valid:
        salts, invalid_index = log[16:24], _first_invalid_frame(log, log_format, readable_frame_count)
        return any(frame.is_commit and frame.salts == salts for frame in _frames(log, log_format, invalid_index + 1))
    return any(
        frame.is_commit
        and previous.salts == frame.salts
        and frame.checksum in _valid_checksums(frame, previous.checksum, log_format)
        for previous, frame in pairwise(_frames(log, log_format))
    )


@dataclass(frozen=True, slots=True)
class _LogFormat:
    """The format of a write-ahead log, read from its header."""

    page_size: int
    byte_orders: tuple[str, ...]
    """Possible byte orders of the checksums: the one in the header if the header is valid, otherwise both."""
    is_header_valid: bool
    """Whether the header matches its checksum."""


@dataclass(frozen=True, slots=True)
class _LogFrame:
    head: bytes
    log: Bytes
    offset: int
    """Offset of the frame's page in the log."""
    size: int

    @property
    def page(self) -> bytes:
        return self.log[self.offset : self.offset + self.size]

    @property
    def page_number(self) -> int:
        """Page number in the database, from 1."""
        return int.from_bytes(self.head[:4], "big")

    @property
    def is_commit(self) -> bool:
        return any(self.head[4:8])

    @property
    def salts(self) -> bytes:
        """The salt values. All current frames of a log share them."""
        return self.head[8:16]

    @property
    def checksum(self) -> bytes:
        return self.head[16:24]


def _read_log_format(log: Bytes) -> _LogFormat:
    header = log[:_WAL_HEADER_BYTES].ljust(_WAL_HEADER_BYTES, b"\0")
    byte_order = ">" if header[3] & 1 else "<"
    page_size = int.from_bytes(header[8:12], "big")
    is_header_valid = page_size in PAGE_SIZES and _wal_checksum(header[:24], b"\0" * 8, byte_order) == header[24:32]
    return _LogFormat(
        page_size if page_size in PAGE_SIZES else PAGE_SIZES[0],
        (byte_order,) if is_header_valid else ("<", ">"),
        is_header_valid,
    )


def _frames(log: Bytes, log_format: _LogFormat, start: int = 0) -> Iterator[_LogFrame]:
    """Yield the frames of a log from index `start` on. A frame's page is read only when it is needed."""
    frame_size = log_format.page_size + _WAL_FRAME_HEADER_BYTES
    for offset in range(_WAL_HEADER_BYTES + start * frame_size, len(log) - frame_size + 1, frame_size):
        yield _LogFrame(
            log[offset : offset + _WAL_FRAME_HEADER_BYTES], log, offset + _WAL_FRAME_HEADER_BYTES, log_format.page_size
        )


def _first_invalid_frame(log: Bytes, log_format: _LogFormat, start: int) -> int:
    """Find the first frame, from index `start` on, that does not match its checksum or the log's header."""
    salts, previous_checksum, index = log[16:24], log[24:32], start
    if start > 0:
        previous_checksum = next((frame.checksum for frame in _frames(log, log_format, start - 1)), previous_checksum)
    for frame in _frames(log, log_format, start):
        if frame.salts != salts or frame.checksum not in _valid_checksums(frame, previous_checksum, log_format):
            break
        previous_checksum, index = frame.checksum, index + 1
    return index


def _valid_checksums(frame: _LogFrame, previous_checksum: bytes, log_format: _LogFormat) -> tuple[bytes, ...]:
    """Compute the checksums that are valid for a frame after one with the checksum `previous_checksum`."""
    return tuple(
        _wal_checksum(frame.head[:8] + frame.page, previous_checksum, byte_order)
        for byte_order in log_format.byte_orders
    )


def _wal_checksum(data: bytes, previous_checksum: bytes, byte_order: str) -> bytes:
    first, second = struct.unpack(">II", previous_checksum)
    words = struct.unpack(f"{byte_order}{len(data) // 4}I", data)
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & 0xFFFFFFFF
        second = (second + words[index + 1] + first) & 0xFFFFFFFF
    return struct.pack(">II", first, second)


def _rows_on_page(page: bytes, start: int, pages: _Pages) -> Iterator[SalvagedRow]:
    page_type = page[start] if len(page) > start else 0
    if page_type not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR):
        return
    (cell_count,) = struct.unpack(">H", page[start + 3 : start + 5])
    pointers_offset = start + (12 if page_type == _INDEX_INTERIOR else 8)
    for index in range(min(cell_count, (len(page) - pointers_offset) // 2)):
        (offset,) = struct.unpack(">H", page[pointers_offset + 2 * index : pointers_offset + 2 * index + 2])
        try:
            values = _parse_record(_payload(page, offset, page_type, pages))
        except (IndexError, ValueError, struct.error):
            continue
        table = _matching_table(values, is_keyed=page_type != _TABLE_LEAF)
        if table is not None:
            yield SalvagedRow(table, values)


def _payload(page: bytes, offset: int, page_type: int, pages: _Pages) -> bytes:
    if page_type == _INDEX_INTERIOR:
        offset += 4
    size, offset = _read_varint(page, offset)
    if page_type == _TABLE_LEAF:
        _, offset = _read_varint(page, offset)
    page_size = len(page)
    max_local = page_size - 35 if page_type == _TABLE_LEAF else (page_size - 12) * 64 // 255 - 23
    if size <= max_local:
        return _require_size(page[offset : offset + size], size)
    if size > pages.max_row_bytes:
        raise ValueError("a row is larger than all pages")
    min_local = (page_size - 12) * 32 // 255 - 23
    local_size = min_local + (size - min_local) % (page_size - 4)
    local_size = local_size if local_size <= max_local else min_local
    payload = bytearray(page[offset : offset + local_size])
    (next_page,) = struct.unpack(">I", page[offset + local_size : offset + local_size + 4])
    while next_page and len(payload) < size:
        overflow_page = pages[next_page - 1]
        (next_page,) = struct.unpack(">I", overflow_page[:4])
        payload += overflow_page[4:]
    return _require_size(bytes(payload[:size]), size)


def _require_size(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError("a row is cut off")
    return data


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for index in range(9):
        byte = data[offset + index]
        if index == 8:
            return (value << 8) | byte, offset + 9
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, offset + index + 1
    raise ValueError("no number")


def _parse_record(payload: bytes) -> list[SqlValue]:
    header_size, offset = _read_varint(payload, 0)
    serial_types: list[int] = []
    while offset < header_size:
        serial_type, offset = _read_varint(payload, offset)
        serial_types.append(serial_type)
    values: list[SqlValue] = []
    offset = header_size
    for serial_type in serial_types:
        value, offset = _parse_value(serial_type, payload, offset)
        values.append(value)
    return values


def _parse_value(serial_type: int, payload: bytes, offset: int) -> tuple[SqlValue, int]:
    if serial_type in (0, 8, 9):
        return (None if serial_type == 0 else serial_type - 8), offset
    if serial_type == 7:
        return struct.unpack(">d", payload[offset : offset + 8])[0], offset + 8
    if serial_type in _INTEGER_SIZES:
        size = _INTEGER_SIZES[serial_type]
        return int.from_bytes(_require_size(payload[offset : offset + size], size), "big", signed=True), offset + size
    if serial_type < 12:
        raise ValueError("no kind of value")
    size = (serial_type - 12) // 2
    data = _require_size(payload[offset : offset + size], size)
    return (data.decode("utf-8", "replace") if serial_type % 2 else data), offset + size


def _is_session(value: SqlValue) -> bool:
    return isinstance(value, str) and _SESSION.fullmatch(value) is not None


def _is_text(value: SqlValue) -> bool:
    return isinstance(value, str)


def _is_integer(value: SqlValue) -> bool:
    return isinstance(value, int)


def _is_time(value: SqlValue) -> bool:
    return isinstance(value, int | float)


def _is_null(value: SqlValue) -> bool:
    return value is None


def _is_not_bytes(value: SqlValue) -> bool:
    return not isinstance(value, bytes)


def _is_role(value: SqlValue) -> bool:
    return value in ("user", "assistant")


def _is_view(value: SqlValue) -> bool:
    return isinstance(value, str) and '"anchored"' in value


def _is_summary(value: SqlValue) -> bool:
    return isinstance(value, str) and '"anchored"' not in value


_Shape: TypeAlias = tuple[Callable[[SqlValue], bool], ...]
_SHAPES: Mapping[str, tuple[bool, int, _Shape]] = {
    "sessions": (False, 13, (_is_session, *[_is_text] * 4, _is_time, _is_time)),
    "messages": (False, 8, (_is_null, _is_session, _is_integer, _is_role, _is_text, _is_time)),
    "usage": (False, 10, (_is_null, _is_session, _is_text, _is_text, *[_is_integer] * 4, _is_not_bytes, _is_time)),
    "rewrites": (
        False,
        10,
        (
            _is_null,
            _is_session,
            _is_integer,
            _is_integer,
            _is_text,
            _is_text,
            _is_integer,
            _is_integer,
            _is_not_bytes,
            _is_time,
        ),
    ),
    "snapshots": (False, 4, (_is_session, _is_integer, _is_text, _is_time)),
    "situation": (True, 4, (_is_session, _is_text, _is_text, _is_text)),
    "outputs": (
        True,
        14,
        (
            _is_session,
            *[_is_integer] * 3,
            _is_text,
            _is_text,
            _is_integer,
            _is_integer,
            _is_text,
            _is_not_bytes,
            _is_time,
        ),
    ),
    "summaries": (True, 5, (_is_session, _is_integer, _is_integer, _is_summary, _is_time)),
    "views": (True, 5, (_is_session, _is_integer, _is_integer, _is_view, _is_time)),
}
"""For each table: whether its rows are stored in an index (`without rowid`), the number of columns, and checks for the
values of the first few columns."""


def _matching_table(values: Sequence[SqlValue], *, is_keyed: bool) -> str | None:
    for table, (keyed, max_columns, shape) in _SHAPES.items():
        is_possible = keyed == is_keyed and len(shape) <= len(values) <= max_columns
        if is_possible and all(is_expected(value) for is_expected, value in zip(shape, values, strict=False)):
            return table
    return None
