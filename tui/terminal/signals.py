"""Termination by signal: the terminal was closed, or the program was told to end."""

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
"""Seconds after which a terminating program exits even if it hangs."""

_KILL_TIMEOUT_S = 5
"""Further seconds after which the system kills it, even if no thread can run."""

_SHUTDOWN_SIGNALS = (signal.SIGTERM, signal.SIGHUP)

_terminal_borrowers: list[subprocess.Popen[bytes]] = []
_received_signals: list[int] = []
"""The received termination signals."""


class Shutdown:
    """Whether the program was told to end."""

    def __init__(self) -> None:
        self.number: int | None = None
        """The first termination signal."""

    @property
    def code(self) -> int:
        """The resulting exit code; 0 without a signal."""
        return 0 if self.number is None else 128 + self.number


@contextmanager
def lend_terminal(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Lend the terminal to a process, which also gets termination signals."""
    _terminal_borrowers.append(process)
    for number in _received_signals:
        process.send_signal(number)
    try:
        yield
    finally:
        _terminal_borrowers.remove(process)


def has_terminal() -> bool:
    """Whether the terminal exists and this program is in its foreground."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def is_shutdown_requested(within: float = 0.1) -> bool:
    """Whether the program is told to end, now or within that many seconds. A shell sends a stopped program two
    signals, to end and to continue, which threads may receive in either order."""
    end = time.monotonic() + within
    while not _received_signals and time.monotonic() < end:
        time.sleep(0.01)  # the handlers run between two of these
    return bool(_received_signals)


@contextmanager
def shut_down_on_signals(
    leave: Callable[[], object], abandon: Callable[[], object] = lambda: None
) -> Iterator[Shutdown]:
    """Call `leave` once, in the event loop, on a termination signal. If that takes too long, exit; `abandon`, in a
    thread, only restores the terminal."""
    loop, ending, settings = asyncio.get_running_loop(), Shutdown(), line_settings()

    def end(number: int, frame: FrameType | None) -> None:
        if ending.number is not None:
            return
        ending.number = number
        _received_signals.append(number)
        # A stopped program that is told to end must not draw again: the terminal may belong to the shell.
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

    # Not the loop's own handlers: they would wait while the loop is blocked by a terminal that accepts no output.
    before = [signal.signal(number, end) for number in _SHUTDOWN_SIGNALS]
    try:
        yield ending
    finally:
        for number, handler in zip(_SHUTDOWN_SIGNALS, before, strict=True):
            signal.signal(number, handler)
        _received_signals.clear()


def line_settings() -> list[Any] | None:
    """The terminal's settings; None without a terminal."""
    try:
        return termios.tcgetattr(sys.__stdin__.fileno()) if sys.__stdin__ is not None else None
    except (termios.error, ValueError):
        return None


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """Do nothing on the signal."""
