"""Runs a program on a pseudo-terminal and records when it draws."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

SCREEN_TIMEOUT_S = 90.0
"""Timeout for expected screen content, in seconds."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Load:
    """Resources used by a process and its threads."""

    cpu: float
    """User and system time in seconds."""
    wakes: int
    """Number of voluntary context switches."""
    peak_mb: float


class Terminal:
    """Runs a program inside a `with` block. Terminal queries of the program are not answered."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        columns: int = 120,
        lines: int = 40,
        *,
        cores: Collection[int] = (),
    ) -> None:
        """`cores` restricts the program to these cores; empty means all."""
        self._command, self._env, self._cwd = command, {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"}, cwd
        self._cores = cores
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.began = 0.0
        """`time.monotonic()` before the program was started."""
        self.written = 0
        """Bytes written by the program so far."""

    def __enter__(self) -> Self:
        size = (self._screen.lines, self._screen.columns)
        self.began = time.monotonic()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            if self._cores:
                os.sched_setaffinity(0, self._cores)
            os.chdir(self._cwd)
            os.execvpe(self._command[0], list(self._command), dict(self._env))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def press(self, keys: str) -> float:
        """Type keys; return when the last one was typed."""
        raw = keys.encode()
        while raw:
            raw = raw[os.write(self._fd, raw) :]
            self._take(0)
        return time.monotonic()

    def until(self, condition: Callable[[str], bool]) -> float:
        """Wait until the screen meets a condition; return when it did."""
        moment = time.monotonic()
        end = moment + SCREEN_TIMEOUT_S
        while not condition(self.text):
            moment = self._take(1.0) or time.monotonic()
            if moment > end:
                raise AssertionError(f"this never came:\n{self.text}")
        return moment

    def shows(self, words: str) -> float:
        """Wait until words appear on the screen; return when they did."""
        return self.until(lambda text: words in text)

    def changes(self, before: str) -> float:
        """Wait until the screen differs from `before`; return when it did."""
        return self.until(lambda text: text != before)

    def rest(self, seconds: float = 0.5) -> None:
        """Read until nothing has been drawn for some time."""
        while self._take(seconds) is not None:
            pass

    def resize(self, columns: int, lines: int) -> tuple[float, int]:
        """Resize the terminal; return the seconds until the final screen, and the number of different frames before
        it."""
        self._screen.resize(lines, columns)
        began = time.monotonic()
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)
        pictures: list[tuple[float, tuple[str, ...]]] = []
        patience = SCREEN_TIMEOUT_S  # the first frame may be delayed by other load; the following ones come quickly
        while (moment := self._take(patience)) is not None:
            pictures.append((moment, tuple(self._screen.display)))
            patience = 0.5
        assert pictures, "the new size was never drawn"
        final = pictures[-1][1]
        wrong = [index for index, (_, picture) in enumerate(pictures) if picture != final]
        first = wrong[-1] + 1 if wrong else 0
        return pictures[first][0] - began, len({pictures[index][1] for index in wrong})

    def load(self) -> Load:
        """Return the resources used so far."""
        folder = Path(f"/proc/{self.pid}")
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        wakes = sum(_number(task / "status", "voluntary_ctxt_switches") for task in (folder / "task").iterdir())
        return Load((int(fields[11]) + int(fields[12])) / TICKS, wakes, _number(folder / "status", "VmHWM") / 1024)

    def _take(self, seconds: float) -> float | None:
        """Read what the program draws within some seconds; return when it was complete."""
        drawn, moment = b"", None
        while select.select([self._fd], [], [], 0.001 if drawn else seconds)[0]:
            drawn += os.read(self._fd, 1 << 16)
            moment = time.monotonic()
        self.written += len(drawn)
        self._stream.feed(drawn)  # parsed at the end, since that takes longer than drawing
        return moment


def _number(file: Path, name: str) -> int:
    """The number after a name in a file of `/proc`."""
    return next(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(f"{name}:"))
