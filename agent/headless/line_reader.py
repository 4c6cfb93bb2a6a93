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
"""Maximum size of a line."""
_PIECE = 1 << 16
_WAITING = 8
"""Maximum number of queued chunks, after which the reader thread waits."""


@dataclass(frozen=True, slots=True)
class LineTooLong:
    """Stands for a line that was too long and was dropped."""

    size: int
    """Size in bytes."""


InputLine: TypeAlias = bytes | LineTooLong


class LineSplitter:
    """Splits chunks into lines. Only the size of a line that is too long is remembered."""

    def __init__(self, longest: int = MAX_LINE_BYTES) -> None:
        self._longest = longest
        self._begun = bytearray()
        self._dropped = 0
        """Bytes dropped so far of a line that is too long."""

    def feed(self, piece: bytes) -> Iterator[InputLine]:
        """Yield the lines that end in this chunk, without their line ends."""
        first, *rest = piece.split(b"\n")
        self._add(first)
        for part in rest:
            yield self._finish_line()
            self._add(part)

    def end(self) -> Iterator[InputLine]:
        """Yield the last line if it has no line end."""
        if self._begun or self._dropped:
            yield self._finish_line()

    def _add(self, part: bytes) -> None:
        if self._dropped or len(self._begun) + len(part) > self._longest:
            self._dropped += len(self._begun) + len(part)
            self._begun.clear()
        else:
            self._begun += part

    def _finish_line(self) -> InputLine:
        line = LineTooLong(self._dropped) if self._dropped else bytes(self._begun)
        self._dropped = 0
        self._begun = bytearray()
        return line


async def lines_of(handle: int, longest: int = MAX_LINE_BYTES) -> AsyncGenerator[InputLine, None]:
    """Yield the lines from a file descriptor until it ends or cannot be read. A thread reads, since asyncio cannot wait
    for regular files; it ends with the process if no more input comes."""
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[tuple[InputLine, ...] | None](_WAITING)

    def put(lines: tuple[InputLine, ...] | None) -> None:
        asyncio.run_coroutine_threadsafe(pieces.put(lines), loop).result()

    def read() -> None:
        splitter = LineSplitter(longest)
        with suppress(RuntimeError):  # the loop has ended
            with suppress(OSError):
                while piece := os.read(handle, _PIECE):
                    if lines := tuple(splitter.feed(piece)):
                        put(lines)
            put(tuple(splitter.end()))
            put(None)

    Thread(target=read, name="stdin", daemon=True).start()
    while (lines := await pieces.get()) is not None:
        for line in lines:
            yield line


def has_reader(handle: int) -> bool:
    """Whether output to a file descriptor can still be read: whether the other end of a pipe is open."""
    poll = select.poll()
    poll.register(handle, 0)
    return not any(state & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, state in poll.poll(0))
