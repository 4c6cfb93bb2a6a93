"""Starts a program in its own process group, with its output going to a file."""

import os
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ebbtide.tools.process.orphans import adopt_orphans
from ebbtide.tools.process.own_memory import close_own_memory
from ebbtide.tools.process.program import ProcessLimits, Program
from ebbtide.tools.process.shell import Launch, shell


def start(
    launch: Launch,
    folder: Path,
    log: Path,
    heard: Callable[[str], None] | None = None,
    limits: ProcessLimits | None = None,
    *,
    terminal: bool = False,
) -> Program:
    """Start a program in its own session, without input or with its own terminal. A wrapped program opens the terminal
    itself. Raises `OSError` on failure."""
    close_own_memory()
    adopt_orphans()
    try:
        return _start_process(launch, folder, log, heard, limits or ProcessLimits(), terminal=terminal)
    finally:
        for each in launch.descriptors:
            os.close(each)


def _start_process(
    launch: Launch,
    folder: Path,
    log: Path,
    heard: Callable[[str], None] | None,
    limits: ProcessLimits,
    *,
    terminal: bool,
) -> Program:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        reading, writing = _new_terminal() if terminal else os.pipe()
        try:
            takes = (shell(), "-c", _TAKES_TERMINAL, "sh", os.ttyname(writing)) if terminal else ()
            with _ended_first():
                process = subprocess.Popen(
                    (*(() if launch.is_wrapped else takes), *launch.argv),
                    cwd=folder,
                    env=launch.environment,
                    stdin=writing if terminal else subprocess.DEVNULL,
                    stdout=writing,
                    stderr=writing,
                    start_new_session=True,
                    pass_fds=launch.descriptors,
                )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
    except BaseException:
        os.close(descriptor)
        raise
    return Program(process, reading, descriptor, log, heard, limits, terminal=terminal, is_wrapped=launch.is_wrapped)


@contextmanager
def _ended_first() -> Iterator[None]:
    """Make what is started meanwhile, with its children, the first to be killed when memory runs out. The setting is
    inherited, so this process has it for that moment."""
    own = _place_in_line()
    if own >= _EXPENDABLE:  # not Linux, or already likely to be killed
        yield
        return
    with suppress(OSError):
        _PLACE.write_text(str(_EXPENDABLE))
    try:
        yield
    finally:
        with suppress(OSError):
            _PLACE.write_text(str(own))


@cache
def _place_in_line() -> int:
    try:
        return int(_PLACE.read_text())
    except (OSError, ValueError):
        return _EXPENDABLE


_PLACE, _EXPENDABLE = Path("/proc/self/oom_score_adj"), 500
"""On a scale to 1,000: as if it used an extra half of the memory."""
_TAKES_TERMINAL = 'exec 0<>"$1" 1>&0 2>&1; shift; exec "$@"'
"""A session leader that opens a terminal gets it as its controlling terminal."""


def _new_terminal() -> tuple[int, int]:
    """Return the two ends of a terminal: ours, which is non-blocking, and the program's."""
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    termios.tcsetwinsize(theirs, (24, 80))
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.ONLCR  # line endings as in a pipe
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    return ours, theirs
