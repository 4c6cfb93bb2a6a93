"""Reads and writes blob files. A blob is written in one pass, can be read from any offset, and is verified as it is
read.

The file consists of separately compressed frames followed by an index, so that part of a large blob can be read without
the rest. The index has a checksum for each frame and one for itself. Files from earlier versions have no checksums;
they are verified by their line count and, if small, by their digest.
"""

import hashlib
import os
import stat
import struct
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from ebbtide.store.errors import StoreError

FRAME_BYTES = 1 << 18
"""Uncompressed size of a frame in bytes. Decompressing one takes about a millisecond."""

_COMPRESSION_THREADS = 2
"""Number of threads that compress frames. They run in parallel because zlib releases the GIL."""

_MAX_FRAME_BYTES = 1 << 24
_MAGIC = b"EBB2"
_INDEX_ENTRY = struct.Struct("<III")
_FOOTER = struct.Struct("<QQQII4s")
_OLD_MAGIC = b"EBB1"
_OLD_INDEX_ENTRY = struct.Struct("<II")
_OLD_FOOTER = struct.Struct("<QQQI4s")
_UNCOMPRESSED_FLAG = 1 << 31
"""A bit in a frame's length that marks the frame as uncompressed."""
_SAMPLE_BYTES = 1 << 12
"""Number of bytes of a frame that are compressed as a test of whether compression is worthwhile."""


class Blob(NamedTuple):
    digest: str
    size: int
    """Size in bytes."""
    lines: int
    """Number of lines. A last line without a line ending counts."""


def write_blob(write: Callable[[memoryview], int], chunks: Iterable[bytes]) -> Blob:
    """Write chunks as a blob, keeping only a few frames in memory."""
    return _Writer(write).write_chunks(chunks)


class _Writer:
    """Writes one blob. Two threads compress while the caller's thread hashes and writes."""

    def __init__(self, write: Callable[[memoryview], int]) -> None:
        self._write = write
        self._hash = hashlib.sha256()
        self._size = self._newlines = self._written_size = 0
        self._lacks_final_newline = False
        self._index = bytearray()

    def write_chunks(self, chunks: Iterable[bytes]) -> Blob:
        self._write_bytes(_MAGIC)
        pending: deque[tuple[Future[tuple[int, bytes]], int, int]] = deque()
        with ThreadPoolExecutor(_COMPRESSION_THREADS, thread_name_prefix="blob") as executor:
            for frame in _frames(chunks):
                if len(pending) > _COMPRESSION_THREADS:
                    self._write_packed(*pending.popleft())
                pending.append((executor.submit(_pack, frame), *self._update_totals(frame)))
            while pending:
                self._write_packed(*pending.popleft())
        index_offset = self._written_size
        lines = self._newlines + self._lacks_final_newline
        self._write_bytes(bytes(self._index))
        checksum = _index_checksum(self._index, index_offset, self._size, lines, FRAME_BYTES)
        self._write_bytes(_FOOTER.pack(index_offset, self._size, lines, FRAME_BYTES, checksum, _MAGIC))
        return Blob(self._hash.hexdigest(), self._size, lines)

    def _update_totals(self, frame: bytes) -> tuple[int, int]:
        newlines = frame.count(b"\n")
        self._hash.update(frame)
        self._size += len(frame)
        self._newlines += newlines
        self._lacks_final_newline = not frame.endswith(b"\n")
        return newlines, zlib.crc32(frame)

    def _write_packed(self, packed: "Future[tuple[int, bytes]]", newlines: int, checksum: int) -> None:
        flag, data = packed.result()
        self._index += _INDEX_ENTRY.pack(len(data) | flag, newlines, checksum)
        self._write_bytes(data)

    def _write_bytes(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._write(view) :]
        self._written_size += len(data)


def _frames(chunks: Iterable[bytes]) -> Iterator[bytes]:
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= FRAME_BYTES:
            yield bytes(buffer[:FRAME_BYTES])
            del buffer[:FRAME_BYTES]
    if buffer:
        yield bytes(buffer)


def _pack(frame: bytes) -> tuple[int, bytes]:
    sample = frame[:_SAMPLE_BYTES]
    if len(zlib.compress(sample, 1, -15)) < len(sample) * 0.95:
        packed = zlib.compress(frame, 1, -15)
        if len(packed) < len(frame):
            return 0, packed
    return _UNCOMPRESSED_FLAG, frame


def _index_checksum(index: bytes | bytearray, *numbers: int) -> int:
    return zlib.crc32(struct.pack(f"<{len(numbers)}Q", *numbers), zlib.crc32(index))


class BlobReader:
    """Reads a blob from any offset. Use it from one thread at a time and close it. Raises `StoreError` ("corrupt", or
    "unreadable" after a system error), and `FileNotFoundError` if the file does not exist."""

    size: int
    lines: int

    def __init__(self, path: Path, digest: str) -> None:
        self._digest = digest
        with self._translate_errors():
            # Non-blocking, because opening a FIFO without a writer would block forever.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            with self._translate_errors():
                self._read_index()
        except BaseException:
            self.close()
            raise
        self._cached_frame: tuple[int, bytes] = -1, b""

    def _read_index(self) -> None:
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise self._corrupt_error("its path is not a regular file")
        magic = self._bytes_at(0, len(_MAGIC))
        if magic not in (_MAGIC, _OLD_MAGIC):
            raise self._corrupt_error("it does not start like a stored output")
        entry_format, footer_format = (_INDEX_ENTRY, _FOOTER) if magic == _MAGIC else (_OLD_INDEX_ENTRY, _OLD_FOOTER)
        footer_offset = status.st_size - footer_format.size
        if footer_offset < len(magic):
            raise self._corrupt_error("its end is missing")
        index_offset, self.size, self.lines, frame_size, *checksum, final_magic = footer_format.unpack(
            self._bytes_at(footer_offset, footer_format.size)
        )
        index_length = footer_offset - index_offset
        is_footer_valid = (
            final_magic == magic
            and 0 < frame_size <= _MAX_FRAME_BYTES
            and index_offset >= len(magic)
            and index_length >= 0
        )
        if (
            not is_footer_valid
            or index_length % entry_format.size
            or index_length // entry_format.size != -(-self.size // frame_size)
        ):
            raise self._corrupt_error("its end is missing or damaged")
        index = self._bytes_at(index_offset, index_length)
        if checksum and checksum[0] != _index_checksum(index, index_offset, self.size, self.lines, frame_size):
            raise self._corrupt_error("its index is damaged")
        self._frame_size: int = frame_size
        self._load_index(list(entry_format.iter_unpack(index)), index_offset)

    def _load_index(self, entries: list[tuple[int, ...]], index_offset: int) -> None:
        """Load the index and check that its entries are consistent."""
        self._is_uncompressed = [bool(entry[0] & _UNCOMPRESSED_FLAG) for entry in entries]
        self._frame_offsets = list(
            accumulate((entry[0] & ~_UNCOMPRESSED_FLAG for entry in entries), initial=len(_MAGIC))
        )
        self._newlines: list[int] = list(accumulate((entry[1] for entry in entries), initial=0))
        self._checksums = [entry[2] if len(entry) > 2 else None for entry in entries]
        are_sizes_valid = all(
            0 < next_offset - offset <= self._frame_size for offset, next_offset in pairwise(self._frame_offsets)
        )
        if (
            self._frame_offsets[-1] != index_offset
            or not are_sizes_valid
            or self.lines - self._newlines[-1] not in (0, 1)
        ):
            raise self._corrupt_error("its index is damaged")

    def read(self, offset: int, limit: int) -> bytes:
        """Read `limit` bytes from an offset. Returns fewer only at the end of the blob."""
        return b"".join(self.chunks(offset, offset + limit))

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the bytes from `start` to `end` in chunks of at most one frame."""
        end = self.size if end is None else min(end, self.size)
        while start < end:
            frame_index, frame_offset = divmod(start, self._frame_size)
            frame = self._frame_bytes(frame_index)[frame_offset : frame_offset + end - start]
            yield frame
            start += len(frame)

    def line_start(self, line: int) -> int:
        """Get the offset at which a line starts, counting lines from 1. If there is no such line, returns the size of
        the blob."""
        if line <= 1:
            return 0
        if line > self.lines:
            return self.size
        frame_index = bisect_right(self._newlines, line - 2) - 1
        frame = self._frame_bytes(frame_index)
        remainder = frame.split(b"\n", line - 1 - self._newlines[frame_index])[-1]
        return frame_index * self._frame_size + len(frame) - len(remainder)

    def line_end(self, offset: int) -> int:
        """Get the offset at which the line containing `offset` ends, excluding its line break."""
        frame_index, frame_offset = divmod(offset, self._frame_size)
        while frame_index < len(self._is_uncompressed):
            if self._newlines[frame_index + 1] > self._newlines[frame_index]:
                newline_offset = self._frame_bytes(frame_index).find(b"\n", frame_offset)
                if newline_offset >= 0:
                    return frame_index * self._frame_size + newline_offset
            frame_index, frame_offset = frame_index + 1, 0
        return self.size

    def close(self) -> None:
        """Close the file. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _frame_bytes(self, frame_index: int) -> bytes:
        if self._cached_frame[0] != frame_index:
            with self._translate_errors():
                self._cached_frame = frame_index, self._load_frame(frame_index)
        return self._cached_frame[1]

    def _load_frame(self, frame_index: int) -> bytes:
        start, end = self._frame_offsets[frame_index : frame_index + 2]
        data = self._bytes_at(start, end - start)
        size = min(self._frame_size, self.size - frame_index * self._frame_size)
        frame = data if self._is_uncompressed[frame_index] else self._decompress(data, size)
        newlines = self._newlines[frame_index + 1] - self._newlines[frame_index]
        checksum = self._checksums[frame_index]
        if (
            len(frame) != size
            or frame.count(b"\n") != newlines
            or (checksum is not None and checksum != zlib.crc32(frame))
        ):
            raise self._corrupt_error("a part of it is damaged")
        if checksum is None and len(self._checksums) == 1 and hashlib.sha256(frame).hexdigest() != self._digest:
            raise self._corrupt_error("its content is not what was written")
        return frame

    def _decompress(self, data: bytes, size: int) -> bytes:
        try:
            return zlib.decompressobj(-15).decompress(data, size + 1)
        except zlib.error as error:
            raise self._corrupt_error(f"a part of it cannot be decompressed ({error})") from error

    def _bytes_at(self, offset: int, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            chunk = os.pread(self._descriptor, length - len(data), offset + len(data))
            if not chunk:
                raise self._corrupt_error("its end is missing")
            data += chunk
        return bytes(data)

    def _corrupt_error(self, problem: str) -> StoreError:
        return StoreError("corrupt", f"the stored output `{self._digest[:12]}` is damaged: {problem}")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate system errors to `StoreError`."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            message = f"the stored output `{self._digest[:12]}` cannot be read: {error.strerror or error}"
            raise StoreError("unreadable", message) from error
