"""The terminal in a real pseudo-terminal, with the real session and a scripted model."""

import json
import os
import random
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pyte
import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 40
"""Seconds after which what should appear has not."""

SCRIPT = """
[[reply]]
text = "I look at the file first."
calls = [{ name = "read", arguments = { path = "calc.py" } }]
[[reply]]
text = "It subtracts."
calls = [{ name = "edit", arguments = { path = "calc.py", old = "a - b", new = "a + b" } }]
[[reply]]
text = "Now `add` adds."
"""


class Screen:
    """A child on a pseudo-terminal, and what is on its screen."""

    def __init__(self, child: "pexpect.spawn[bytes]", columns: int, lines: int) -> None:
        self.child = child
        self.sent = b""
        """Everything that the child wrote."""
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def until(self, words: str) -> None:
        """Reads until the words are on the screen."""
        while words not in self.text:
            self._read(words)

    def press_until(self, key: str, words: str) -> None:
        """Presses a key whenever the screen is at rest: a question ignores keys for a moment."""
        while words not in self.text:
            try:
                self._take(self.child.read_nonblocking(65_536, timeout=0.6))
            except pexpect.TIMEOUT:
                self.child.send(key)

    def until_it_ends(self) -> None:
        while not self.child.closed and self._read(None):
            pass
        self.child.wait()

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


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Screen]:
    with running(tmp_path, SCRIPT) as screen:
        yield screen


START = "import sys; from tui.cli import main; sys.exit(main(sys.argv[1:]))"


@contextmanager
def running(
    tmp_path: Path, replies: str, columns: int = 80, lines: int = 24, flags: Sequence[str] = (), start: str = START
) -> Iterator[Screen]:
    """`ebb` in a project with `calc.py`, on a model that gives these replies."""
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    (project / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    script = tmp_path / "script.toml"
    script.write_text(replies)
    environment = {**os.environ, "EBB_HOME": str(tmp_path / "home"), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    arguments = ["-c", start, "-m", f"scripted/{script}", "-C", str(project), *flags]
    child = pexpect.spawn(sys.executable, arguments, env=environment, dimensions=(lines, columns), cwd=str(project))
    try:
        yield Screen(child, columns, lines)
    finally:
        if not child.closed:
            child.close(force=True)


def test_a_message_is_answered_a_file_is_changed_and_the_terminal_is_given_back(
    terminal: Screen, tmp_path: Path
) -> None:
    terminal.until("/help shows keys")
    terminal.child.send("fix it\r")
    terminal.until("May edit change calc.py?")
    terminal.press_until("y", "Now add adds.")
    assert (tmp_path / "project" / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert b"ebb -r " in left_behind(terminal)


def left_behind(terminal: Screen) -> bytes:
    """Quits. What is written behind the terminal that was given back."""
    terminal.child.send("\x03\x03")
    terminal.until_it_ends()
    assert terminal.child.exitstatus == 0
    left = terminal.sent.rsplit(b"\x1b[?1049l", 1)
    assert len(left) == 2, "the alternate screen was not left"
    assert terminal.sent.rfind(b"\x1b[?25h") > terminal.sent.rfind(b"\x1b[?25l")
    assert b"Traceback" not in terminal.sent
    return left[1]


HOSTILE = """
[[reply]]
text = "I look: \\u001b]0;owned\\u0007 \\u001b[2J \\u009b31m مرحبا 日本語の文 👩‍👩‍👧 \\u202eabc"
calls = [{ name = "read", arguments = { path = "\\u001b]52;c;x\\u0007.py" } }]
[[reply]]
text = "The end."
"""


def test_what_steers_a_terminal_is_drawn_and_not_sent(tmp_path: Path) -> None:
    with running(tmp_path, HOSTILE) as terminal:
        terminal.until("/help shows keys")
        terminal.child.send("go\r")
        terminal.until("The end.")
        left_behind(terminal)
    for hostile in ("\x1b]0;owned", "\x1b]52;", "\x9b31m", "\u202e"):
        assert hostile.encode() not in terminal.sent


def test_ten_columns_and_a_storm_of_sizes(tmp_path: Path) -> None:
    with running(tmp_path, HOSTILE, 10, 5) as terminal:
        terminal.until("Ask, or")
        terminal.child.send("go\r")
        terminal.until("end.")
        dice = random.Random(1)
        for _ in range(60):
            terminal.resize(dice.randrange(1, 200), dice.randrange(1, 60))
        terminal.resize(80, 24)
        terminal.until("Ask, or / for commands")
        terminal.until("The end.")
        left_behind(terminal)


RESTLESS = """
import fcntl, os, signal, struct, sys, termios
from textual.drivers.linux_driver import LinuxDriver

asked = LinuxDriver._get_terminal_size

def changed_meanwhile(self):
    size = asked(self)
    if size == (60, 20):
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.kill(os.getpid(), signal.SIGWINCH)
    return size

LinuxDriver._get_terminal_size = changed_meanwhile
from tui.cli import main
main(sys.argv[1:])
"""
"""The terminal has another size already whenever it is asked while it has 60 columns."""


def test_the_last_of_two_sizes_is_the_one_that_stays(tmp_path: Path) -> None:
    with running(tmp_path, HOSTILE, 100, 30, start=RESTLESS) as terminal:
        terminal.until("/help shows keys")
        terminal.child.setwinsize(20, 60)
        terminal.until("─" * 80 + " ")


def test_noise_from_a_mouse_writes_nothing_and_takes_no_key(tmp_path: Path) -> None:
    with running(tmp_path, HOSTILE) as terminal:
        terminal.until("/help shows keys")
        dice = random.Random(1)
        for _ in range(300):
            button, column, line = dice.randrange(130), dice.randrange(300), dice.randrange(90)
            terminal.child.send(f"\x1b[<{button};{column};{line}{dice.choice('Mm')}")
        terminal.child.send("\x1b[O\x1b[I\x1b[200~pasted\x1b[201~")
        terminal.until(" pasted ")
        terminal.child.send("\x15go\r")
        terminal.until("The end.")
        assert "[<" not in terminal.text
        left_behind(terminal)


def test_a_terminal_that_is_closed_ends_the_program(tmp_path: Path) -> None:
    with running(tmp_path, HOSTILE) as terminal:
        terminal.until("/help shows keys")
        terminal.child.send("go\r")
        terminal.until("The end.")
        terminal.child.ptyproc.fileobj.close()
        terminal.child.closed = True
        terminal.child.wait()


def left_with(terminal: Screen, code: int) -> str:
    """What a program wrote behind its screen, or without one, when it ended with a code."""
    terminal.until_it_ends()
    assert terminal.child.exitstatus == code
    assert terminal.sent.count(b"\x1b[?1049h") == terminal.sent.count(b"\x1b[?1049l")
    return re.sub(r"\x1b\[\?\d+[hl]", "", terminal.sent.rsplit(b"\x1b[?1049l", 1)[-1].decode()).strip()


def test_a_session_that_is_not_there_is_one_sentence_behind_the_screen(tmp_path: Path) -> None:
    with running(tmp_path, SCRIPT, flags=["-r", "0123456789ab"]) as terminal:
        said = left_with(terminal, 2)
    assert said == "ebb: there is no session `0123456789ab`; `ebb sessions list` shows them"
    assert b"\x1b[?1049h" in terminal.sent


def test_a_session_that_is_open_elsewhere_is_one_sentence_behind_the_screen(tmp_path: Path) -> None:
    with running(tmp_path, SCRIPT) as first:
        first.until("/help shows keys")
        first.child.send("look\r")
        first.until("May edit change")
        with running(tmp_path, SCRIPT, flags=["-c"]) as second:
            said = left_with(second, 1)
    assert re.fullmatch(r"ebb: session `\w{12}` is open in another window; close it there or start a new one", said)


def test_settings_that_cannot_be_read_are_one_sentence_before_any_screen(tmp_path: Path) -> None:
    with running(tmp_path, SCRIPT, flags=["--config", "agent.nothing=1"]) as terminal:
        said = left_with(terminal, 2)
    assert re.fullmatch(r"ebb: [^\n]*`agent.nothing`[^\n]*", said)
    assert b"\x1b[?1049h" not in terminal.sent


BEFORE = """
import json, sys, threading
from pathlib import Path
import tui.opening

def loaded(sessions):
    Path("loaded.json").write_text(json.dumps(sorted(sys.modules)))
    threading.Event().wait()

tui.opening.loaded = loaded
from tui.cli import main
main(sys.argv[1:])
"""
"""Nothing is loaded any more from the moment on at which that would begin."""

AT_ONCE = ("agent.aliases", "agent.config", "agent.errors", "agent.options", "tools.kept", "tools.recalled")
"""Besides the widgets: the settings, and their errors."""


def test_nothing_is_loaded_before_the_first_paint_but_what_it_needs(tmp_path: Path) -> None:
    with running(tmp_path, SCRIPT, start=BEFORE) as terminal:
        terminal.until("Ask, or / for commands")
        terminal.child.send("typed")
        terminal.until("typed")
    modules = json.loads((tmp_path / "project" / "loaded.json").read_text())
    ours = {name for name in modules if name.startswith(("agent.", "tools.", "store."))}
    assert ours <= set(AT_ONCE), "load these where they are used first, or for types only"
    foreign = {"rich.markdown", "rich.syntax", "markdown_it", "pygments", "httpx2", "sqlite3", "tiktoken", "numpy"}
    assert foreign.isdisjoint(modules)
    assert {"tui.transcript", "tui.paint", "tui.talk", "tui.doing.table"}.isdisjoint(modules)
