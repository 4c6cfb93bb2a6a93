"""The end from outside: the terminal was closed, or somebody asks the program to end."""

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
"""Seconds after which a program that was to end is ended, wherever it hangs."""

_KILL_TIMEOUT_S = 5
"""Seconds after these, after which the system ends it: not even a thread of it gets anything done."""

_SHUTDOWN_SIGNALS = (signal.SIGTERM, signal.SIGHUP)

_terminal_borrowers: list[subprocess.Popen[bytes]] = []
_received_signals: list[int] = []
"""The signal that said that the program is to end."""


class Shutdown:
    """Whether the program was told to end."""

    def __init__(self) -> None:
        self.number: int | None = None
        """The first signal that said so."""

    @property
    def code(self) -> int:
        """The exit code that follows from it; 0 when it was not told to end."""
        return 0 if self.number is None else 128 + self.number


@contextmanager
def lend_terminal(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Meanwhile the process has the terminal: it is told whenever the program is told to end."""
    _terminal_borrowers.append(process)
    for number in _received_signals:
        process.send_signal(number)
    try:
        yield
    finally:
        _terminal_borrowers.remove(process)


def has_terminal() -> bool:
    """Whether the terminal is there, and this program is the one that it belongs to at the moment."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def is_shutdown_requested(within: float = 0.1) -> bool:
    """Whether the program is told to end, now or within that many seconds. A shell tells a stopped program to end and
    to go on at once: two threads may take the two signals, in either order."""
    end = time.monotonic() + within
    while not _received_signals and time.monotonic() < end:
        time.sleep(0.01)  # the handlers run between two of these
    return bool(_received_signals)


@contextmanager
def shut_down_on_signals(
    leave: Callable[[], object], abandon: Callable[[], object] = lambda: None
) -> Iterator[Shutdown]:
    """Calls `leave`, once and in the event loop, when a signal says that the program is to end. Where that takes too
    long it ends as it is: `abandon`, in a thread, only gives the terminal back."""
    loop, ending, settings = asyncio.get_running_loop(), Shutdown(), line_settings()

    def end(number: int, frame: FrameType | None) -> None:
        if ending.number is not None:
            return
        ending.number = number
        _received_signals.append(number)
        # Whoever was stopped and is to end does not come back to the screen before: it may be the shell's by now.
        signal.signal(signal.SIGCONT, _ignore_signal)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        for process in _terminal_borrowers:
            process.send_signal(number)
        timer = Timer(_EXIT_TIMEOUT_S, give_up)
        timer.daemon = True
        timer.start()
        signal.alarm(int(_EXIT_TIMEOUT_S) + _KILL_TIMEOUT_S)
        loop.call_soon_threadsafe(leave)

    def give_up() -> None:
        for process in _terminal_borrowers:
            process.kill()
        if has_terminal():
            abandon()
            if settings is not None:
                with suppress(termios.error):
                    termios.tcsetattr(0, termios.TCSANOW, settings)
        os._exit(ending.code)

    # Not the loop's own handlers: they wait while the loop waits for a terminal that takes nothing.
    before = [signal.signal(number, end) for number in _SHUTDOWN_SIGNALS]
    try:
        yield ending
    finally:
        for number, handler in zip(_SHUTDOWN_SIGNALS, before, strict=True):
            signal.signal(number, handler)
        _received_signals.clear()


def line_settings() -> list[Any] | None:
    """How the terminal is set; None without one."""
    try:
        return termios.tcgetattr(sys.__stdin__.fileno()) if sys.__stdin__ is not None else None
    except (termios.error, ValueError):
        return None


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """Nothing follows from the signal."""
