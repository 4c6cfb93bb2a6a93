"""Running programs. Each has its own process group and output file, and is ended together with its children.

Each program has a thread that moves the output from a pipe to the file. It waits for the program, not for the end of
the pipe, which a background child may hold open for hours. Writing directly to the file would need no thread, but then
a program that opens /dev/stderr would truncate it.
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
from ebbtide.tools.outputs.plain_text import split_unfinished_escape, terminal_text
from ebbtide.tools.process.groups import GUARDIAN, TERMINATE_GRACE_S, ProcessTree, process_exists
from ebbtide.tools.process.orphans import reap_orphans
from ebbtide.tools.process.output_log import OutputLog

_CHUNK_BYTES = 1 << 16
_MAX_CLEANUP_S = 0.05
"""Maximum number of seconds to wait for the cleanup after a wrapped program. It usually takes 0.001."""
_RETRY_PAUSE_S = 0.0005
_PROGRESS_INTERVAL_S = 0.1
_MAX_PROGRESS_CHARS = 4000
_MAX_PROGRESS_BYTES = 4 * _MAX_PROGRESS_CHARS
"""Number of bytes read from the end of new output. This is enough for `_MAX_PROGRESS_CHARS` characters."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    output_bytes: int = MAX_OUTPUT_BYTES
    grace_seconds: float = TERMINATE_GRACE_S


class Program:
    """A started program. `log` contains its output, including that of children that outlive it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        pipe: int,
        descriptor: int,
        log: Path,
        on_output: Callable[[str], None] | None,
        limits: ProcessLimits,
        *,
        has_terminal: bool = False,
        is_wrapped: bool = False,
    ) -> None:
        self.log = log
        self.output = OutputLog(descriptor, limits.output_bytes)
        """Writes `log`."""
        self.is_output_closed = False
        """Whether every process that could print has ended."""
        self._process = process
        self._is_wrapped = is_wrapped
        self._process_tree = ProcessTree(process.pid, is_wrapped=is_wrapped)
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._output_arrived = asyncio.Event()
        """Set unless something waits for output, so that the thread need not wake the loop for output in vain."""
        self._output_arrived.set()
        self._is_closing = False
        self._was_killed = self._has_no_children = False
        self._reap_lock = threading.Lock()
        self.has_terminal = has_terminal
        self._terminal = pipe if has_terminal else None
        self._write_lock = threading.Lock()
        self._progress = _OutputProgress(on_output) if on_output is not None else None
        self._is_guarded = True
        GUARDIAN.guard(process.pid)
        threading.Thread(target=self._watch, args=(pipe, descriptor), daemon=True).start()

    @property
    def printed_bytes(self) -> int:
        """Bytes printed so far."""
        return self.output.printed_bytes

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while the program runs."""
        return self._process.returncode if self._exited.is_set() else None

    @property
    def is_fully_ended(self) -> bool:
        """Whether the program and all its children have ended, so that nothing more can be printed."""
        return self.code is not None and (self._was_killed or (self.is_output_closed and not self._has_children()))

    async def wait(self, seconds: float) -> bool:
        """Wait until the program has exited or the time is up. Return whether it has exited. If so, its output is in
        the log."""
        return await wait_for_event(seconds, self._exited)

    def process_ids(self) -> list[int]:
        """Return the ids of the program's running processes. Reads the whole process table."""
        return self._process_tree.member_ids()

    async def wait_for_exit(self) -> None:
        """Wait until the program has exited."""
        await self._exited.wait()

    async def wait_for_output(self, seconds: float, known_bytes: int) -> None:
        """Wait until more than `known_bytes` bytes have been printed, the program has exited, or the time is up."""
        deadline = self._loop.time() + seconds
        self._output_arrived.clear()  # before the comparison, so that no output in between is missed
        while self.printed_bytes <= known_bytes and not self._exited.is_set():
            if not await wait_for_event(deadline - self._loop.time(), self._output_arrived):
                return
            self._output_arrived.clear()

    def write(self, data: bytes) -> bool:
        """Write to the program's terminal. Return whether it accepted all data. It accepts none once it has exited."""
        with self._write_lock:
            if self._terminal is None:
                return False
            try:
                return os.write(self._terminal, data) == len(data)
            except OSError:
                return False

    def stop_progress(self) -> None:
        """Stop reporting progress."""
        self._progress = None

    async def end(self) -> None:
        """End the program and everything that it started, first with SIGTERM, then with SIGKILL. If cancelled, use
        SIGKILL at once."""
        was_running = self.code is None
        try:
            if was_running:
                self._signal(signal.SIGTERM)
                await self.wait(self._limits.grace_seconds)
        finally:
            if was_running or not self.is_fully_ended:  # the search for processes takes milliseconds
                self._signal(signal.SIGKILL)
            self._was_killed = True
            self._release_guard()
        await self.wait(self._limits.grace_seconds)

    async def close(self) -> None:
        """End everything, then wait until the log is complete and all files are closed."""
        try:
            await self.end()
        finally:
            self._is_closing = True
        await wait_for_event(self._limits.grace_seconds, self._closed)

    def _has_children(self) -> bool:
        """Whether processes in the program's group are still running after it has exited."""
        if self._has_no_children or not self._process_tree.has_group():
            return False
        if self._is_wrapped and self._process.returncode is not None:
            self._has_no_children = self._has_no_children or (
                self.is_output_closed and self._process_tree.has_only_cleanup_process()
            )
            return not self._has_no_children
        return not process_exists(self._process.pid) and self._process_tree.has_living_process()

    def _release_guard(self) -> None:
        if self._is_guarded:
            self._is_guarded = False
            GUARDIAN.release(self._process.pid)

    def _signal(self, number: signal.Signals) -> None:
        with self._reap_lock:
            self._process_tree.signal(number, is_reaped=self._process.returncode is not None)

    def _watch(self, pipe: int, descriptor: int) -> None:
        """Copy output to the log until the program has exited and nothing can print any more. Runs in the program's
        thread."""
        exit_descriptor = _open_exit_descriptor(self._process.pid)
        poller = select.poll()
        poller.register(pipe, select.POLLIN)
        if exit_descriptor is not None:
            poller.register(exit_descriptor, select.POLLIN)
        try:
            while not (self.is_output_closed and self._process.returncode is not None) and not self._is_closing:
                ready = [descriptor for descriptor, _ in poller.poll(self._poll_timeout_ms(exit_descriptor))]
                if pipe in ready and not self._copy_chunk(pipe):
                    self.is_output_closed = True
                    poller.unregister(pipe)
                if (
                    self._process.returncode is None
                    and (exit_descriptor in ready or exit_descriptor is None)
                    and self._reap()
                ):
                    if exit_descriptor is not None:
                        poller.unregister(exit_descriptor)
                    self._drain(pipe)
                    self._await_cleanup()
                    self._set_events(self._exited, self._output_arrived)
                self._report_progress(is_final=self._process.returncode is not None)
        finally:
            with self._write_lock:
                self._terminal = None
            self.output.flush()
            for open_descriptor in (pipe, descriptor, exit_descriptor):
                if open_descriptor is not None:
                    os.close(open_descriptor)
            if not self._has_children():
                self._release_guard()
            self._set_events(self._exited, self._output_arrived, self._closed)
        if self._process.returncode is not None:
            reap_orphans(self._process.pid)

    def _poll_timeout_ms(self, exit_descriptor: int | None) -> float | None:
        """Return how long to wait for output or the exit, in milliseconds. None for no limit."""
        if exit_descriptor is None:
            return 10
        progress = self._progress
        if self._process.returncode is not None or (progress is not None and progress.pending):
            return _PROGRESS_INTERVAL_S * 1000
        return None

    def _reap(self) -> bool:
        with self._reap_lock:
            return self._process.poll() is not None

    def _drain(self, pipe: int) -> None:
        """Move the data that the program left in the pipe. Output that children print later is moved separately. A
        wrapper ends a moment after its program, and keeps the pipe open until then."""
        os.set_blocking(pipe, False)
        poller = select.poll()
        poller.register(pipe, select.POLLIN)
        remaining_bytes = 1 << 20
        deadline = time.monotonic() + (_MAX_CLEANUP_S if self._is_wrapped else 0)
        with suppress(BlockingIOError):
            while remaining_bytes > 0 and not self.is_output_closed:
                poller.poll(max(deadline - time.monotonic(), 0) * 1000)
                moved_bytes = self._copy_chunk(pipe)
                self.is_output_closed = moved_bytes == 0
                remaining_bytes -= moved_bytes

    def _await_cleanup(self) -> None:
        """Wait briefly for the cleanup process of a wrapped program. If it ends in time, the process table need not be
        searched."""
        deadline = time.monotonic() + _MAX_CLEANUP_S
        while (
            self._is_wrapped
            and self.is_output_closed
            and time.monotonic() < deadline
            and self._process_tree.has_group()
        ):
            if self._process_tree.has_namespace_ended():
                self._has_no_children = True
                return
            time.sleep(_RETRY_PAUSE_S)

    def _copy_chunk(self, pipe: int) -> int:
        """Move data from the pipe to the log. Return the number of bytes, or 0 at the end of the pipe."""
        chunk = self._read(pipe)
        if not chunk:
            return 0
        self.output.write(chunk)
        if (progress := self._progress) is not None:
            progress.add(chunk)
        if not self._output_arrived.is_set():
            self._set_events(self._output_arrived)
        return len(chunk)

    def _read(self, pipe: int) -> bytes:
        try:
            return os.read(pipe, _CHUNK_BYTES)
        except OSError as error:
            if self.has_terminal and error.errno == errno.EIO:  # the other end of the terminal is closed
                return b""
            raise

    def _report_progress(self, is_final: bool) -> None:
        progress = self._progress
        text = progress.take_due_text(is_final) if progress is not None else ""
        if text and progress is not None:
            self._call_in_loop(progress.on_output, text)

    def _set_events(self, *events: asyncio.Event) -> None:
        self._call_in_loop(_set_all, *events)

    def _call_in_loop(self, function: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)


class _OutputProgress:
    """Collects new output and shows it several times a second. If there is a lot of it, only the end is shown."""

    def __init__(self, on_output: Callable[[str], None]) -> None:
        self.on_output = on_output
        self.pending = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._last_reported_at = 0.0

    def add(self, chunk: bytes) -> None:
        self.pending = (self.pending + self._decoder.decode(chunk[-_MAX_PROGRESS_BYTES:]))[-_MAX_PROGRESS_CHARS:]

    def take_due_text(self, is_final: bool) -> str:
        """Return the text to show now. Empty if there is no new text or the interval has not passed yet. `is_final`: do
        not wait for the interval."""
        now = time.monotonic()
        if not self.pending or (now - self._last_reported_at < _PROGRESS_INTERVAL_S and not is_final):
            return ""
        self._last_reported_at = now
        text, self.pending = (self.pending, "") if is_final else split_unfinished_escape(self.pending)
        return terminal_text(text)


def _set_all(*events: asyncio.Event) -> None:
    for event in events:
        event.set()


async def wait_for_event(seconds: float, event: asyncio.Event) -> bool:
    """Wait for the event. Return whether it was set in time."""
    if not event.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0)):
                await event.wait()
    return event.is_set()


def _open_exit_descriptor(process_id: int) -> int | None:
    """Return a descriptor that becomes readable when the process exits. None if the system does not support this."""
    try:
        return os.pidfd_open(process_id)
    except (AttributeError, OSError):
        return None
