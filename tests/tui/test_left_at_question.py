"""A terminal that is killed, told to end, closed or left while a question about a call is open: the call was never
approved, and the question is asked again."""

import signal
from pathlib import Path

import pytest

from tests.running import ebb
from tests.tui.ptys import Screen, left_behind, running

ASKS = """
[[reply]]
text = "I work."
calls = [
    { name = "bash", arguments = { command = "echo one >> log" } },
    { name = "bash", arguments = { command = "echo two >> log" } },
]
[[reply]]
text = "All done."
"""
DONE = '[[reply]]\ntext = "All done."\n'


def asked(terminal: Screen) -> None:
    terminal.until("/help shows keys")
    terminal.send("go\r", until="echo one >> log")
    terminal.press_until("y", "echo two >> log")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_question_is_asked_again_however_the_terminal_ended(number: signal.Signals, tmp_path: Path) -> None:
    with running(tmp_path, ASKS) as terminal:
        asked(terminal)
        terminal.until("? bash")
        terminal.child.kill(number)
        terminal.until_it_ends()
    log = tmp_path / "project" / "log"
    assert log.read_text() == "one\n"
    with running(tmp_path, DONE, flags=("-c",)) as again:
        again.until("echo two >> log")
        again.press_until("y", "All done.")
        left_behind(again)
    assert log.read_text() == "one\ntwo\n"


def test_a_script_that_goes_on_is_told_that_it_was_never_approved(tmp_path: Path) -> None:
    with running(tmp_path, ASKS) as terminal:
        asked(terminal)
        terminal.child.kill(signal.SIGKILL)
        terminal.until_it_ends()
    script = tmp_path / "script.toml"
    script.write_text(DONE)
    arguments = (
        "-p",
        "go on",
        "-c",
        "-m",
        f"scripted/{script}",
        "-C",
        str(tmp_path / "project"),
        "--output-format",
        "json",
    )
    run = ebb(*arguments, home=tmp_path / "home")
    assert (run.code, run.result["result"], run.result["denied"]) == (0, "All done.", [])
    shown = ebb("sessions", "show", run.result["session"], "--json", home=tmp_path / "home")
    outputs = [part for line in shown.lines for part in line["parts"] if part["type"] == "output"]
    assert [output.get("status", "done") for output in outputs] == ["done", "denied"]
    assert "never approved" in outputs[1]["text"]


def test_in_lines_it_is_asked_again_too(tmp_path: Path) -> None:
    with running(tmp_path, ASKS) as terminal:
        asked(terminal)
        terminal.child.kill(signal.SIGKILL)
        terminal.until_it_ends()
    with running(tmp_path, DONE, flags=("-c", "--plain")) as again:
        again.until("echo two >> log")
        again.press_until("y\r", "All done.")
        again.child.send("\x03\x03")
        again.until_it_ends()
    assert (tmp_path / "project" / "log").read_text() == "one\ntwo\n"
