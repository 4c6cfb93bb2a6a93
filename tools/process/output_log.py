"""A log file for a program's output. It is complete up to a limit; beyond that, only the beginning and end are kept."""

import os
from collections import deque
from contextlib import suppress
from threading import Lock

from ebbtide.tools.outputs.extent import MAX_OUTPUT_BYTES

MAX_RECLAIMED_BYTES = 1 << 20
"""Maximum number of bytes that a log gives up when the disk is full, so that the session itself can still be saved."""

_MAX_TAIL_BYTES = 1 << 20
"""Maximum number of bytes kept from the end of output that exceeds the limit. Never more than a quarter of the limit is
kept."""


class OutputLog:
    """A log that one thread writes, and others flush and read. If output exceeds the limit, its end is kept in memory
    until it is flushed."""

    def __init__(self, descriptor: int, limit: int = MAX_OUTPUT_BYTES) -> None:
        self.printed_bytes = 0
        """Bytes printed so far."""
        self.file_bytes = 0
        """Size of the file in bytes."""
        self.problem = ""
        """Why output could not be written, if writing has failed."""
        self.max_bytes = limit
        self._descriptor = descriptor
        self._max_tail_bytes = min(_MAX_TAIL_BYTES, limit // 4)
        self._remaining_head_bytes = limit - self._max_tail_bytes
        self._tail = deque[bytes]()
        self._buffered_bytes = self._unreported_dropped_bytes = 0
        self._dropped_bytes = 0
        """Number of bytes dropped so far, including those that the file does not mention yet."""
        self._lock = Lock()

    @property
    def is_truncated(self) -> bool:
        """Whether output was dropped because it exceeded the limit."""
        return self._dropped_bytes > 0

    @property
    def is_complete(self) -> bool:
        return not self._dropped_bytes and not self.problem

    def write(self, chunk: bytes) -> None:
        with self._lock:
            head = chunk[: self._remaining_head_bytes]
            self._remaining_head_bytes -= len(head)
            if head:
                self._write_to_file(head)
            if len(head) < len(chunk):
                self._buffer_tail(chunk[len(head) :])
            self.printed_bytes += len(chunk)

    def flush(self) -> int:
        """Write buffered output. If output was dropped, a line that says so comes first. Return the size of the
        file."""
        with self._lock:
            if self._tail:
                tail = b"".join(self._tail)
                excess = max(len(tail) - self._max_tail_bytes, 0)
                self._unreported_dropped_bytes += excess
                self._dropped_bytes += excess
                if self._unreported_dropped_bytes:
                    self._write_to_file(
                        f"\n[… {self._unreported_dropped_bytes:,} bytes of output dropped here …]\n".encode()
                    )
                self._write_to_file(tail[excess:])
                self._tail.clear()
                self._buffered_bytes = self._unreported_dropped_bytes = 0
            return self.file_bytes

    def _buffer_tail(self, chunk: bytes) -> None:
        self._tail.append(chunk)
        self._buffered_bytes += len(chunk)
        while self._buffered_bytes - len(self._tail[0]) >= self._max_tail_bytes:
            dropped_bytes = len(self._tail.popleft())
            self._buffered_bytes -= dropped_bytes
            self._unreported_dropped_bytes += dropped_bytes
            self._dropped_bytes += dropped_bytes

    def _write_to_file(self, data: bytes) -> None:
        if self.problem:
            return
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]
            self.file_bytes += len(data)
        except OSError as error:
            self.file_bytes -= min(self.file_bytes // 2, MAX_RECLAIMED_BYTES)
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.file_bytes)
            self.problem = f"the output after {self.file_bytes} bytes could not be stored: {error.strerror}"
