"""Running programs: each has its own process group and an output file, and is ended with its children.

A thread per program moves output from a pipe to the file. It waits for the program and not for the end of the pipe,
which a background child may hold open for hours. Writing directly to the file would need no thread, but a program that
opens /dev/stderr would then truncate it.
"""

import asyncio
import codecs
import errno
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import MAX_OUTPUT_BYTES
from ebbtide.tools.outputs.plain_text import plain, split_unfinished_escape
from ebbtide.tools.process.groups import GUARDIAN, TERMINATE_GRACE_S, ProcessFamily, exists
from ebbtide.tools.process.orphans import reap_orphans
from ebbtide.tools.process.output_log import OutputLog

_CHUNK = 1 << 16
_MAX_CLEANUP_S = 0.05
"""Maximum number of seconds to wait for cleanup after a wrapped program, usually 0.001."""
_RETRY_PAUSE_S = 0.0005
_PROGRESS_EVERY = 0.1
_MAX_PROGRESS_CHARS = 4000
_READ_AT_ONCE = 4 * _MAX_PROGRESS_CHARS
"""Bytes of new output that may contain as many characters."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    output_bytes: int = MAX_OUTPUT_BYTES
    grace: float = TERMINATE_GRACE_S


class Program:
    """A started program. `log` has its output, including that of children after it has exited."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        pipe: int,
        descriptor: int,
        log: Path,
        heard: Callable[[str], None] | None,
        limits: ProcessLimits,
        *,
        terminal: bool = False,
        is_wrapped: bool = False,
    ) -> None:
        self.log = log
        self.output = OutputLog(descriptor, limits.output_bytes)
        """The writer of `log`."""
        self.is_silent = False
        """Whether no process is left that could print."""
        self._process = process
        self._is_wrapped = is_wrapped
        self._family = ProcessFamily(process.pid, is_wrapped=is_wrapped)
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._news = asyncio.Event()
        self._closing = False
        self._was_killed = self._is_left_alone = False
        self._reaping = threading.Lock()
        self.has_terminal = terminal
        self._input = pipe if terminal else None
        self._writing = threading.Lock()
        self._progress = _OutputProgress(heard) if heard is not None else None
        GUARDIAN.guard(process.pid)
        threading.Thread(target=self._watch, args=(pipe, descriptor), daemon=True).start()

    @property
    def size(self) -> int:
        """Bytes printed so far."""
        return self.output.size

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs."""
        return self._process.returncode if self._exited.is_set() else None

    @property
    def is_over(self) -> bool:
        """Whether it has exited and none of its children is left to run or print."""
        return self.code is not None and (self._was_killed or (self.is_silent and not self._has_children()))

    async def wait(self, seconds: float) -> bool:
        """Return whether the program exited within this time. Its output is then in the log."""
        return await within(seconds, self._exited)

    def processes(self) -> list[int]:
        """Return the ids of its running processes. Reads the whole process table."""
        return self._family.members()

    async def wait_for_exit(self) -> None:
        """Wait until the program has exited."""
        await self._exited.wait()

    async def wait_for_news(self, seconds: float, beyond: int) -> None:
        """Wait until more than `beyond` bytes are printed, the program has exited, or the time is up."""
        end = self._loop.time() + seconds
        while self.size <= beyond and not self._exited.is_set():
            self._news.clear()
            if not await within(end - self._loop.time(), self._news):
                return

    def write(self, data: bytes) -> bool:
        """Write to the program's terminal, and return whether it accepted everything. It accepts nothing after it has
        exited."""
        with self._writing:
            if self._input is None:
                return False
            try:
                return os.write(self._input, data) == len(data)
            except OSError:
                return False

    def stop_progress(self) -> None:
        """Stop reporting progress."""
        self._progress = None

    async def end(self) -> None:
        """End the program and everything it started, first with SIGTERM, then with SIGKILL, or at once if cancelled."""
        is_asked = self.code is None
        try:
            if is_asked:
                self._signal(signal.SIGTERM)
                await self.wait(self._limits.grace)
        finally:
            if is_asked or not self.is_over:  # the search for remaining processes takes milliseconds
                self._signal(signal.SIGKILL)
            self._was_killed = True
            GUARDIAN.leave(self._process.pid)
        await self.wait(self._limits.grace)

    async def close(self) -> None:
        """End everything, and wait until the log is complete and all files are closed."""
        try:
            await self.end()
        finally:
            self._closing = True
        await within(self._limits.grace, self._closed)

    def _has_children(self) -> bool:
        """Whether processes of its group still run after it has exited."""
        if self._is_left_alone or not self._family.has_group():
            return False
        if self._is_wrapped and self._process.returncode is not None:
            self._is_left_alone = self._is_left_alone or (self.is_silent and self._family.is_alone())
            return not self._is_left_alone
        return not exists(self._process.pid) and self._family.is_living()

    def _signal(self, number: signal.Signals) -> None:
        with self._reaping:
            self._family.signal(number, is_reaped=self._process.returncode is not None)

    def _watch(self, pipe: int, descriptor: int) -> None:
        """The thread's work: move output until the program has exited and nothing can print any more."""
        waiting = _exit_descriptor(self._process.pid)
        poller = select.poll()
        poller.register(pipe, select.POLLIN)
        if waiting is not None:
            poller.register(waiting, select.POLLIN)
        try:
            while not (self.is_silent and self._process.returncode is not None) and not self._closing:
                ready = [found for found, _ in poller.poll(self._patience(waiting))]
                if pipe in ready and not self._move(pipe):
                    self.is_silent = True
                    poller.unregister(pipe)
                if self._process.returncode is None and (waiting in ready or waiting is None) and self._reap():
                    if waiting is not None:
                        poller.unregister(waiting)
                    self._drain(pipe)
                    self._await_cleanup()
                    self._set_events(self._exited, self._news)
                self._report(late=self._process.returncode is not None)
        finally:
            with self._writing:
                self._input = None
            self.output.flush()
            for held in (pipe, descriptor, waiting):
                if held is not None:
                    os.close(held)
            if not self._has_children():
                GUARDIAN.leave(self._process.pid)
            self._set_events(self._exited, self._news, self._closed)
        if self._process.returncode is not None:
            reap_orphans(self._process.pid)

    def _patience(self, waiting: int | None) -> float | None:
        """Return how many milliseconds to wait for news."""
        if waiting is None:
            return 10
        progress = self._progress
        if self._process.returncode is not None or (progress is not None and progress.held):
            return _PROGRESS_EVERY * 1000
        return None

    def _reap(self) -> bool:
        with self._reaping:
            return self._process.poll() is not None

    def _drain(self, pipe: int) -> None:
        """Move what the program left in the pipe. Later output of children follows separately. A wrapper ends a moment
        after its program, and keeps the pipe until then."""
        os.set_blocking(pipe, False)
        poller = select.poll()
        poller.register(pipe, select.POLLIN)
        left, end = 1 << 20, time.monotonic() + (_MAX_CLEANUP_S if self._is_wrapped else 0)
        with suppress(BlockingIOError):
            while left > 0 and not self.is_silent:
                poller.poll(max(end - time.monotonic(), 0) * 1000)
                moved = self._move(pipe)
                self.is_silent = moved == 0
                left -= moved

    def _await_cleanup(self) -> None:
        """Wait briefly for the cleanup process of a wrapped program: once it has ended, the process table need not be
        searched."""
        end = time.monotonic() + _MAX_CLEANUP_S
        while self._is_wrapped and self.is_silent and time.monotonic() < end and self._family.has_group():
            if self._family.is_finished():
                self._is_left_alone = True
                return
            time.sleep(_RETRY_PAUSE_S)

    def _move(self, pipe: int) -> int:
        """Move data from the pipe to the log and return the number of bytes, 0 at the end of the pipe."""
        chunk = self._read(pipe)
        if not chunk:
            return 0
        self.output.write(chunk)
        if (progress := self._progress) is not None:
            progress.take(chunk)
        if not self._news.is_set():
            self._set_events(self._news)
        return len(chunk)

    def _read(self, pipe: int) -> bytes:
        try:
            return os.read(pipe, _CHUNK)
        except OSError as error:
            if self.has_terminal and error.errno == errno.EIO:  # the other end of the terminal is closed
                return b""
            raise

    def _report(self, late: bool) -> None:
        progress = self._progress
        text = progress.due(late) if progress is not None else ""
        if text and progress is not None:
            self._call(progress.heard, text)

    def _set_events(self, *events: asyncio.Event) -> None:
        for event in events:
            self._call(event.set)

    def _call(self, function: Callable[..., object], *arguments: str) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)


class _OutputProgress:
    """Progress for display: new output, several times a second, and only its end if there is much."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        self.heard = heard
        self.held = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._last = 0.0

    def take(self, chunk: bytes) -> None:
        self.held = (self.held + self._decoder.decode(chunk[-_READ_AT_ONCE:]))[-_MAX_PROGRESS_CHARS:]

    def due(self, late: bool) -> str:
        """Return the text that can be shown now."""
        now = time.monotonic()
        if not self.held or (now - self._last < _PROGRESS_EVERY and not late):
            return ""
        self._last = now
        text, self.held = (self.held, "") if late else split_unfinished_escape(self.held)
        return plain(text)


async def within(seconds: float, event: asyncio.Event) -> bool:
    """Return whether the event was set within this time."""
    try:
        await asyncio.wait_for(event.wait(), max(seconds, 0))
    except TimeoutError:
        return event.is_set()
    return True


def _exit_descriptor(process: int) -> int | None:
    """Return a descriptor that becomes readable when the process exits, or None if the system has none."""
    try:
        return os.pidfd_open(process)
    except (AttributeError, OSError):
        return None
