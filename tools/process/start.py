"""A program is started, in a process group of its own, with what it prints going into a file."""

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
    """Starts a program in a session of its own, without input or on a terminal of its own, which one that is wrapped
    takes by itself. Raises `OSError` when that cannot be done."""
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
    """Has the system end what is started meanwhile, with all that it will start, before this process where memory runs
    out. It is inherited, so this process has it for that moment."""
    own = _place_in_line()
    if own >= _EXPENDABLE:  # no Linux, or it is to end early anyway
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
"""Of a scale to 1,000: as if it took half of the memory more than it does."""
_TAKES_TERMINAL = 'exec 0<>"$1" 1>&0 2>&1; shift; exec "$@"'
"""Who leads a session and opens a terminal has it from then on as its own."""


def _new_terminal() -> tuple[int, int]:
    """Its two ends: ours, of which no reading or writing waits, and that of the program."""
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    termios.tcsetwinsize(theirs, (24, 80))
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.ONLCR  # lines end as they do in a pipe
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    return ours, theirs
