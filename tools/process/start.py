"""Starts a program in its own process group, with its output going to a file."""

import os
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ebbtide.tools.process.orphans import adopt_orphans
from ebbtide.tools.process.own_memory import protect_own_memory
from ebbtide.tools.process.program import ProcessLimits, Program
from ebbtide.tools.process.shell import Launch, shell_path


def start_program(
    launch: Launch,
    folder: Path,
    log: Path,
    on_output: Callable[[str], None] | None = None,
    limits: ProcessLimits | None = None,
    *,
    has_terminal: bool = False,
) -> Program:
    """Start a program in its own session, either without input or with its own terminal. A wrapped program opens the
    terminal itself. Raises `OSError` on failure."""
    protect_own_memory()
    adopt_orphans()
    try:
        return _start_process(launch, folder, log, on_output, limits or ProcessLimits(), has_terminal=has_terminal)
    finally:
        for descriptor in launch.descriptors:
            os.close(descriptor)


def _start_process(
    launch: Launch,
    folder: Path,
    log: Path,
    on_output: Callable[[str], None] | None,
    limits: ProcessLimits,
    *,
    has_terminal: bool,
) -> Program:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        read_end, write_end = _open_terminal() if has_terminal else os.pipe()
        try:
            terminal_prefix = (
                (shell_path(), "-c", _OPEN_TERMINAL_SCRIPT, "sh", os.ttyname(write_end)) if has_terminal else ()
            )
            with _preferred_oom_victim():
                process = subprocess.Popen(
                    (*(() if launch.is_wrapped else terminal_prefix), *launch.argv),
                    cwd=folder,
                    env=launch.environment,
                    stdin=write_end if has_terminal else subprocess.DEVNULL,
                    stdout=write_end,
                    stderr=write_end,
                    start_new_session=True,
                    pass_fds=launch.descriptors,
                )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
    except BaseException:
        os.close(descriptor)
        raise
    return Program(
        process, read_end, descriptor, log, on_output, limits, has_terminal=has_terminal, is_wrapped=launch.is_wrapped
    )


@contextmanager
def _preferred_oom_victim() -> Iterator[None]:
    """Make programs started in this context, and their children, the first to be killed when memory runs out. Programs
    inherit the setting, so this process has it too while the context is active."""
    own_score = _own_oom_score()
    if own_score >= _EXPENDABLE_OOM_SCORE:  # not Linux, or already among the first
        yield
        return
    with suppress(OSError):
        _OOM_SCORE_FILE.write_text(str(_EXPENDABLE_OOM_SCORE))
    try:
        yield
    finally:
        with suppress(OSError):
            _OOM_SCORE_FILE.write_text(str(own_score))


@cache
def _own_oom_score() -> int:
    try:
        return int(_OOM_SCORE_FILE.read_text())
    except (OSError, ValueError):
        return _EXPENDABLE_OOM_SCORE


_OOM_SCORE_FILE, _EXPENDABLE_OOM_SCORE = Path("/proc/self/oom_score_adj"), 500
"""The file and value that make the system kill a process early when memory runs out. At 500 of 1,000, a process is
treated as if it used an additional half of all memory."""
_OPEN_TERMINAL_SCRIPT = 'exec 0<>"$1" 1>&0 2>&1; shift; exec "$@"'
"""Opens a terminal before running the program. Because the program leads a session, the terminal becomes its
controlling terminal."""


def _open_terminal() -> tuple[int, int]:
    """Return the two ends of a terminal: this program's end, which is non-blocking, and the started program's end."""
    own_end, program_end = os.openpty()
    os.set_blocking(own_end, False)
    termios.tcsetwinsize(program_end, (24, 80))
    settings = termios.tcgetattr(program_end)
    settings[1] &= ~termios.ONLCR  # no carriage returns, as in a pipe
    termios.tcsetattr(program_end, termios.TCSANOW, settings)
    return own_end, program_end
