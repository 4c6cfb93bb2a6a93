"""A program that is talked to over its pipes, in a process group of its own: lines of bytes out, bytes in, its error
output in a log, ended with all its children. It knows no protocol."""

import asyncio
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from tools.groups import signal_group
from tools.guardian import GUARDIAN
from tools.mcp.lines import Line, LineBuffer, TooLong
from tools.mcp.log import ServerLog

GRACE = 2.0
"""Seconds that a program gets to end by itself once its input is closed. After half of them it is asked to."""

_MOST_WAITING = 1000
"""Lines that wait to be read before the program is made to wait."""
_LAST_WORDS = 0.2
"""Seconds in which a program that has exited is read on, because a child of it may hold the pipe open for ever."""


async def started(
    command: Sequence[str], environment: Mapping[str, str], folder: Path | None, log: ServerLog, most: int
) -> "Child":
    """Starts the program. Raises `OSError` or `ValueError` when that cannot be done."""
    loop = asyncio.get_running_loop()
    _, child = await loop.subprocess_exec(
        lambda: Child(log, most), *command, env=dict(environment), cwd=folder, start_new_session=True
    )
    GUARDIAN.guard(child.transport.get_pid())
    return child


class Child(asyncio.SubprocessProtocol):
    """A running program. Nothing that it prints is held beyond one line of `most` bytes and what is waiting."""

    transport: asyncio.SubprocessTransport

    def __init__(self, log: ServerLog, most: int) -> None:
        self.problem = ""
        """Why it is not read any more, when that is not because it ended."""
        self._log = log
        self._most = most
        self._lines = LineBuffer(most)
        self._waiting: deque[Line] = deque()
        self._bytes_waiting = 0
        self._is_paused = False
        self._news = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._exited = asyncio.Event()
        self._is_over = False

    @property
    def code(self) -> int | None:
        """The exit code, negative for the signal that ended it, or None while it runs."""
        return self.transport.get_returncode()

    async def read(self) -> Line | None:
        """The next line, None when no other one comes."""
        while not self._waiting:
            if self._is_over:
                return None
            self._news.clear()
            await self._news.wait()
        line = self._waiting.popleft()
        self._bytes_waiting -= _held(line)
        if len(self._waiting) < _MOST_WAITING // 2 and self._bytes_waiting < self._most:
            self._resume()
        return line

    def write(self, data: bytes) -> None:
        """Hands bytes to the program, which may take them later. Raises `BrokenPipeError` when it takes none."""
        pipe = cast(asyncio.WriteTransport | None, self.transport.get_pipe_transport(0))
        if pipe is None or pipe.is_closing() or self._is_over:
            raise BrokenPipeError("its input is closed")
        pipe.write(data)

    async def room(self) -> None:
        """Returns when the program has taken most of what it was given, or can take nothing any more."""
        await self._may_write.wait()

    async def end(self, grace: float = GRACE) -> None:
        """Closes its input; `grace` seconds later at most the program and all of its group are gone: asked to end after
        half of that time, forced at its end, and at once when this is cancelled."""
        try:
            self._is_over = True
            self._news.set()
            self._may_write.set()
            self._waiting.clear()
            self._resume()
            if (pipe := self.transport.get_pipe_transport(0)) is not None:
                pipe.close()
            await _within(grace / 2, self._exited)
            if self._signal(signal.SIGTERM):
                await self._group_gone(grace / 2)
        finally:
            try:
                self._signal(signal.SIGKILL)
                await _within(grace, self._exited)
            finally:
                self.transport.close()
                GUARDIAN.leave(self.transport.get_pid())

    async def ending(self) -> str:
        """Why it is over, with the last thing that it said about that."""
        if self.problem:
            return self.problem
        await _within(_LAST_WORDS, self._exited)
        how = "it closed its pipes" if self.code is None else f"it ended with exit code {self.code}"
        return f"{how}: {self._log.last_line}" if self._log.last_line else how

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            cast(asyncio.ReadTransport, self.transport.get_pipe_transport(1)).resume_reading()

    async def _group_gone(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while self._signal(0) and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110  # a group tells nobody
            await asyncio.sleep(0.02)

    def _signal(self, number: int) -> bool:
        """Whether there is anybody in the group to take the signal."""
        return signal_group(self.transport.get_pid(), number, is_reaped=self.code is not None)

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._log.write(data)
            return
        if self._is_over:
            return
        for line in self._lines.take(data):
            self._waiting.append(line)
            self._bytes_waiting += _held(line)
        if self._lines.size > 2 * self._most:
            self.problem = f"it printed a line of more than {2 * self._most:,} bytes"
            self._end_reading()
        elif (len(self._waiting) > _MOST_WAITING or self._bytes_waiting > self._most) and not self._is_paused:
            self._is_paused = True
            cast(asyncio.ReadTransport, self.transport.get_pipe_transport(1)).pause_reading()
        if self._waiting:
            self._news.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._end_reading()
        elif fd == 0:
            self._may_write.set()

    def process_exited(self) -> None:
        self._exited.set()
        asyncio.get_running_loop().call_later(_LAST_WORDS, self._end_reading)

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def _end_reading(self) -> None:
        self._is_over = True
        self._news.set()
        self._may_write.set()
        if self.problem and (pipe := self.transport.get_pipe_transport(1)) is not None:
            pipe.close()


def _held(line: Line) -> int:
    return len(line.head) + len(line.tail) if isinstance(line, TooLong) else len(line)


async def _within(seconds: float, event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
