"""Programs with piped input and output, each in a process group of its own that ends with it: long-running ones that
exchange lines, and one-shot ones that get an input and answer. Independent of any protocol."""

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
"""Number of unread lines after which reading pauses."""
_EXIT_DRAIN_S = 0.2
"""Seconds to read on after a program has exited, since a child of it may keep the pipe open forever."""


class Log(Protocol):
    """Receives what a program prints on its error output."""

    @property
    def last_line(self) -> str: ...

    def write(self, data: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Exit:
    code: int | None
    """None if it did not finish in time and was ended."""
    out: bytes
    """The beginning of its output."""
    err: bytes


class MessageBuffer(Protocol):
    """Collects bytes and returns complete messages of limited size."""

    @property
    def problem(self) -> str:
        """Why no more messages can be read, or an empty string."""

    def take(self, chunk: bytes) -> "Sequence[OutputLine]": ...


async def start_child(
    launch: Launch, folder: Path | None, log: Log, most: int, messages: MessageBuffer | None = None
) -> "Child":
    """Start the program. `messages` splits its output, which by default is lines. Raises `OSError` or `ValueError` if
    it cannot be started."""
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
    """Return what the program answers to an input, with up to `most` bytes of each output. `begins` gets the first line
    as soon as it is printed. When this returns or is cancelled, nothing of its process group is left. Raises `OSError`
    or `ValueError` if the program cannot be started."""
    try:
        program = await _running(_Answering(most, begins), launch, folder)
    finally:
        for each in launch.descriptors:
            os.close(each)
    try:
        with suppress(BrokenPipeError):  # programs need not read their input
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
    """A running program with its child processes."""

    transport: asyncio.SubprocessTransport
    _family: ProcessFamily
    is_wrapped = False
    """Whether the first process only waits for the program."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs."""
        return self.transport.get_returncode()

    def write(self, data: bytes) -> None:
        """Queue bytes for the program. Raises `BrokenPipeError` if it accepts none."""
        pipe = cast(asyncio.WriteTransport | None, self.transport.get_pipe_transport(0))
        if pipe is None or pipe.is_closing():
            raise BrokenPipeError("its input is closed")
        pipe.write(data)

    def close_input(self) -> None:
        """Close the input after everything written has been delivered."""
        if (pipe := self.transport.get_pipe_transport(0)) is not None:
            pipe.close()

    def signal(self, number: int) -> bool:
        """Signal the process group, and return whether it has any process."""
        return self._family.signal(number, is_reaped=self.code is not None)

    async def kill(self, grace: float) -> None:
        """Kill the program and everything that it started."""
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
    """Start the program. If cancelled meanwhile, kills all of it: the event loop would end only the program itself."""
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
        with suppress(OSError, ValueError):  # there is nothing to end then
            await starting
            await program.kill(TERMINATE_GRACE_S)
        raise
    return program


class _Answering(_Program):
    """Stores the beginning of each output and discards the rest."""

    def __init__(self, most: int, begins: Callable[[bytes], object]) -> None:
        super().__init__()
        self._begins: Callable[[bytes], object] | None = begins
        self.kept = {1: bytearray(), 2: bytearray()}
        self.is_silent = asyncio.Event()
        """Set when both outputs are closed."""
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
    """A program with its output split into messages. Buffers at most one line of `most` bytes and the unread lines."""

    def __init__(self, log: Log, most: int, messages: MessageBuffer | None = None) -> None:
        super().__init__()
        self.problem = ""
        """Why it is no longer read, if it has not ended."""
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
        """Return the next line, or None at the end."""
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
        """Wait until the program has read most of its input, or cannot read any more."""
        await self._may_write.wait()

    async def end(self, grace: float = TERMINATE_GRACE_S) -> None:
        """Close its input and end the program with all of its group within `grace` seconds: SIGTERM after half of that
        time and SIGKILL at the end, or at once if cancelled."""
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
        """Return why it is over, with the last line of its error output."""
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
        while self.signal(0) and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110  # no event exists
            await asyncio.sleep(0.02)

    # Callbacks of the event loop.

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
