"""Log file for a program's output, complete up to a limit, and beyond it reduced to beginning and end."""

import os
from collections import deque
from contextlib import suppress
from threading import Lock

from ebbtide.tools.outputs.extent import MAX_OUTPUT_BYTES

MAX_RECLAIMED_BYTES = 1 << 20
"""Maximum number of bytes that a log frees when the disk is full, so that the session itself can still be saved."""

_TAIL = 1 << 20
"""Bytes stored of the end of output over the limit, or a quarter of a smaller limit."""


class OutputLog:
    """Written from one thread, and flushed and read from others. The end of output over the limit stays in memory until
    a flush."""

    def __init__(self, descriptor: int, limit: int = MAX_OUTPUT_BYTES) -> None:
        self.size = 0
        """Bytes printed so far."""
        self.written = 0
        """Bytes in the file as of the last flush."""
        self.problem = ""
        """Why output could not be written, or an empty string."""
        self.limit = limit
        self._descriptor = descriptor
        self._tail_size = min(_TAIL, limit // 4)
        self._room = limit - self._tail_size
        self._tail = deque[bytes]()
        self._held = self._skipped = 0
        self._lost = 0
        """Bytes dropped so far, whether or not the file mentions it."""
        self._lock = Lock()

    @property
    def is_over(self) -> bool:
        """Whether output over the limit was dropped."""
        return self._lost > 0

    @property
    def is_whole(self) -> bool:
        return not self._lost and not self.problem

    def write(self, chunk: bytes) -> None:
        with self._lock:
            now = chunk[: self._room]
            self._room -= len(now)
            if now:
                self._put(now)
            if len(now) < len(chunk):
                self._hold(chunk[len(now) :])
            self.size += len(chunk)

    def flush(self) -> int:
        """Write buffered output, preceded by a line on dropped output if there is any. Returns the size of the file."""
        with self._lock:
            if self._tail:
                held = b"".join(self._tail)
                more = max(len(held) - self._tail_size, 0)
                self._skipped, self._lost = self._skipped + more, self._lost + more
                if self._skipped:
                    self._put(f"\n[… {self._skipped:,} bytes of output dropped here …]\n".encode())
                self._put(held[more:])
                self._tail.clear()
                self._held = self._skipped = 0
            return self.written

    def _hold(self, chunk: bytes) -> None:
        self._tail.append(chunk)
        self._held += len(chunk)
        while self._held - len(self._tail[0]) >= self._tail_size:
            size = len(self._tail.popleft())
            self._held, self._skipped, self._lost = self._held - size, self._skipped + size, self._lost + size

    def _put(self, data: bytes) -> None:
        if self.problem:
            return
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]
            self.written += len(data)
        except OSError as error:
            self.written -= min(self.written // 2, MAX_RECLAIMED_BYTES)
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.written)
            self.problem = f"the output after {self.written} bytes could not be stored: {error.strerror}"
