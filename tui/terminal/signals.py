"""Ends the program on a signal, such as when the terminal is closed or the system shuts down."""

import asyncio
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Timer
from types import FrameType
from typing import Any

_EXIT_TIMEOUT_S = 20.0
"""How many seconds after a termination signal the program exits even if it hangs."""

_KILL_TIMEOUT_S = 5
"""Seconds after `_EXIT_TIMEOUT_S` at which the system kills the program, even if no thread can run."""

_SHUTDOWN_SIGNALS = (signal.SIGTERM, signal.SIGHUP)

_foreground_processes: list[subprocess.Popen[bytes]] = []
_received_signals: list[int] = []
"""Numbers of the termination signals received."""


class Shutdown:
    """Which termination signal the program has received, if any."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        """The first termination signal received."""

    @property
    def exit_code(self) -> int:
        """The exit code for the signal; 0 if there was none."""
        return 0 if self.signal_number is None else 128 + self.signal_number


@contextmanager
def forward_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let a process use the terminal. Termination signals are passed on to it as well."""
    _foreground_processes.append(process)
    for number in _received_signals:
        process.send_signal(number)
    try:
        yield
    finally:
        _foreground_processes.remove(process)


def is_in_foreground() -> bool:
    """Whether there is a terminal and this program is in its foreground."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def is_shutdown_requested(within_seconds: float = 0.1) -> bool:
    """Whether a termination signal has been received, or arrives within `within_seconds`. A shell that ends a stopped
    program sends two signals, one to terminate and one to continue; threads may receive them in either order."""
    deadline = time.monotonic() + within_seconds
    while not _received_signals and time.monotonic() < deadline:
        time.sleep(0.01)  # signal handlers run in between
    return bool(_received_signals)


@contextmanager
def shut_down_on_signals(
    on_signal: Callable[[], object], restore_terminal: Callable[[], object] = lambda: None
) -> Iterator[Shutdown]:
    """On a termination signal, call `on_signal` once, in the event loop. If that takes too long, exit after running
    `restore_terminal` in a thread. That function must only restore the terminal."""
    loop, shutdown, settings = asyncio.get_running_loop(), Shutdown(), get_line_settings()

    def handle_signal(number: int, frame: FrameType | None) -> None:
        if shutdown.signal_number is not None:
            return
        shutdown.signal_number = number
        _received_signals.append(number)
        # A stopped program that receives a termination signal must not draw again, because the terminal may belong to
        # the shell.
        signal.signal(signal.SIGCONT, _ignore_signal)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        for process in _foreground_processes:
            process.send_signal(number)
        timer = Timer(_EXIT_TIMEOUT_S, force_exit)
        timer.daemon = True
        timer.start()
        signal.alarm(int(_EXIT_TIMEOUT_S) + _KILL_TIMEOUT_S)
        loop.call_soon_threadsafe(on_signal)

    def force_exit() -> None:
        for process in _foreground_processes:
            process.kill()
        if is_in_foreground():
            restore_terminal()
            if settings is not None:
                with suppress(termios.error):
                    termios.tcsetattr(0, termios.TCSANOW, settings)
        os._exit(shutdown.exit_code)

    # Do not use the loop's own handlers: they could not run while the loop is blocked by a terminal that accepts no
    # output.
    previous_handlers = [signal.signal(number, handle_signal) for number in _SHUTDOWN_SIGNALS]
    try:
        yield shutdown
    finally:
        for number, handler in zip(_SHUTDOWN_SIGNALS, previous_handlers, strict=True):
            signal.signal(number, handler)
        _received_signals.clear()


def get_line_settings() -> list[Any] | None:
    """Get the terminal's line settings; None if there is no terminal."""
    try:
        return termios.tcgetattr(sys.__stdin__.fileno()) if sys.__stdin__ is not None else None
    except (termios.error, ValueError):
        return None


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """Ignore a signal by handling it."""
