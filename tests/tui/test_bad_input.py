"""The screen on a real pseudo-terminal that is closed, ended, filled with noise: nothing is left behind, nothing is
lost, nothing is sent that steers the terminal."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.running import ebb
from tests.tui.ptys import Screen, left_behind, running

READY = "/help shows keys"
RUNS = """
[[reply]]
text = "I wait."
calls = [{ name = "bash", arguments = { command = "echo $$ > pid; mv pid started; sleep 600; :" } }]
[[reply]]
text = "After it."
"""
ASKS = """
[[reply]]
calls = [{ name = "read", arguments = { path = "calc.py" } }]
[[reply]]
calls = [{ name = "edit", arguments = { path = "calc.py", old = "a - b", new = "a + b" } }]
"""
STREAMS = f"""
[[reply]]
text = "{"many words, " * 60_000}"
"""
SAYS = '[[reply]]\ntext = "Said."'
SCRIPTS = {"runs": RUNS, "asks": ASKS, "streams": STREAMS, "looks": SAYS, "chooses": SAYS}
GIVEN_BACK = ("?1049l", "?25h", "?1000l", "?1003l", "?1006l", "?2004l", "?1004l", "?7h", "<u", "23;2t")
"""What the terminal is told in the end, whichever of it was on."""


def busy(terminal: Screen, what: str, project: Path) -> None:
    """Brings the program to where it is to be ended."""
    terminal.until(READY)
    terminal.child.send("remember me\r")
    match what:
        case "runs":
            while not (project / "started").exists():
                terminal.read_some(0.05)
        case "asks":
            terminal.until("May edit change calc.py?")
        case "streams":
            terminal.until("many words, many")
        case "looks":
            terminal.until("Said.")
            terminal.child.send("/help\r")
            terminal.until("Esc")
        case "chooses":
            terminal.until("Said.")
            terminal.child.send("/resume\r")
            terminal.until("remember me")


def is_given_back(sent: bytes) -> bool:
    """Whether each of the terminal's modes is at last as it was."""
    last = {
        mode[:-1]: mode for mode in re.findall(r"\x1b\[(\?\d+[hl]|[<>]\d*u|2[23];2t)", sent.decode(errors="replace"))
    }
    return [mode for mode in GIVEN_BACK if mode not in last.values()] == []


ENDS = [("closed", what) for what in SCRIPTS] + [("hung up", "runs"), ("terminated", "runs"), ("terminated", "asks")]


@pytest.mark.parametrize(("end", "what"), ENDS)
def test_however_the_terminal_ends_nothing_runs_on_and_the_session_is_kept(tmp_path: Path, end: str, what: str) -> None:
    project = tmp_path / "project"
    with running(tmp_path, SCRIPTS[what], flags=["--permission-mode", "auto"] if what == "runs" else []) as terminal:
        busy(terminal, what, project)
        if end == "closed":
            terminal.close()
        else:
            os.kill(terminal.child.pid, signal.SIGHUP if end == "hung up" else signal.SIGTERM)
        terminal.until_it_ends()
        assert b"Traceback" not in terminal.sent
        assert (terminal.child.exitstatus, terminal.child.signalstatus) == (143 if end == "terminated" else 129, None)
        assert end == "closed" or is_given_back(terminal.sent)
    if what == "runs":
        with pytest.raises(ProcessLookupError):
            os.kill(int((project / "started").read_text()), 0)
    listed = ebb("sessions", "--json", "-C", str(project), home=tmp_path / "home")
    assert "remember me" in listed.out
    if what == "streams":
        with running(tmp_path, SAYS, flags=["-c"]) as again:
            again.until("many words")
            left_behind(again)
