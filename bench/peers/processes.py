"""Runs programs and reads what their whole process trees use.

Everything that descends from this process belongs to the program that is measured: this process becomes the parent of
processes whose own parent has ended, so that none escapes."""

import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PR_SET_CHILD_SUBREAPER = 36
CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def adopt_orphans() -> None:
    """Become the parent of all processes that descend from this one and whose own parent has ended."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this system cannot adopt orphans")


def descendants() -> list[int]:
    """Return the ids of the running processes that descend from this one."""
    children: dict[int, list[int]] = {}
    for process, fields in _running_processes():
        children.setdefault(int(fields[1]), []).append(process)
    found = list(children.get(os.getpid(), ()))
    for process in found:
        found += children.get(process, ())
    return found


def cpu_seconds() -> float:
    """Return the processor time of everything that descends from this process, ended or running. Differences matter."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + sum(map(_cpu_of_process, descendants()))


def memory_mb() -> float:
    """Return the resident memory of everything that descends from this process. Shared pages count for each process."""
    return sum(_status_kb(process, "VmRSS") for process in descendants()) / 1024


def peak_memory_mb() -> float:
    """Return the sum of the peak memory of everything that descends from this process and runs."""
    return sum(_status_kb(process, "VmHWM") for process in descendants()) / 1024


def end_descendants() -> None:
    """End everything that descends from this process, and wait for it."""
    while found := descendants():
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        reap_children()
        time.sleep(0.01)
    reap_children()


def reap_children() -> None:
    """Collect the children that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


class HeadlessRun:
    """A program without a terminal, which runs inside a `with` block."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._command, self._env, self._cwd = command, env, cwd
        self.began = 0.0
        """`time.monotonic()` before the program was started."""

    def __enter__(self) -> Self:
        self.began = time.monotonic()
        self._process = subprocess.Popen(
            self._command,
            env=dict(self._env),
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
        end_descendants()

    def wait(self, seconds: float) -> str:
        """Wait for the end of the program and return its output. Raises `MeasurementError` if it fails."""
        try:
            output = self._process.communicate(timeout=seconds)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            raise MeasurementError(f"not finished after {seconds:.0f} s") from None
        if self._process.returncode != 0:
            last = output.strip().splitlines()[-1:]
            raise MeasurementError(f"exit code {self._process.returncode}: {' '.join(last)[:60]}")
        return output


class MeasurementError(Exception):
    """A program could not be measured; the message says why in a few words."""


def wait_until(condition: Callable[[], bool], seconds: float, missing: str) -> None:
    """Wait until a condition holds. Raises `MeasurementError` saying what is missing."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise MeasurementError(f"{missing} within {seconds:.0f} s")
        time.sleep(0.005)


def _running_processes() -> Iterator[tuple[int, list[str]]]:
    """Yield the id of each process and the fields of its `/proc/ID/stat` after the name."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has just ended
                yield int(folder.name), (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()


def _cpu_of_process(process: int) -> float:
    """Return the processor time of a process, of its threads and of its children that have ended."""
    try:
        own = time.clock_gettime((~process << 3) | 2)  # the kernel's number for the clock of another process
        fields = Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return own + (int(fields[13]) + int(fields[14])) / CLOCK_TICKS_PER_SECOND


def _status_kb(process: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text("utf-8", "replace").splitlines()
    except OSError:  # it has just ended
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)
