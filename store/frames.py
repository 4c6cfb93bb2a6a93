"""Compresses the contents of several files together in frames, which takes less space than compressing each file
separately. It does not access the database."""

import sys
import zlib
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FRAME_BYTES = 1 << 18
"""Number of bytes compressed together."""
_SAMPLE_BYTES = 1 << 12
"""Number of bytes of a frame that are compressed as a test of whether compression is worthwhile."""
_MAX_PENDING_FRAMES = 32
"""Maximum number of frames waiting to be written."""
_MIN_BULK_LOOKUPS = 500
"""Number of digest lookups above which it is faster to load all digests at once."""
_RAW, _DEFLATE, _ZSTD = 0, 1, 2
"""Storage formats of a frame."""
_ZSTD_LEVEL = 3
MAX_HEAD_BYTES = 18
"""Maximum size in bytes of a frame's header, which states the uncompressed size."""

DECOMPRESS_ERRORS = (zlib.error, zstd.ZstdError)
"""Errors raised when decompressing a damaged frame."""


class FrameStore(Protocol):
    """Stores frames."""

    def is_missing(self, digest: bytes) -> bool: ...

    def digests(self) -> set[bytes]: ...

    def require_disk_space(self, size: int) -> None: ...

    def put(self, contents: Sequence[tuple[bytes, bytes]], packed: tuple[int, bytes] | None = None) -> None: ...

    def transaction(self) -> AbstractContextManager[None]: ...


class FrameWriter:
    """Collects contents, compresses them in threads and writes the frames in order."""

    def __init__(self, store: FrameStore, executor: ThreadPoolExecutor) -> None:
        self._store = store
        self._executor = executor
        self._pending_contents: dict[bytes, bytes] = {}
        self._size = 0
        self._known_digests: set[bytes] = set()
        self._lookup_count = 0
        self._pending_frames: deque[tuple[list[tuple[bytes, bytes]], Future[tuple[int, bytes]]]] = deque()

    def add(self, digest: bytes, content: bytes) -> None:
        self._lookup_count += 1
        if self._lookup_count == _MIN_BULK_LOOKUPS:
            self._known_digests |= self._store.digests()
        if digest in self._known_digests or (
            self._lookup_count < _MIN_BULK_LOOKUPS and not self._store.is_missing(digest)
        ):
            return
        self._known_digests.add(digest)
        self._pending_contents[digest] = content
        self._size += len(content)
        if self._size >= FRAME_BYTES:
            self._submit_frame()
        if len(self._pending_frames) >= _MAX_PENDING_FRAMES:
            self._write_frames(_MAX_PENDING_FRAMES // 2)

    def finish(self) -> None:
        self._submit_frame()
        self._write_frames(len(self._pending_frames))

    def _submit_frame(self) -> None:
        if self._pending_contents:
            contents = list(self._pending_contents.items())
            self._pending_frames.append((contents, self._executor.submit(_pack_contents, contents)))
        self._pending_contents, self._size = {}, 0

    def _write_frames(self, count: int) -> None:
        if not count:
            return
        frames = [
            (contents, packed.result()) for contents, packed in (self._pending_frames.popleft() for _ in range(count))
        ]
        self._store.require_disk_space(sum(len(data) for _, (_, data) in frames))
        with self._store.transaction():
            for contents, packed in frames:
                self._store.put(contents, packed)


def _pack_contents(contents: Sequence[tuple[bytes, bytes]]) -> tuple[int, bytes]:
    return pack(b"".join(content for _, content in contents))


def pack(data: bytes) -> tuple[int, bytes]:
    """Compress data if that makes it smaller. Returns the storage format and the bytes."""
    sample = data[:_SAMPLE_BYTES]
    if len(zstd.compress(sample, 1)) < len(sample) * 0.95:
        packed = zstd.compress(data, _ZSTD_LEVEL)
        if len(packed) < len(data):
            return _ZSTD, packed
    return _RAW, data


def unpack(storage_format: int, data: bytes) -> bytes:
    """Restore the original bytes. Raises one of `DECOMPRESS_ERRORS`."""
    if storage_format == _ZSTD:
        return zstd.decompress(data)
    return zlib.decompress(data, -15) if storage_format == _DEFLATE else data


def unpacked_size(storage_format: int, header: bytes, size: int) -> int | None:
    """Get the uncompressed size of a frame of `size` bytes; None if the frame does not state it or is damaged.
    `header`: the first `MAX_HEAD_BYTES` bytes of the frame."""
    if storage_format == _RAW:
        return size
    try:
        return zstd.get_frame_info(header).decompressed_size if storage_format == _ZSTD else None
    except zstd.ZstdError:
        return None
