"""Bytes on disk, named by what they are. It knows files, not what refers to them.

A blob is a row of frames, each compressed by itself, and an index of them behind the last: a part in the middle of a
gigabyte is read without the rest. It is written under another name and gets its own when it is settled, so a file that
carries a digest is always whole.
"""

import hashlib
import os
import secrets
import struct
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from store.errors import StoreError, explained

FRAME = 1 << 18
"""Bytes that are compressed together. Decompressing them takes about a millisecond."""

_AT_ONCE = 2
"""Frames that are compressed at the same time; zlib lets other threads run."""

_MAGIC = b"EBB1"
_ENTRY = struct.Struct("<II")
_END = struct.Struct("<QQQI4s")
_AS_IT_IS = 1 << 31
"""Set in a frame's length when it is stored without compression."""
_SAMPLE = 1 << 12
"""Bytes of a frame that tell whether compressing the rest is worth the time."""


@dataclass(frozen=True, slots=True)
class Blob:
    digest: str
    size: int
    """Bytes."""
    lines: int
    """The last one counts also when no line end follows it."""


class Blobs:
    """Blobs in a folder. Its methods raise `StoreError`; they may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._incoming = folder / "incoming"

    def put(self, chunks: Iterable[bytes], owner: str) -> Blob:
        """Stores the bytes for an owner, without ever holding more than a few frames. The blob can be opened at once;
        it stays only if it is settled."""
        with explained(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._incoming.mkdir(mode=0o700, exist_ok=True)
            unfinished = self._incoming / f"{secrets.token_hex(8)}.part"
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with open(descriptor, "wb", buffering=0) as file:
                    writer = _Writer(file.write)
                    blob = writer.take(chunks)
                    os.fsync(descriptor)
                self._place(blob.digest).parent.mkdir(mode=0o700, exist_ok=True)
                os.replace(unfinished, self._unsettled(blob.digest, owner))
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
        return blob

    def settle(self, digest: str, owner: str) -> None:
        """Gives what the owner has put its place. To be called in the transaction that writes down who needs it."""
        with explained(self.folder):
            unsettled, place = self._unsettled(digest, owner), self._place(digest)
            if place.exists():
                unsettled.unlink(missing_ok=True)
                return
            place.parent.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):  # was settled before
                os.replace(unsettled, place)

    def discard(self, digest: str, owner: str) -> None:
        """Removes what the owner has put and not settled."""
        with explained(self.folder):
            self._unsettled(digest, owner).unlink(missing_ok=True)

    def open(self, digest: str) -> "BlobReader":
        """Raises `StoreError` ("missing") when there is no such blob."""
        with explained(self.folder):
            for path in (self._place(digest), *self._incoming.glob(f"{digest}.*")):
                with suppress(FileNotFoundError):
                    return BlobReader(path)
        raise StoreError("missing", f"the stored output `{digest[:12]}` is not there any more")

    def remove(self, digest: str) -> int:
        """Bytes on disk that this made free."""
        with explained(self.folder):
            place = self._place(digest)
            try:
                size = place.stat().st_size
                place.unlink()
            except FileNotFoundError:
                return 0
            with suppress(OSError):  # other blobs are in it
                place.parent.rmdir()
            return size

    def sizes(self) -> dict[str, int]:
        """The digests of all settled blobs, and what each takes on disk."""
        with explained(self.folder):
            return {
                path.name: path.stat().st_size
                for path in self.folder.glob("[0-9a-f][0-9a-f]/*")
                if len(path.name) == 64
            }

    def forget_unsettled(self, before: float) -> None:
        """Removes what was put before that time, in Unix seconds, and never settled: its process was killed."""
        with explained(self.folder):
            for path in self._incoming.glob("*"):
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < before:
                        path.unlink()

    def _place(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest

    def _unsettled(self, digest: str, owner: str) -> Path:
        return self._incoming / f"{digest}.{owner}"


class _Writer:
    """Writes one blob: two threads compress, this one hashes and writes."""

    def __init__(self, write: Callable[[memoryview], int]) -> None:
        self._write = write
        self._hash = hashlib.sha256()
        self._size = self._newlines = self._stored = 0
        self._ends_open = False
        self._index = bytearray()

    def take(self, chunks: Iterable[bytes]) -> Blob:
        self._put(_MAGIC)
        waiting: deque[tuple[Future[tuple[int, bytes]], int]] = deque()
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="blob") as threads:
            for frame in _frames(chunks):
                if len(waiting) > _AT_ONCE:
                    self._finish(*waiting.popleft())
                waiting.append((threads.submit(_pack, frame), self._count(frame)))
            while waiting:
                self._finish(*waiting.popleft())
        at = self._stored
        self._put(bytes(self._index))
        lines = self._newlines + self._ends_open
        self._put(_END.pack(at, self._size, lines, FRAME, _MAGIC))
        return Blob(self._hash.hexdigest(), self._size, lines)

    def _count(self, frame: bytes) -> int:
        newlines = frame.count(b"\n")
        self._hash.update(frame)
        self._size += len(frame)
        self._newlines += newlines
        self._ends_open = not frame.endswith(b"\n")
        return newlines

    def _finish(self, packed: "Future[tuple[int, bytes]]", newlines: int) -> None:
        mark, data = packed.result()
        self._index += _ENTRY.pack(len(data) | mark, newlines)
        self._put(data)

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._write(view) :]
        self._stored += len(data)


def _frames(chunks: Iterable[bytes]) -> Iterator[bytes]:
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= FRAME:
            yield bytes(held[:FRAME])
            del held[:FRAME]
    if held:
        yield bytes(held)


def _pack(frame: bytes) -> tuple[int, bytes]:
    sample = frame[:_SAMPLE]
    if len(zlib.compress(sample, 1, -15)) < len(sample) * 0.95:
        packed = zlib.compress(frame, 1, -15)
        if len(packed) < len(frame):
            return 0, packed
    return _AS_IT_IS, frame


class BlobReader:
    """The bytes of a blob, from any place in it. To be used by one thread at a time and closed in the end."""

    size: int
    lines: int

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        try:
            self._read_index(path)
        except BaseException:
            self._file.close()
            raise
        self._held: tuple[int, bytes] = -1, b""

    def _read_index(self, path: Path) -> None:
        try:
            self._file.seek(-_END.size, os.SEEK_END)
            at, self.size, self.lines, frame, magic = _END.unpack(self._file.read(_END.size))
            self._frame: int = frame
            self._file.seek(at)
            entries = list(_ENTRY.iter_unpack(self._file.read()[: -_END.size]))
        except (OSError, struct.error) as error:
            raise StoreError("corrupt", f"the stored output `{path}` is damaged: {error}") from error
        if magic != _MAGIC or len(entries) != -(-self.size // self._frame):
            raise StoreError("corrupt", f"the stored output `{path}` is damaged")
        self._as_it_is = [bool(length & _AS_IT_IS) for length, _ in entries]
        self._at = list(accumulate((length & ~_AS_IT_IS for length, _ in entries), initial=len(_MAGIC)))
        self._newlines: list[int] = list(accumulate((count for _, count in entries), initial=0))
        self._name = path.name

    def read(self, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from an offset on; fewer only at the end."""
        return b"".join(self.chunks(offset, offset + limit))

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` up to `end`, a frame or less at a time."""
        end = self.size if end is None else min(end, self.size)
        while start < end:
            number, skip = divmod(start, self._frame)
            frame = self._unpacked(number)[skip : skip + end - start]
            yield frame
            start += len(frame)

    def line_start(self, line: int) -> int:
        """Where a line begins, counted from 1; the size of the blob for lines that it does not have."""
        if line <= 1:
            return 0
        if line > self.lines:
            return self.size
        number = bisect_right(self._newlines, line - 2) - 1
        frame = self._unpacked(number)
        rest = frame.split(b"\n", line - 1 - self._newlines[number])[-1]
        return number * self._frame + len(frame) - len(rest)

    def line_end(self, offset: int) -> int:
        """Where the line that holds an offset ends, without its line end."""
        number, skip = divmod(offset, self._frame)
        while number < len(self._as_it_is):
            if self._newlines[number + 1] > self._newlines[number]:
                found = self._unpacked(number).find(b"\n", skip)
                if found >= 0:
                    return number * self._frame + found
            number, skip = number + 1, 0
        return self.size

    def line_at(self, offset: int) -> int:
        """The number of the line that holds an offset."""
        number, skip = divmod(offset, self._frame)
        if number >= len(self._as_it_is):
            return self.lines
        return self._newlines[number] + self._unpacked(number).count(b"\n", 0, skip) + 1

    def close(self) -> None:
        self._file.close()

    def _unpacked(self, number: int) -> bytes:
        if self._held[0] != number:
            self._held = number, self._load(number)
        return self._held[1]

    def _load(self, number: int) -> bytes:
        start, end = self._at[number : number + 2]
        self._file.seek(start)
        data = self._file.read(end - start)
        try:
            frame = data if self._as_it_is[number] else zlib.decompress(data, -15, self._frame)
        except zlib.error as error:
            raise StoreError("corrupt", f"the stored output `{self._name}` is damaged: {error}") from error
        if len(frame) != min(self._frame, self.size - number * self._frame):
            raise StoreError("corrupt", f"the stored output `{self._name}` is damaged")
        return frame
