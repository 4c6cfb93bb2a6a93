"""Compresses the contents of several files together in frames, which takes less space than separately. Independent of
the database."""

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

FRAME = 1 << 18
"""Bytes compressed together."""
_SAMPLE = 1 << 12
"""Bytes of a frame that are compressed to decide whether compression is worthwhile."""
_AT_ONCE = 32
"""Maximum number of frames waiting to be written."""
_BULK_LOOKUP_MIN = 500
"""Number of contents above which loading all digests is faster than asking for each."""
_RAW, _DEFLATE, _ZSTD = 0, 1, 2
"""Storage formats of a frame."""
_LEVEL = 3

DECOMPRESS_ERRORS = (zlib.error, zstd.ZstdError)
"""Errors raised for a damaged frame."""


class FrameStore(Protocol):
    """Stores frames."""

    def lacks(self, digest: bytes) -> bool: ...

    def digests(self) -> set[bytes]: ...

    def require_disk_space(self, size: int) -> None: ...

    def put(self, contents: Sequence[tuple[bytes, bytes]], packed: tuple[int, bytes] | None = None) -> None: ...

    def transaction(self) -> AbstractContextManager[None]: ...


class FrameWriter:
    """Collects contents, compresses them in threads, and writes the frames in order."""

    def __init__(self, store: FrameStore, threads: ThreadPoolExecutor) -> None:
        self._store = store
        self._threads = threads
        self._held: dict[bytes, bytes] = {}
        self._size = 0
        self._coming: set[bytes] = set()
        self._asked = 0
        self._packing: deque[tuple[list[tuple[bytes, bytes]], Future[tuple[int, bytes]]]] = deque()

    def take(self, digest: bytes, content: bytes) -> None:
        self._asked += 1
        if self._asked == _BULK_LOOKUP_MIN:
            self._coming |= self._store.digests()
        if digest in self._coming or (self._asked < _BULK_LOOKUP_MIN and not self._store.lacks(digest)):
            return
        self._coming.add(digest)
        self._held[digest] = content
        self._size += len(content)
        if self._size >= FRAME:
            self._send()
        if len(self._packing) >= _AT_ONCE:
            self._write(_AT_ONCE // 2)

    def finish(self) -> None:
        self._send()
        self._write(len(self._packing))

    def _send(self) -> None:
        if self._held:
            contents = list(self._held.items())
            self._packing.append((contents, self._threads.submit(_pack_contents, contents)))
        self._held, self._size = {}, 0

    def _write(self, count: int) -> None:
        if not count:
            return
        frames = [(contents, packed.result()) for contents, packed in (self._packing.popleft() for _ in range(count))]
        self._store.require_disk_space(sum(len(data) for _, (_, data) in frames))
        with self._store.transaction():
            for contents, packed in frames:
                self._store.put(contents, packed)


def _pack_contents(contents: Sequence[tuple[bytes, bytes]]) -> tuple[int, bytes]:
    return pack(b"".join(content for _, content in contents))


def pack(data: bytes) -> tuple[int, bytes]:
    """Return the storage format and the bytes, compressed if that makes them smaller."""
    sample = data[:_SAMPLE]
    if len(zstd.compress(sample, 1)) < len(sample) * 0.95:
        packed = zstd.compress(data, _LEVEL)
        if len(packed) < len(data):
            return _ZSTD, packed
    return _RAW, data


def unpack(how: int, data: bytes) -> bytes:
    """Return the original bytes. Raises one of `DECOMPRESS_ERRORS`."""
    if how == _ZSTD:
        return zstd.decompress(data)
    return zlib.decompress(data, -15) if how == _DEFLATE else data
