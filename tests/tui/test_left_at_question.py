"""A terminal that is killed, told to end, closed or left while a question about a call is open: the call was never
approved, and the question is asked again."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit.commands import ebb
from tests.kit.pty_terminal import Screen, left_behind, ready, running

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


@contextmanager
def asked(folder: Path) -> Iterator[Screen]:
    """A terminal that asks about the second of two calls."""
    with ready(folder, ASKS) as terminal:
        terminal.send("go\r", until="echo one >> log")
        terminal.press_until("y", "echo two >> log")
        yield terminal
        terminal.until_it_ends()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_question_is_asked_again_however_the_terminal_ended(number: signal.Signals, tmp_path: Path) -> None:
    with asked(tmp_path) as terminal:
        terminal.until("? bash")
        terminal.child.kill(number)
    log = tmp_path / "project" / "log"
    assert log.read_text() == "one\n"
    with running(tmp_path, DONE, flags=("-c",)) as again:
        again.until("echo two >> log")
        again.press_until("y", "All done.")
        left_behind(again)
    assert log.read_text() == "one\ntwo\n"


def test_a_script_that_goes_on_is_told_that_it_was_never_approved(tmp_path: Path) -> None:
    with asked(tmp_path) as terminal:
        terminal.child.kill(signal.SIGKILL)
    (tmp_path / "script.toml").write_text(DONE)
    model, project, home = f"scripted/{tmp_path}/script.toml", str(tmp_path / "project"), tmp_path / "home"
    run = ebb("-p", "go on", "-c", "-m", model, "-C", project, "--output-format", "json", home=home)
    assert (run.code, run.result["result"], run.result["denied"]) == (0, "All done.", [])
    listing = ebb("sessions", "show", run.result["session"], "--json", home=home)
    outputs = [part for line in listing.lines for part in line["parts"] if part["type"] == "output"]
    assert [output.get("status", "done") for output in outputs] == ["done", "denied"]
    assert "never approved" in outputs[1]["text"]


def test_in_lines_it_is_asked_again_too(tmp_path: Path) -> None:
    with asked(tmp_path) as terminal:
        terminal.child.kill(signal.SIGKILL)
    with running(tmp_path, DONE, flags=("-c", "--plain")) as again:
        again.until("echo two >> log")
        again.press_until("y\r", "All done.")
        again.until("Turn: ")  # before that Ctrl-C would stop it
        again.child.send("\x03\x03")
        again.until_it_ends()
    assert (tmp_path / "project" / "log").read_text() == "one\ntwo\n"
