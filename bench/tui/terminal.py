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
CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Load:
    """Resources used by a process and its threads."""

    cpu: float
    """User and system time in seconds."""
    wakes: int
    """Number of voluntary context switches."""
    peak_mb: float


class Terminal:
    """A program on a pseudo-terminal, which runs inside a `with` block. The program's terminal queries are not
    answered."""

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
        """`cores`: the processor cores on which the program may run; empty means all."""
        self._command, self._env, self._cwd = command, {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"}, cwd
        self._cores = cores
        self._emulator = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._emulator)
        self._unparsed_output = bytearray()
        """Output that the emulator has not parsed yet, because parsing takes longer than drawing."""
        self.began = 0.0
        """`time.monotonic()` before the program was started."""
        self.written_bytes = 0
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

    @property
    def _screen(self) -> pyte.Screen:
        """The screen after all output so far."""
        if self._unparsed_output:
            self._stream.feed(bytes(self._unparsed_output))
            self._unparsed_output.clear()
        return self._emulator

    def press(self, keys: str) -> float:
        """Type keys, and return the time at which the last one was typed."""
        raw = keys.encode()
        while raw:
            raw = raw[os.write(self._fd, raw) :]
            self._read_output(0)
        return time.monotonic()

    def echo_delay(self, character: str) -> float:
        """Type a character that nothing but the prompt shows. Return the seconds until the program has written it."""
        raw, start, began = character.encode(), len(self._unparsed_output), time.monotonic()
        os.write(self._fd, raw)
        while raw not in self._unparsed_output[start:]:
            if not select.select([self._fd], [], [], SCREEN_TIMEOUT_S)[0]:
                raise AssertionError(f"{character!r} was never shown:\n{self.text}")
            self._keep_output(os.read(self._fd, 1 << 16))
        return time.monotonic() - began

    def read_for(self, seconds: float) -> None:
        """Read what the program draws in the next `seconds`."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._read_output(left)

    def wait_until(self, condition: Callable[[str], bool]) -> float:
        """Wait until the screen meets a condition, and return the time at which it did."""
        drawn_at = time.monotonic()
        end = drawn_at + SCREEN_TIMEOUT_S
        while not condition(self.text):
            drawn_at = self._read_output(1.0) or time.monotonic()
            if drawn_at > end:
                raise AssertionError(f"this never came:\n{self.text}")
        return drawn_at

    def wait_for_text(self, words: str) -> float:
        """Wait until words appear on the screen, and return the time at which they did."""
        return self.wait_until(lambda text: words in text)

    def wait_for_change(self, before: str) -> float:
        """Wait until the screen differs from `before`, and return the time at which it did."""
        return self.wait_until(lambda text: text != before)

    def wait_until_idle(self, seconds: float = 0.5) -> None:
        """Wait until the program has drawn nothing for `seconds`."""
        while self._read_output(seconds) is not None:
            pass

    def resize(self, columns: int, lines: int) -> tuple[float, int]:
        """Resize the terminal. Return the seconds until the final frame, and the number of different frames before
        it."""
        self._screen.resize(lines, columns)
        began = time.monotonic()
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)
        frames: list[tuple[float, tuple[str, ...]]] = []
        timeout = SCREEN_TIMEOUT_S  # other load may delay the first frame; later frames follow quickly
        while (moment := self._read_output(timeout)) is not None:
            frames.append((moment, tuple(self._screen.display)))
            timeout = 0.5
        assert frames, "the new size was never drawn"
        final = frames[-1][1]
        wrong = [index for index, (_, picture) in enumerate(frames) if picture != final]
        first = wrong[-1] + 1 if wrong else 0
        return frames[first][0] - began, len({frames[index][1] for index in wrong})

    def read_load(self) -> Load:
        """Return the resources used so far."""
        folder = Path(f"/proc/{self.pid}")
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        wakes = sum(_proc_number(task / "status", "voluntary_ctxt_switches") for task in (folder / "task").iterdir())
        return Load(
            (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_SECOND,
            wakes,
            _proc_number(folder / "status", "VmHWM") / 1024,
        )

    def _read_output(self, seconds: float) -> float | None:
        """Read what the program draws within `seconds`. Return the time of the last output; None if there was none."""
        drawn, drawn_at = b"", None
        while select.select([self._fd], [], [], 0.001 if drawn else seconds)[0]:
            drawn += os.read(self._fd, 1 << 16)
            drawn_at = time.monotonic()
        self._keep_output(drawn)
        return drawn_at

    def _keep_output(self, drawn: bytes) -> None:
        self.written_bytes += len(drawn)
        self._unparsed_output += drawn


def _proc_number(file: Path, name: str) -> int:
    """Return the number after a name in a file of `/proc`."""
    return next(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(f"{name}:"))
