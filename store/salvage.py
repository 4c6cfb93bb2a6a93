"""Rows out of the pages of a damaged database, whatever its header and schema say. It knows the form of SQLite's pages
and tells by their shape which table rows are of."""

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = str | int | float | bytes | None

PAGE_SIZES = (4096, 1024, 8192, 16384, 32768, 512, 2048, 65536)
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x0A, 0x02
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_SESSION = re.compile(r"[0-9a-f]{12}")
_WAL_HEADER, _WAL_FRAME = 32, 24


@dataclass(frozen=True, slots=True)
class Row:
    table: str
    values: Sequence[Value]
    """In the order of the table's columns, the last of which may be missing."""


def rows_in(data: bytes, page_size: int) -> Iterator[Row]:
    """The rows in the pages of a database, as far as they are whole."""
    pages = [data[at : at + page_size] for at in range(0, len(data), page_size)]
    for number, page in enumerate(pages):
        if len(page) == page_size:
            yield from _rows_of(page, 100 if number == 0 else 0, pages)


def rows_in_log(log: bytes, database: bytes) -> Iterator[Row]:
    """The rows in the pages that the log of a database holds, the newest first, when some of it is damaged; what is
    whole SQLite reads itself."""
    if len(log) < _WAL_HEADER:
        return
    page_size = struct.unpack(">I", log[8:12])[0]
    if page_size not in PAGE_SIZES or _sound_frames(log, page_size) * (page_size + _WAL_FRAME) == _frames_end(log):
        return
    size = page_size + _WAL_FRAME
    pages = [database[at : at + page_size] for at in range(0, len(database), page_size)]
    frames: list[bytes] = []
    for at in range(_WAL_HEADER, len(log) - size + 1, size):
        number, page = struct.unpack(">I", log[at : at + 4])[0], log[at + _WAL_FRAME : at + size]
        frames.append(page)
        if number <= len(pages) + len(frames):
            pages += [b""] * (number - len(pages))
            pages[number - 1] = page
    for page in reversed(frames):
        yield from _rows_of(page, 0, pages)


def is_log_damaged(log: bytes) -> bool:
    """Whether SQLite would leave out some of what the log holds."""
    if len(log) < _WAL_HEADER:
        return bool(log)
    page_size = struct.unpack(">I", log[8:12])[0]
    if page_size not in PAGE_SIZES:
        return True
    return bool(_sound_frames(log, page_size) * (page_size + _WAL_FRAME) != _frames_end(log))


def _frames_end(log: bytes) -> int:
    """Bytes of frames that belong to the log as its header says; those behind them are of an earlier one."""
    page_size = struct.unpack(">I", log[8:12])[0]
    size, end = page_size + _WAL_FRAME, _WAL_HEADER
    while end + size <= len(log) and log[end + 8 : end + 16] == log[16:24]:
        end += size
    return end - _WAL_HEADER


def _sound_frames(log: bytes, page_size: int) -> int:
    """How many frames agree with their check sums."""
    order = ">" if log[3] & 1 else "<"
    sums = _summed(log[:24], (0, 0), order)
    if sums != struct.unpack(">II", log[24:32]):
        return 0
    count, at = 0, _WAL_HEADER
    while at + _WAL_FRAME + page_size <= len(log) and log[at + 8 : at + 16] == log[16:24]:
        sums = _summed(log[at : at + 8] + log[at + _WAL_FRAME : at + _WAL_FRAME + page_size], sums, order)
        if sums != struct.unpack(">II", log[at + 16 : at + 24]):
            break
        count, at = count + 1, at + _WAL_FRAME + page_size
    return count


def _summed(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for number in range(0, len(words), 2):
        first = (first + words[number] + second) & 0xFFFFFFFF
        second = (second + words[number + 1] + first) & 0xFFFFFFFF
    return first, second


def _rows_of(page: bytes, start: int, pages: Sequence[bytes]) -> Iterator[Row]:
    kind = page[start] if len(page) > start else 0
    if kind not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR):
        return
    (count,) = struct.unpack(">H", page[start + 3 : start + 5])
    pointers = start + (12 if kind == _INDEX_INTERIOR else 8)
    for number in range(min(count, (len(page) - pointers) // 2)):
        (at,) = struct.unpack(">H", page[pointers + 2 * number : pointers + 2 * number + 2])
        try:
            values = _record(_payload(page, at, kind, pages))
        except (IndexError, ValueError, struct.error):
            continue
        table = _table_of(values, is_keyed=kind != _TABLE_LEAF)
        if table is not None:
            yield Row(table, values)


def _payload(page: bytes, at: int, kind: int, pages: Sequence[bytes]) -> bytes:
    if kind == _INDEX_INTERIOR:
        at += 4
    size, at = _varint(page, at)
    if kind == _TABLE_LEAF:
        _, at = _varint(page, at)
    usable = len(page)
    most = usable - 35 if kind == _TABLE_LEAF else (usable - 12) * 64 // 255 - 23
    if size <= most:
        return _exactly(page[at : at + size], size)
    least = (usable - 12) * 32 // 255 - 23
    local = least + (size - least) % (usable - 4)
    local = local if local <= most else least
    found = bytearray(page[at : at + local])
    (following,) = struct.unpack(">I", page[at + local : at + local + 4])
    while following and len(found) < size:
        beyond = pages[following - 1]
        (following,) = struct.unpack(">I", beyond[:4])
        found += beyond[4:]
    return _exactly(bytes(found[:size]), size)


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError("a row is cut off")
    return data


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for number in range(9):
        byte = data[at + number]
        if number == 8:
            return (value << 8) | byte, at + 9
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, at + number + 1
    raise ValueError("no number")


def _record(payload: bytes) -> list[Value]:
    header, at = _varint(payload, 0)
    kinds: list[int] = []
    while at < header:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Value] = []
    at = header
    for kind in kinds:
        value, at = _value(kind, payload, at)
        values.append(value)
    return values


def _value(kind: int, payload: bytes, at: int) -> tuple[Value, int]:
    if kind in (0, 8, 9):
        return (None if kind == 0 else kind - 8), at
    if kind == 7:
        return struct.unpack(">d", payload[at : at + 8])[0], at + 8
    if kind in _INTEGERS:
        size = _INTEGERS[kind]
        return int.from_bytes(_exactly(payload[at : at + size], size), "big", signed=True), at + size
    if kind < 12:
        raise ValueError("no kind of value")
    size = (kind - 12) // 2
    data = _exactly(payload[at : at + size], size)
    return (data.decode("utf-8", "replace") if kind % 2 else data), at + size


def _is_session(value: Value) -> bool:
    return isinstance(value, str) and _SESSION.fullmatch(value) is not None


def _is_text(value: Value) -> bool:
    return isinstance(value, str)


def _is_whole(value: Value) -> bool:
    return isinstance(value, int)


def _is_time(value: Value) -> bool:
    return isinstance(value, int | float)


def _is_null(value: Value) -> bool:
    return value is None


def _is_any(value: Value) -> bool:
    return not isinstance(value, bytes)


def _is_role(value: Value) -> bool:
    return value in ("user", "assistant")


def _is_view(value: Value) -> bool:
    return isinstance(value, str) and '"anchored"' in value


def _is_summary(value: Value) -> bool:
    return isinstance(value, str) and '"anchored"' not in value


_Shape: TypeAlias = tuple[Callable[[Value], bool], ...]
_SHAPES: Mapping[str, tuple[bool, int, _Shape]] = {
    "sessions": (False, 11, (_is_session, *[_is_text] * 4, _is_time, _is_time)),
    "messages": (False, 8, (_is_null, _is_session, _is_whole, _is_role, _is_text, _is_time)),
    "usage": (False, 10, (_is_null, _is_session, _is_text, _is_text, *[_is_whole] * 4, _is_any, _is_time)),
    "rewrites": (
        False,
        10,
        (_is_null, _is_session, _is_whole, _is_whole, _is_text, _is_text, _is_whole, _is_whole, _is_any, _is_time),
    ),
    "snapshots": (False, 4, (_is_session, _is_whole, _is_text, _is_time)),
    "situation": (True, 4, (_is_session, _is_text, _is_text, _is_text)),
    "outputs": (
        True,
        14,
        (_is_session, *[_is_whole] * 3, _is_text, _is_text, _is_whole, _is_whole, _is_text, _is_any, _is_time),
    ),
    "summaries": (True, 5, (_is_session, _is_whole, _is_whole, _is_summary, _is_time)),
    "views": (True, 5, (_is_session, _is_whole, _is_whole, _is_view, _is_time)),
}
"""Of each table: whether its rows stand in a key's order, how many columns it has, and what its first ones hold."""


def _table_of(values: Sequence[Value], *, is_keyed: bool) -> str | None:
    for table, (keyed, most, shape) in _SHAPES.items():
        is_possible = keyed == is_keyed and len(shape) <= len(values) <= most
        if is_possible and all(fits(value) for fits, value in zip(shape, values, strict=False)):
            return table
    return None
