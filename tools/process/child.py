"""Programs that are talked to over their pipes, each in a process group of its own that ends with it: one that is told
lines and prints lines while it runs, one that is told something once and answers. It knows no protocol."""

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, cast

from ebbtide.tools.process.groups import GUARDIAN, TERMINATE_GRACE_S, ProcessFamily
from ebbtide.tools.process.lines import LineBuffer, OutputLine, TooLong
from ebbtide.tools.process.orphans import adopt_orphans, reap_orphans_in_background
from ebbtide.tools.process.own_memory import close_own_memory
from ebbtide.tools.process.program import within
from ebbtide.tools.process.shell import Launch

_MAX_WAITING_LINES = 1000
"""Lines that wait to be read before the program is made to wait."""
_EXIT_DRAIN_S = 0.2
"""Seconds in which a program that has exited is read on, because a child of it may hold the pipe open for ever."""


class Log(Protocol):
    """Takes what a program prints on its error output."""

    @property
    def last_line(self) -> str: ...

    def write(self, data: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Exit:
    code: int | None
    """None: it was not done in time, and was ended."""
    out: bytes
    """The beginning of what it printed."""
    err: bytes


class MessageBuffer(Protocol):
    """Takes bytes as they come and gives the messages that are complete, none larger than agreed."""

    @property
    def problem(self) -> str:
        """Why nothing more can be read out of what comes, if so."""

    def take(self, chunk: bytes) -> "Sequence[OutputLine]": ...


async def start_child(
    launch: Launch, folder: Path | None, log: Log, most: int, messages: MessageBuffer | None = None
) -> "Child":
    """Starts the program. `messages`: how its output is divided, if not into lines. Raises `OSError` or `ValueError`
    when it cannot be started."""
    try:
        child = await _running(Child(log, most, messages), launch, folder)
    finally:
        for each in launch.descriptors:
            os.close(each)
    GUARDIAN.guard(child.transport.get_pid())
    return child


async def answer_of(
    launch: Launch,
    told: bytes,
    folder: Path,
    seconds: float,
    most: int,
    begins: Callable[[bytes], object] = lambda _: None,
) -> Exit:
    """What the program answers, of each of its outputs at most so many bytes. `begins` is told the first line that it
    prints, as soon as it is there. Nothing of its process group is left when this returns or is cancelled. Raises
    `OSError` or `ValueError` when the program cannot be started."""
    try:
        program = await _running(_Answering(most, begins), launch, folder)
    finally:
        for each in launch.descriptors:
            os.close(each)
    try:
        with suppress(BrokenPipeError):  # nobody needs to listen
            program.write(told)
            program.close_input()
        await within(seconds, program.exited)
        code = program.code
        if code is not None:
            await within(_EXIT_DRAIN_S, program.is_silent)
        return Exit(code, bytes(program.kept[1]), bytes(program.kept[2]))
    finally:
        await program.kill(TERMINATE_GRACE_S)


class _Program(asyncio.SubprocessProtocol):
    """A running program and what it has started."""

    transport: asyncio.SubprocessTransport
    _family: ProcessFamily
    is_wrapped = False
    """The first process only waits for the program."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()

    @property
    def code(self) -> int | None:
        """The exit code, negative for the signal that ended it, or None while it runs."""
        return self.transport.get_returncode()

    def write(self, data: bytes) -> None:
        """Hands bytes to the program, which may take them later. Raises `BrokenPipeError` when it takes none."""
        pipe = cast(asyncio.WriteTransport | None, self.transport.get_pipe_transport(0))
        if pipe is None or pipe.is_closing():
            raise BrokenPipeError("its input is closed")
        pipe.write(data)

    def close_input(self) -> None:
        """What was written before is still handed over."""
        if (pipe := self.transport.get_pipe_transport(0)) is not None:
            pipe.close()

    def signal(self, number: int) -> bool:
        """Whether there is anybody in the group to take the signal."""
        return self._family.signal(number, is_reaped=self.code is not None)

    async def kill(self, grace: float) -> None:
        """Ends it and all that it has started by force."""
        with closing(self.transport):
            self.signal(signal.SIGKILL)
            await within(grace, self.exited)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.SubprocessTransport, transport)
        self._family = ProcessFamily(self.transport.get_pid(), is_wrapped=self.is_wrapped)

    def process_exited(self) -> None:
        self.exited.set()
        reap_orphans_in_background(self.transport.get_pid())


P = TypeVar("P", bound=_Program)


async def _running(program: P, launch: Launch, folder: Path | None) -> P:
    """Whoever is cancelled while it starts leaves nothing of it: the event loop would end the program alone."""
    close_own_memory()
    adopt_orphans()
    loop = asyncio.get_running_loop()
    program.is_wrapped = launch.is_wrapped
    start = loop.subprocess_exec(
        lambda: program,
        *launch.argv,
        env=dict(launch.environment),
        cwd=folder,
        start_new_session=True,
        pass_fds=launch.descriptors,
    )
    starting = asyncio.ensure_future(start)
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError, ValueError):  # then there is nothing to end
            await starting
            await program.kill(TERMINATE_GRACE_S)
        raise
    return program


class _Answering(_Program):
    """The beginning of each of its outputs is kept, what is beyond it let go."""

    def __init__(self, most: int, begins: Callable[[bytes], object]) -> None:
        super().__init__()
        self._begins: Callable[[bytes], object] | None = begins
        self.kept = {1: bytearray(), 2: bytearray()}
        self.is_silent = asyncio.Event()
        """Both outputs are closed."""
        self._most = most
        self._open = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.kept[fd] += data[: max(self._most - len(self.kept[fd]), 0)]
        if fd == 1 and self._begins is not None and b"\n" in data:
            begins, self._begins = self._begins, None
            begins(bytes(self.kept[1]).partition(b"\n")[0])

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.is_silent.set()


class Child(_Program):
    """Nothing that it prints is held beyond one line of `most` bytes and what is waiting."""

    def __init__(self, log: Log, most: int, messages: MessageBuffer | None = None) -> None:
        super().__init__()
        self.problem = ""
        """Why it is not read any more, when that is not because it ended."""
        self._log = log
        self._most = most
        self._lines = messages or LineBuffer(most)
        self._waiting: deque[OutputLine] = deque()
        self._bytes_waiting = 0
        self._is_paused = False
        self._news = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_over = False

    async def read(self) -> OutputLine | None:
        """The next line, None when no other one comes."""
        while not self._waiting:
            if self._is_over:
                return None
            self._news.clear()
            await self._news.wait()
        line = self._waiting.popleft()
        self._bytes_waiting -= _line_size(line)
        if len(self._waiting) < _MAX_WAITING_LINES // 2 and self._bytes_waiting < self._most:
            self._resume()
        return line

    def write(self, data: bytes) -> None:
        if self._is_over:
            raise BrokenPipeError("it is over")
        super().write(data)

    async def room(self) -> None:
        """Returns when the program has taken most of what it was given, or can take nothing any more."""
        await self._may_write.wait()

    async def end(self, grace: float = TERMINATE_GRACE_S) -> None:
        """Closes its input; `grace` seconds later at most the program and all of its group are gone: asked to end after
        half of that time, forced at its end, and at once when this is cancelled."""
        try:
            self._is_over = True
            self._news.set()
            self._may_write.set()
            self._waiting.clear()
            self._resume()
            self._family.look()
            self.close_input()
            await within(grace / 2, self.exited)
            if self.signal(signal.SIGTERM):
                await self._wait_for_group_end(grace / 2)
        finally:
            try:
                await self.kill(grace)
            finally:
                GUARDIAN.leave(self.transport.get_pid())

    async def ending(self) -> str:
        """Why it is over, with the last thing that it said about that."""
        if self.problem:
            return self.problem
        await within(_EXIT_DRAIN_S, self.exited)
        how = "it closed its pipes" if self.code is None else f"it ended with exit code {self.code}"
        return f"{how}: {self._log.last_line}" if self._log.last_line else how

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            cast(asyncio.ReadTransport, self.transport.get_pipe_transport(1)).resume_reading()

    async def _wait_for_group_end(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while self.signal(0) and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110  # a group tells nobody
            await asyncio.sleep(0.02)

    # What the event loop tells.

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._log.write(data)
            return
        if self._is_over:
            return
        for line in self._lines.take(data):
            self._waiting.append(line)
            self._bytes_waiting += _line_size(line)
        if problem := self._lines.problem:
            self.problem = f"it printed {problem}"
            self._end_reading()
        elif (len(self._waiting) > _MAX_WAITING_LINES or self._bytes_waiting > self._most) and not self._is_paused:
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
        super().process_exited()
        asyncio.get_running_loop().call_later(_EXIT_DRAIN_S, self._end_reading)

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


def _line_size(line: OutputLine) -> int:
    return len(line.head) + len(line.tail) if isinstance(line, TooLong) else len(line)
