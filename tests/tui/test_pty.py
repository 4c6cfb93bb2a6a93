"""The terminal in a real pseudo-terminal, with the real session and a scripted model."""

import json
import os
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.pty_terminal import Screen, left_behind, ready, running, seen

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


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Screen]:
    with running(tmp_path, SCRIPT) as screen:
        yield screen


def test_a_message_is_answered_a_file_is_changed_and_the_terminal_is_given_back(
    terminal: Screen, tmp_path: Path
) -> None:
    terminal.until("keys and commands")
    terminal.send("fix it\r", until="Change calc.py?")
    terminal.press_until("y", "Now add adds.")
    assert (tmp_path / "project" / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert b"ebb -r " in left_behind(terminal)


HOSTILE = """
[[reply]]
text = "I look: \\u001b]0;owned\\u0007 \\u001b[2J \\u009b31m مرحبا 日本語の文 👩‍👩‍👧 \\u202eabc"
calls = [{ name = "read", arguments = { path = "\\u001b]52;c;x\\u0007.py" } }]
[[reply]]
text = "The end."
"""


def test_what_steers_a_terminal_is_drawn_and_not_sent(tmp_path: Path) -> None:
    with ready(tmp_path, HOSTILE) as terminal:
        terminal.send("go\r", until="The end.")
        left_behind(terminal)
    for hostile in ("\x1b]0;owned", "\x1b]52;", "\x9b31m", "\u202e"):
        assert hostile.encode() not in terminal.sent


PAGES = """
[[reply]]
text = """ + json.dumps("".join(f"- line {number} of *many* 日本\n" for number in range(30)) + "\nThe end.")


def test_ten_columns_and_a_storm_of_sizes(tmp_path: Path) -> None:
    with running(tmp_path, HOSTILE, 10, 5) as terminal:
        terminal.until("Ask, or")
        terminal.send("go\r", until="tokens")  # what the turn took has the only row
        dice = random.Random(1)
        for _ in range(60):
            terminal.resize(dice.randrange(1, 200), dice.randrange(1, 60))
        terminal.resize(80, 24)
        terminal.until("Ask, or / for commands")
        terminal.until("The end.")
        left_behind(terminal)


def test_the_window_has_the_size_that_it_has_whatever_variables_say(tmp_path: Path) -> None:
    with running(tmp_path, HOSTILE, 60, 20, env={"COLUMNS": "30", "LINES": "6"}) as terminal:
        terminal.until("─" * 60)
        terminal.resize(90, 29)
        terminal.until("─" * 90)
        left_behind(terminal)


def test_a_window_that_was_small_unseen_is_whole_again(tmp_path: Path) -> None:
    """What a terminal has no room for is lost, also where the program hears of the last size only, which it had."""
    with running(tmp_path, HOSTILE) as terminal:
        terminal.until("Ask, or / for commands")
        os.kill(terminal.child.pid, signal.SIGSTOP)
        terminal.resize(5, 3)
        terminal.resize(80, 24)
        assert "Ask, or / for commands" not in terminal.text
        os.kill(terminal.child.pid, signal.SIGCONT)
        terminal.until("Ask, or / for commands")
        terminal.until("keys and commands")
        left_behind(terminal)


RESTLESS = """
import fcntl, os, signal, struct, sys, termios
from ebbtide.tui.terminal.terminal_driver import ReplyReadingDriver

asked = ReplyReadingDriver._get_terminal_size

def changed_meanwhile(self):
    size = asked(self)
    if size == (60, 20):
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.kill(os.getpid(), signal.SIGWINCH)
    return size

ReplyReadingDriver._get_terminal_size = changed_meanwhile
from ebbtide.tui.cli.main import main
main(sys.argv[1:])
"""
"""The terminal has another size already whenever it is asked while it has 60 columns."""


def test_the_last_of_two_sizes_is_the_one_that_stays(tmp_path: Path) -> None:
    with ready(tmp_path, HOSTILE, 100, 30, start=RESTLESS) as terminal:
        terminal.child.setwinsize(20, 60)
        terminal.until("─" * 80 + " ")


def test_the_screen_is_drawn_anew_over_what_somebody_else_wrote_and_is_what_it_was(tmp_path: Path) -> None:
    with ready(tmp_path, PAGES, 60, 16) as terminal:
        terminal.send("go\r", until="The end.")
        terminal.send("\x1b[5~", until="line 15")  # a row may be behind the message above
        terminal.send("\x10", until="Enter")
        terminal.send("\x1b", until="Ask, or")
        terminal.send("\x1b[6~/mo", until="/model")
        terminal.rest()
        before = terminal.cells
        terminal.scribble(b"\x1b[H\x1b[2Jsomebody else\x1b[7;31m\x1b[J")
        terminal.child.send("\x0c")
        while [list(map(seen, line)) for line in terminal.cells] != [list(map(seen, line)) for line in before]:
            terminal.read_more("the same screen")


def test_noise_from_a_mouse_writes_nothing_and_takes_no_key(tmp_path: Path) -> None:
    with ready(tmp_path, HOSTILE) as terminal:
        dice, terminal.child.delaybeforesend = random.Random(1), None
        for _ in range(300):
            button, column, line = dice.randrange(130), dice.randrange(300), dice.randrange(90)
            terminal.child.send(f"\x1b[<{button};{column};{line}{dice.choice('Mm')}")
        terminal.child.send("\x1b[<0;2;2M\x1b[<0;2;2m")  # a click: Ctrl-C would copy what the noise has selected
        terminal.send("\x1b[O\x1b[I\x1b[200~pasted\x1b[201~", until=" pasted ")
        terminal.send("\x15go\r", until="The end.")
        assert "[<" not in terminal.text
        terminal.until("k tokens")  # the turn is over: what is said of a selection hides whether it works
        left_behind(terminal)


def test_a_terminal_that_is_closed_ends_the_program(tmp_path: Path) -> None:
    with ready(tmp_path, HOSTILE) as terminal:
        terminal.send("go\r", until="The end.")
        terminal.close()
        terminal.until_it_ends()


def left_with(terminal: Screen, code: int) -> str:
    """What a program wrote behind its screen, or without one, when it ended with a code."""
    terminal.until_it_ends()
    assert terminal.child.exitstatus == code
    assert terminal.sent.count(b"\x1b[?1049h") == terminal.sent.count(b"\x1b[?1049l")
    return re.sub(r"\x1b\[\?\d+[hl]", "", terminal.sent.rsplit(b"\x1b[?1049l", 1)[-1].decode()).strip()


@pytest.mark.parametrize("word", ["0123456789ab", "zzz"])
def test_a_session_that_is_not_there_is_one_sentence_behind_the_screen(tmp_path: Path, word: str) -> None:
    with running(tmp_path, SCRIPT, flags=["-r", word]) as terminal:
        message = left_with(terminal, 2)
    assert message == f"ebb: there is no session `{word}`; `ebb sessions list` shows them"
    assert b"\x1b[?1049h" in terminal.sent


def test_a_session_that_is_open_elsewhere_is_one_sentence_behind_the_screen(tmp_path: Path) -> None:
    with ready(tmp_path, SCRIPT) as first:
        first.send("look\r", until="Change ")
        with running(tmp_path, SCRIPT, flags=["-c"]) as second:
            message = left_with(second, 1)
    assert re.fullmatch(r"ebb: session `\w{12}` is open in another window; close it there or start a new one", message)


def test_settings_that_cannot_be_read_are_one_sentence_before_any_screen(tmp_path: Path) -> None:
    with running(tmp_path, SCRIPT, flags=["--config", "agent.nothing=1"]) as terminal:
        message = left_with(terminal, 2)
    assert re.fullmatch(r"ebb: [^\n]*`agent.nothing`[^\n]*", message)
    assert b"\x1b[?1049h" not in terminal.sent


BEFORE = """
import json, sys, threading
from pathlib import Path
import ebbtide.tui.startup

def loaded(sessions):
    folders = {name for name, one in sys.modules.items() if name.startswith("ebbtide.") and hasattr(one, "__path__")}
    Path("loaded.part").write_text(json.dumps(sorted(sys.modules.keys() - folders)))
    Path("loaded.part").rename("loaded.json")
    threading.Event().wait()

ebbtide.tui.startup.load_sessions = loaded
from ebbtide.tui.cli.main import main
main(sys.argv[1:])
"""
"""Nothing is loaded any more from the moment on at which that would begin. Folders do not count: they load their
modules on first use."""

AT_ONCE = (
    "ebbtide.agent.config",
    "ebbtide.agent.config.aliases",
    "ebbtide.agent.config.chat_hosts",
    "ebbtide.agent.config.clouds",
    "ebbtide.agent.config.load",
    "ebbtide.agent.config.option_values",
    "ebbtide.agent.config.options",
    "ebbtide.agent.config.table_keys",
    "ebbtide.agent.config.values",
    "ebbtide.agent.errors",
    "ebbtide.agent.integration_registry",
    "ebbtide.tools.outputs.extent",
    "ebbtide.tools.lazy",
    "ebbtide.tools.files",
    "ebbtide.tools.outputs",
    "ebbtide.tools.files.bounded",
    "ebbtide.tools.files.image_types",
    "ebbtide.tools.files.private_folder",
    "ebbtide.tools.outputs.recall_scope",
    "ebbtide.tools.tool_traits",
)  # fmt: skip
"""Apart from the widgets: the settings and the reading of their files, their errors, the formats that integrations
add, how pictures begin, how folders are made private, how dataclasses are made when they are first used, and how calls
of tools are shown. The tools themselves are loaded later."""


def test_nothing_is_loaded_before_the_first_paint_but_what_it_needs(tmp_path: Path) -> None:
    with running(tmp_path, SCRIPT, start=BEFORE) as terminal:
        terminal.until("Ask, or / for commands")
        terminal.send("typed", until="typed")
        terminal.until_there(tmp_path / "project" / "loaded.json")  # written behind the paint, by a thread of its own
    modules = json.loads((tmp_path / "project" / "loaded.json").read_text())
    ours = {name for name in modules if name.startswith(("ebbtide.agent.", "ebbtide.tools.", "ebbtide.store."))}
    assert ours <= set(AT_ONCE), "load these where they are used first, or for types only"
    foreign = {"rich.markdown", "rich.syntax", "markdown_it", "pygments", "httpx2", "sqlite3", "tiktoken", "numpy"}
    assert foreign.isdisjoint(modules)
    assert {
        "ebbtide.tui.view.reduce",
        "ebbtide.tui.render.blocks",
        "ebbtide.tui.session.controller",
        "ebbtide.tui.commands.registry",
    }.isdisjoint(modules)


def test_what_is_typed_while_the_session_is_opened_is_written_and_offered(tmp_path: Path) -> None:
    with running(tmp_path, HOSTILE) as terminal:
        terminal.until("Ask, or")
        terminal.send("a b c @cal", until=" a b c @cal")
        terminal.until(" calc.py")
        terminal.send("\t", until=" a b c @calc.py")
