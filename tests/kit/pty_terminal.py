"""`ebb` on a real pseudo-terminal: what it writes, and what is on the screen then."""

import os
import re
import signal
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pexpect
import pyte
from pyte.screens import Char

from tests.kit.commands import ROOT
from tests.kit.files import write_file

START = "import sys; from ebbtide.tui.cli.main import main; sys.exit(main(sys.argv[1:]))"
PATIENCE = 40
"""Seconds of silence after which what should appear has not."""
LONGEST = 120
"""Seconds after which it has not, whatever else is written."""
GIVEN_BACK = ("?1049l", "?25h", "?1000l", "?1003l", "?1006l", "?2004l", "?1004l", "?7h", "<u", "23;2t")
"""What the terminal is told in the end, whichever of it was on."""

SAYS = '[[reply]]\ntext = "Said."'
STREAMS = f'[[reply]]\ntext = "{"many words, " * 60_000}"'


def seen(char: Char) -> Char:
    """All that is to be seen of a cell: nobody sees in which ink a blank is drawn."""
    is_drawn = char.data != " " or char.reverse or char.underscore or char.strikethrough
    return char if is_drawn else Char(" ", bg=char.bg)


class Screen:
    """A child on a pseudo-terminal, and what is on its screen."""

    def __init__(self, child: "pexpect.spawn[bytes]", columns: int, lines: int) -> None:
        self.child = child
        self.sent = b""
        """Everything that the child wrote."""
        self.settings = termios.tcgetattr(child.child_fd)
        """How the line was set before the child changed it: a program takes longer to begin than this."""
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    @property
    def cells(self) -> list[list[Char]]:
        """What is in each cell, and how it looks."""
        buffer = self._screen.buffer
        return [[buffer[y][x] for x in range(self._screen.columns)] for y in range(self._screen.lines)]

    def scribble(self, text: bytes) -> None:
        """Writes to the terminal what the child has not written."""
        self._stream.feed(text)

    def rest(self) -> None:
        """Reads until the child has been silent for a while."""
        before = -1
        while before != len(self.sent):
            before = len(self.sent)
            self.read_some(1.0)

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and line of the terminal's own cursor."""
        return self._screen.cursor.x, self._screen.cursor.y

    def read_more(self, wanted: str) -> None:
        """Reads what comes next. `wanted`: what is waited for, told when nothing comes."""
        self._read(wanted)

    def until(self, words: str) -> None:
        """Reads until the words are on the screen. What goes on writing is not read for ever."""
        enough = monotonic() + LONGEST
        while words not in self.text:
            assert monotonic() < enough, f"{words!r} never came:\n{self.text}"
            self._read(words)

    def until_there(self, path: Path) -> None:
        """Reads until the child has put a file there."""
        end = monotonic() + PATIENCE
        while not path.exists():
            assert monotonic() < end, f"{path.name} was never written:\n{self.text}"
            self.read_some(0.05)

    def send(self, keys: str, until: str) -> None:
        """Types, and reads until words are on the screen."""
        self.child.send(keys)
        self.until(until)

    def press_until(self, key: str, words: str) -> None:
        """Presses a key whenever the screen is at rest: a question ignores keys for a moment."""
        end = monotonic() + PATIENCE
        while words not in self.text:
            assert monotonic() < end, f"waited for {words!r}:\n{self.text}"
            try:
                self._take(self.child.read_nonblocking(65_536, timeout=0.6))
            except pexpect.TIMEOUT:
                self.child.send(key)

    def paste(self, text: bytes) -> None:
        """Sends a text as a terminal sends what is pasted, however long it is."""
        left = memoryview(b"\x1b[200~" + text + b"\x1b[201~")
        while left:
            left = left[os.write(self.child.child_fd, left[:65_536]) :]

    def read_some(self, patience: float = PATIENCE) -> None:
        """Reads what there is; waits for it no longer than that many seconds."""
        try:
            self._take(self.child.read_nonblocking(65_536, timeout=patience))
        except pexpect.TIMEOUT:
            assert patience < PATIENCE, f"nothing came:\n{self.text}"

    def close(self) -> None:
        """What happens when the window is closed."""
        self.child.ptyproc.fileobj.close()
        self.child.closed = True

    def until_it_ends(self) -> None:
        while not self.child.closed and self._read(None):
            pass
        end = monotonic() + PATIENCE
        while self.child.isalive():
            assert monotonic() < end, f"does not end:\n{self.text}"
            sleep(0.02)

    def is_given_back(self) -> bool:
        """Whether each of the terminal's modes, and how its line is set, is at last as it was."""
        written = re.findall(r"\x1b\[(\?\d+[hl]|[<>]\d*u|2[23];2t)", self.sent.decode(errors="replace"))
        last = {mode[:-1]: mode for mode in written}
        missing = [mode for mode in GIVEN_BACK if mode not in last.values()]
        return missing == [] and termios.tcgetattr(self.child.child_fd) == self.settings

    def resize(self, columns: int, lines: int) -> None:
        self.child.setwinsize(lines, columns)
        self._screen.resize(lines, columns)

    def _read(self, words: str | None) -> bool:
        try:
            data = self.child.read_nonblocking(65_536, timeout=PATIENCE)
        except pexpect.EOF:
            assert words is None, f"ended without {words!r}:\n{self.text}"
            return False
        except pexpect.TIMEOUT:
            raise AssertionError(f"waited for {words!r}:\n{self.text}") from None
        self._take(data)
        return True

    def _take(self, data: bytes) -> None:
        self.sent += data
        self._stream.feed(data)


@contextmanager
def running(
    tmp_path: Path,
    replies: str,
    columns: int = 80,
    lines: int = 24,
    flags: Sequence[str] = (),
    start: str = START,
    env: Mapping[str, str] | None = None,
    sized: bool = True,
    command: Sequence[str] = (),
) -> Iterator[Screen]:
    """`ebb` in a project with `calc.py`, on a model that gives these replies. `command`: what starts it, if not the
    checkout."""
    project = tmp_path / "project"
    write_file(project / "calc.py", "def add(a, b):\n    return a - b\n")
    script = tmp_path / "script.toml"
    script.write_text(replies)
    environment = {**os.environ, "EBB_HOME": str(tmp_path / "home"), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    environment.update(env or {})
    words = ["-m", f"scripted/{script}", "-C", str(project), *flags]
    command = [*(command or (sys.executable, "-c", start)), *words]
    with started(command, env=environment, cwd=project, columns=columns, lines=lines, sized=sized) as screen:
        yield screen


@contextmanager
def started(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path, columns: int = 80, lines: int = 24, sized: bool = True
) -> Iterator[Screen]:
    """A program on a terminal of its own, which ends with the block."""
    size = (lines, columns) if sized else (0, 0)
    child = pexpect.spawn(command[0], [*command[1:]], env={**env}, dimensions=size, cwd=str(cwd))
    try:
        yield Screen(child, columns, lines)
    finally:
        if not child.closed:
            child.kill(signal.SIGKILL)  # to close it asks first, and has no patience on a busy machine
            child.wait()
            child.close()


@contextmanager
def ready(tmp_path: Path, replies: str, columns: int = 80, lines: int = 24, **how: Any) -> Iterator[Screen]:
    """The same, once its session is open."""
    with running(tmp_path, replies, columns, lines, **how) as terminal:
        terminal.until("keys and commands")
        yield terminal


def left_behind(terminal: Screen) -> bytes:
    """Quits, once the turn is over: until then Ctrl-C would stop it. What is written behind the terminal that was given
    back."""
    while "Esc interrupt" in terminal.text:
        terminal.read_more("the end of the turn")
    terminal.child.send("\x03\x03")
    terminal.until_it_ends()
    assert terminal.child.exitstatus == 0
    left = terminal.sent.rsplit(b"\x1b[?1049l", 1)
    assert len(left) == 2, "the alternate screen was not left"
    assert terminal.sent.rfind(b"\x1b[?25h") > terminal.sent.rfind(b"\x1b[?25l")
    assert b"Traceback" not in terminal.sent
    return left[1]
