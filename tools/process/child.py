"""Programs with piped input and output: long-running ones that exchange messages, and ones that are given a single
input. Each has its own process group, which is ended together with the program. Independent of any protocol."""

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, cast

from ebbtide.tools.process.groups import GUARDIAN, TERMINATE_GRACE_S, ProcessTree
from ebbtide.tools.process.lines import LineBuffer, OutputLine, TruncatedLine
from ebbtide.tools.process.orphans import adopt_orphans, reap_orphans_in_background
from ebbtide.tools.process.own_memory import protect_own_memory
from ebbtide.tools.process.program import wait_for_event
from ebbtide.tools.process.shell import Launch

_MAX_PENDING_LINES = 1000
"""Reading pauses once this many lines are unread."""
_EXIT_DRAIN_S = 0.2
"""Seconds to read the remaining output after a program has exited. A child may keep the pipe open forever."""


class StderrLog(Protocol):
    """Receives what a program writes to stderr."""

    @property
    def last_line(self) -> str: ...

    def write(self, data: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class ChildResult:
    code: int | None
    """The exit code; None if the program was ended because it ran out of time."""
    output: bytes
    """The beginning of the output."""
    error_output: bytes


class MessageBuffer(Protocol):
    """Collects bytes and returns complete messages, which are limited in size."""

    @property
    def problem(self) -> str:
        """Why no more messages can be read, if reading has failed."""

    def feed(self, chunk: bytes) -> "Sequence[OutputLine]": ...


async def start_child(
    launch: Launch, folder: Path | None, log: StderrLog, max_line_bytes: int, messages: MessageBuffer | None = None
) -> "Child":
    """Start the program. `messages`: splits its output into messages; by default, into lines. Raises `OSError` or
    `ValueError` if the program cannot be started."""
    try:
        child = await _start_program(Child(log, max_line_bytes, messages), launch, folder)
    finally:
        for descriptor in launch.descriptors:
            os.close(descriptor)
    GUARDIAN.guard(child.transport.get_pid())
    return child


async def run_with_input(
    launch: Launch,
    input_bytes: bytes,
    folder: Path,
    seconds: float,
    max_output_bytes: int,
    on_first_line: Callable[[bytes], object] = lambda _: None,
) -> ChildResult:
    """Run the program with an input. Return its exit code and up to `max_output_bytes` bytes each of stdout and stderr.
    `on_first_line` is called with the first line as soon as it is printed. When this returns or is cancelled, every
    process in the group has ended. Raises `OSError` or `ValueError` if the program cannot be started."""
    try:
        program = await _start_program(_OutputCollector(max_output_bytes, on_first_line), launch, folder)
    finally:
        for descriptor in launch.descriptors:
            os.close(descriptor)
    try:
        with suppress(BrokenPipeError):  # programs may ignore their input
            program.write(input_bytes)
            program.close_input()
        await wait_for_event(seconds, program.exited)
        code = program.code
        if code is not None:
            await wait_for_event(_EXIT_DRAIN_S, program.outputs_closed)
        return ChildResult(code, bytes(program.output[1]), bytes(program.output[2]))
    finally:
        await program.kill(TERMINATE_GRACE_S)


class _PipedProgram(asyncio.SubprocessProtocol):
    """A running program and its child processes."""

    transport: asyncio.SubprocessTransport
    _process_tree: ProcessTree
    is_wrapped = False
    """Whether the first process is a wrapper that only waits for the program."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while the program runs."""
        return self.transport.get_returncode()

    def write(self, data: bytes) -> None:
        """Queue bytes for the program. Raises `BrokenPipeError` if the program accepts no more input."""
        pipe = cast(asyncio.WriteTransport | None, self.transport.get_pipe_transport(0))
        if pipe is None or pipe.is_closing():
            raise BrokenPipeError("its input is closed")
        pipe.write(data)

    def close_input(self) -> None:
        """Close the input once everything written has been delivered."""
        if (pipe := self.transport.get_pipe_transport(0)) is not None:
            pipe.close()

    def signal(self, signal_number: int) -> bool:
        """Send a signal to the process group; return whether the group has any processes."""
        return self._process_tree.signal(signal_number, is_reaped=self.code is not None)

    async def kill(self, grace: float) -> None:
        """Kill the program and everything that it started."""
        with closing(self.transport):
            self.signal(signal.SIGKILL)
            await wait_for_event(grace, self.exited)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.SubprocessTransport, transport)
        self._process_tree = ProcessTree(self.transport.get_pid(), is_wrapped=self.is_wrapped)

    def process_exited(self) -> None:
        self.exited.set()
        reap_orphans_in_background(self.transport.get_pid())


ProgramT = TypeVar("ProgramT", bound=_PipedProgram)


async def _start_program(program: ProgramT, launch: Launch, folder: Path | None) -> ProgramT:
    """Start the program. If cancelled, kill all of its processes, because the event loop would kill only the program
    itself."""
    protect_own_memory()
    adopt_orphans()
    loop = asyncio.get_running_loop()
    program.is_wrapped = launch.is_wrapped
    startup = loop.subprocess_exec(
        lambda: program,
        *launch.argv,
        env=dict(launch.environment),
        cwd=folder,
        start_new_session=True,
        pass_fds=launch.descriptors,
    )
    start_task = asyncio.ensure_future(startup)
    try:
        await asyncio.shield(start_task)
    except asyncio.CancelledError:
        with suppress(OSError, ValueError):  # if the start fails, there is nothing to kill
            await start_task
            await program.kill(TERMINATE_GRACE_S)
        raise
    return program


class _OutputCollector(_PipedProgram):
    """Stores the beginning of stdout and stderr, and discards the rest."""

    def __init__(self, max_bytes: int, on_first_line: Callable[[bytes], object]) -> None:
        super().__init__()
        self._on_first_line: Callable[[bytes], object] | None = on_first_line
        self.output = {1: bytearray(), 2: bytearray()}
        self.outputs_closed = asyncio.Event()
        """Set when both outputs are closed."""
        self._max_bytes = max_bytes
        self._open_descriptors = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output[fd] += data[: max(self._max_bytes - len(self.output[fd]), 0)]
        if fd == 1 and self._on_first_line is not None and b"\n" in data:
            on_first_line, self._on_first_line = self._on_first_line, None
            on_first_line(bytes(self.output[1]).partition(b"\n")[0])

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open_descriptors.discard(fd)
        if not self._open_descriptors:
            self.outputs_closed.set()


class Child(_PipedProgram):
    """A program whose output is split into messages. Buffers unread lines, and up to `max_pending_bytes` bytes of one
    incomplete line."""

    def __init__(self, log: StderrLog, max_pending_bytes: int, messages: MessageBuffer | None = None) -> None:
        super().__init__()
        self.problem = ""
        """Why reading has stopped although the program is still running."""
        self._log = log
        self._max_pending_bytes = max_pending_bytes
        self._messages = messages or LineBuffer(max_pending_bytes)
        self._pending_lines: deque[OutputLine] = deque()
        self._pending_bytes = 0
        self._is_paused = False
        self._change_event = asyncio.Event()
        self._write_event = asyncio.Event()
        self._write_event.set()
        self._is_closed = False

    async def read(self) -> OutputLine | None:
        """Return the next line; None at the end of the output."""
        while not self._pending_lines:
            if self._is_closed:
                return None
            self._change_event.clear()
            await self._change_event.wait()
        line = self._pending_lines.popleft()
        self._pending_bytes -= _line_size(line)
        if len(self._pending_lines) < _MAX_PENDING_LINES // 2 and self._pending_bytes < self._max_pending_bytes:
            self._resume()
        return line

    def write(self, data: bytes) -> None:
        if self._is_closed:
            raise BrokenPipeError("the program has ended")
        super().write(data)

    async def wait_for_room(self) -> None:
        """Wait until the program has read most of its input or stops reading."""
        await self._write_event.wait()

    async def end(self, grace: float = TERMINATE_GRACE_S) -> None:
        """Close the program's input, and end its whole group within `grace` seconds. Sends SIGTERM after half of that
        time and SIGKILL at the end. If cancelled, sends SIGKILL at once."""
        try:
            self._is_closed = True
            self._change_event.set()
            self._write_event.set()
            self._pending_lines.clear()
            self._resume()
            self._process_tree.record_descendants()
            self.close_input()
            await wait_for_event(grace / 2, self.exited)
            if self.signal(signal.SIGTERM):
                await self._wait_for_group_end(grace / 2)
        finally:
            try:
                await self.kill(grace)
            finally:
                GUARDIAN.release(self.transport.get_pid())

    async def end_reason(self) -> str:
        """Say why communication with the program has ended, including the last line of its stderr."""
        if self.problem:
            return self.problem
        await wait_for_event(_EXIT_DRAIN_S, self.exited)
        reason = "it closed its pipes" if self.code is None else f"it ended with exit code {self.code}"
        return f"{reason}: {self._log.last_line}" if self._log.last_line else reason

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            cast(asyncio.ReadTransport, self.transport.get_pipe_transport(1)).resume_reading()

    async def _wait_for_group_end(self, seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while self.signal(0) and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110  # no event exists
            await asyncio.sleep(0.02)

    # Callbacks of the event loop

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._log.write(data)
            return
        if self._is_closed:
            return
        for line in self._messages.feed(data):
            self._pending_lines.append(line)
            self._pending_bytes += _line_size(line)
        if problem := self._messages.problem:
            self.problem = f"it printed {problem}"
            self._end_reading()
        elif (
            len(self._pending_lines) > _MAX_PENDING_LINES or self._pending_bytes > self._max_pending_bytes
        ) and not self._is_paused:
            self._is_paused = True
            cast(asyncio.ReadTransport, self.transport.get_pipe_transport(1)).pause_reading()
        if self._pending_lines:
            self._change_event.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._end_reading()
        elif fd == 0:
            self._write_event.set()

    def process_exited(self) -> None:
        super().process_exited()
        asyncio.get_running_loop().call_later(_EXIT_DRAIN_S, self._end_reading)

    def pause_writing(self) -> None:
        self._write_event.clear()

    def resume_writing(self) -> None:
        self._write_event.set()

    def _end_reading(self) -> None:
        self._is_closed = True
        self._change_event.set()
        self._write_event.set()
        if self.problem and (pipe := self.transport.get_pipe_transport(1)) is not None:
            pipe.close()


def _line_size(line: OutputLine) -> int:
    return len(line.head) + len(line.tail) if isinstance(line, TruncatedLine) else len(line)
