"""Reads lines from a pipe, file or terminal without blocking the event loop."""

import asyncio
import os
import select
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from threading import Thread
from typing import TypeAlias

from ebbtide.tools.lazy import dataclass

MAX_LINE_BYTES = 64 << 20
"""Maximum size of a line, in bytes."""
_READ_CHUNK_BYTES = 1 << 16
_MAX_QUEUED_BATCHES = 8
"""Maximum number of queued batches of lines; the reader thread waits while the queue is full."""


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """Replaces a line that was too long and was discarded."""

    byte_count: int
    """Size in bytes."""


InputLine: TypeAlias = bytes | OversizedLine


class LineSplitter:
    """Splits chunks into lines. For a line that is too long, only the size is recorded."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._partial_line = bytearray()
        self._discarded_byte_count = 0
        """Number of bytes discarded so far from a line that is too long."""

    def feed(self, chunk: bytes) -> Iterator[InputLine]:
        """Yield the lines that end in this chunk, without their line endings."""
        first_piece, *later_pieces = chunk.split(b"\n")
        self._add(first_piece)
        for piece in later_pieces:
            yield self._finish_line()
            self._add(piece)

    def end(self) -> Iterator[InputLine]:
        """Yield the last line if it does not end with a line break."""
        if self._partial_line or self._discarded_byte_count:
            yield self._finish_line()

    def _add(self, piece: bytes) -> None:
        if self._discarded_byte_count or len(self._partial_line) + len(piece) > self._max_line_bytes:
            self._discarded_byte_count += len(self._partial_line) + len(piece)
            self._partial_line.clear()
        else:
            self._partial_line += piece

    def _finish_line(self) -> InputLine:
        line = OversizedLine(self._discarded_byte_count) if self._discarded_byte_count else bytes(self._partial_line)
        self._discarded_byte_count = 0
        self._partial_line = bytearray()
        return line


async def read_lines(file_descriptor: int, max_line_bytes: int = MAX_LINE_BYTES) -> AsyncGenerator[InputLine, None]:
    """Yield the lines from a file descriptor until it ends or cannot be read. A thread reads them, because asyncio
    cannot wait for regular files; it is a daemon thread, so a read that never returns does not keep the process alive.
    """
    loop, batches = asyncio.get_running_loop(), asyncio.Queue[tuple[InputLine, ...] | None](_MAX_QUEUED_BATCHES)

    def put(lines: tuple[InputLine, ...] | None) -> None:
        asyncio.run_coroutine_threadsafe(batches.put(lines), loop).result()

    def read() -> None:
        splitter = LineSplitter(max_line_bytes)
        with suppress(RuntimeError):  # the event loop was closed
            with suppress(OSError):
                while chunk := os.read(file_descriptor, _READ_CHUNK_BYTES):
                    if lines := tuple(splitter.feed(chunk)):
                        put(lines)
            put(tuple(splitter.end()))
            put(None)

    Thread(target=read, name="stdin", daemon=True).start()
    while (lines := await batches.get()) is not None:
        for line in lines:
            yield line


def is_still_read(file_descriptor: int) -> bool:
    """Whether output to a file descriptor can still be read; for a pipe, whether its other end is open."""
    poll = select.poll()
    poll.register(file_descriptor, 0)
    return not any(poll_events & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, poll_events in poll.poll(0))
