"""Lines of a pipe, a file or a terminal, read as they come and without holding up the event loop."""

import asyncio
import os
import select
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from threading import Thread
from typing import TypeAlias

from ebbtide.tools.lazy import dataclass

MAX_LINE_BYTES = 64 << 20
"""Bytes of a line that is taken."""
_PIECE = 1 << 16
_WAITING = 8
"""Pieces that may wait for whoever takes the lines; the writer of more of them waits."""


@dataclass(frozen=True, slots=True)
class LineTooLong:
    """In place of a line of which nothing was kept."""

    size: int
    """Bytes."""


InputLine: TypeAlias = bytes | LineTooLong


class LineSplitter:
    """Makes lines of pieces. Of a line that is too long it only keeps how long it is."""

    def __init__(self, longest: int = MAX_LINE_BYTES) -> None:
        self._longest = longest
        self._begun = bytearray()
        self._dropped = 0
        """Bytes of a line that is too long, so far."""

    def feed(self, piece: bytes) -> Iterator[InputLine]:
        """The lines that end in this piece, without their ends."""
        first, *rest = piece.split(b"\n")
        self._add(first)
        for part in rest:
            yield self._finish_line()
            self._add(part)

    def end(self) -> Iterator[InputLine]:
        """The last line, where it has no end."""
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
    """The lines that come from a file descriptor, until it ends or cannot be read any more. A thread reads, since a
    regular file cannot be waited for; it ends with the process where nothing comes any more."""
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[tuple[InputLine, ...] | None](_WAITING)

    def put(lines: tuple[InputLine, ...] | None) -> None:
        asyncio.run_coroutine_threadsafe(pieces.put(lines), loop).result()

    def read() -> None:
        splitter = LineSplitter(longest)
        with suppress(RuntimeError):  # the loop has ended: nobody takes lines any more
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
    """Whether what is written to a file descriptor can still arrive: whether somebody holds the other end of a pipe."""
    poll = select.poll()
    poll.register(handle, 0)
    return not any(state & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, state in poll.poll(0))
