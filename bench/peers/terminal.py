"""A program on a pseudo-terminal that answers like an ordinary one, and records what is drawn when."""

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.peers.processes import MeasurementError, end_descendants
from bench.peers.screens import Drawn, Screen, answers

COLUMNS, LINES = 120, 40
KEYS = "абвгдежзийклмнопрстуфхцчшщъыьэюяАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ"
"""Letters to type. No program shows them by itself, so one that is drawn has been echoed."""
KEY_INTERVAL_S = 0.05
"""Seconds after which another key is typed if none has been echoed."""


class Terminal:
    """The program runs inside a `with` block."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._command, self._cwd = command, cwd
        self._env = {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.began = 0.0
        """`time.monotonic()` before the program was started."""
        self.drawn: list[Drawn] = []
        """All output, in order."""
        self._screen, self._fed = Screen(COLUMNS, LINES), 0
        self._ended = False

    def __enter__(self) -> Self:
        self.began = time.monotonic()
        pid, self._fd = pty.fork()
        if pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
            os.chdir(self._cwd)
            os.execvpe(self._command[0], list(self._command), self._env)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        end_descendants()
        os.close(self._fd)

    @property
    def rows(self) -> list[str]:
        """The screen as it is now."""
        for piece in self.drawn[self._fed :]:
            self._screen.feed(piece.raw)
        self._fed = len(self.drawn)
        return self._screen.rows

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    def read(self, seconds: float) -> bytes:
        """Return what is drawn within `seconds`, as soon as something is; nothing if nothing is."""
        if self._ended:
            raise MeasurementError(f"ended: {' '.join(self.text.split())[-60:]}")
        if not select.select([self._fd], [], [], seconds)[0]:
            return b""
        try:
            raw = os.read(self._fd, 1 << 16)
        except OSError:  # the last process that had the terminal open has ended
            raw = b""
        self._ended = not raw
        self.drawn.append(Drawn(time.monotonic(), raw))
        self._reply(raw)
        return raw

    def press(self, keys: str) -> float:
        """Type keys, and return the time at which they were typed."""
        pressed = time.monotonic()
        os.write(self._fd, keys.encode())
        return pressed

    def run_for(self, seconds: float) -> None:
        """Let the program run, and record what it draws."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.read(left)

    def wait_for(self, condition: Callable[[str], bool], seconds: float, missing: str) -> float:
        """Wait until the screen meets a condition, and return the time of the output that made it so."""
        end = time.monotonic() + seconds
        while not condition(self.text):
            if time.monotonic() > end:
                raise MeasurementError(f"{missing} within {seconds:.0f} s")
            self.read(0.2)
        return self.drawn[-1].at

    def wait_for_text(self, words: str, seconds: float) -> float:
        """Wait until words are on the screen, and return the time of the output that put them there."""
        return self.wait_for(lambda text: words in text, seconds, f"no `{words}`")

    def wait_for_bytes(self, wanted: bytes, seconds: float) -> float | None:
        """Wait until bytes are drawn, and return the time at which they were; None if they were not."""
        end, first = time.monotonic() + seconds, len(self.drawn)
        while (left := end - time.monotonic()) > 0:
            self.read(left)
            if wanted in b"".join(piece.raw for piece in self.drawn[first:]):
                return self.drawn[-1].at
        return None

    def wait_until_echoed(self, seconds: float) -> tuple[float, str]:
        """Type keys until one is echoed. Return the time of the echo and what was typed.

        Nothing is typed while the terminal itself would echo it."""
        end, typed, next_key = time.monotonic() + seconds, "", 0.0
        recent = b""
        while time.monotonic() < end:
            if time.monotonic() >= next_key and not self._echoes_itself():
                typed += KEYS[len(typed) % len(KEYS)]
                next_key = self.press(typed[-1]) + KEY_INTERVAL_S
            recent = recent[-8:] + self.read(0.01)
            if typed and any(key.encode() in recent for key in typed):
                return self.drawn[-1].at, typed
        raise MeasurementError(f"no key was echoed within {seconds:.0f} s")

    def _echoes_itself(self) -> bool:
        return bool(termios.tcgetattr(self._fd)[3] & termios.ECHO)

    def _reply(self, raw: bytes) -> None:
        if b"\x1b" in raw and (replies := answers(raw, self._cursor_at(raw))):
            os.write(self._fd, replies)

    def _cursor_at(self, raw: bytes) -> tuple[int, int]:
        """Return the cursor's place if the output asks for it; following it always would take longer than reading."""
        if b"\x1b[6n" not in raw:
            return (1, 1)
        assert self.rows
        return self._screen.cursor
