"""Ctrl-Z in a real shell: the terminal is the shell's again, and all of the screen comes back."""

import os
import sys
from pathlib import Path

import pexpect

from tests.kit.commands import ROOT
from tests.kit.pty_terminal import Screen, left_behind, ready

SLOW = """
[[reply]]
text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen done"
pause_between = 0.1
"""


def test_a_turn_that_streams_is_stopped_by_the_shell_and_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text(SLOW)
    environment = {**os.environ, "EBB_HOME": str(tmp_path / "home"), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    shell = pexpect.spawn("bash", ["--norc", "-i"], env=environment, dimensions=(24, 80), cwd=str(tmp_path))
    terminal = Screen(shell, 80, 24)
    try:
        shell.send("PS1='shell'\"> \"\r")
        terminal.until("shell> ")
        # As from a launcher: a process in between, which waits and is in the same group.
        (tmp_path / "ebb.py").write_text(
            "import sys; from ebbtide.tui.cli.main import main; sys.exit(main(sys.argv[1:]))"
        )
        (tmp_path / "launch.sh").write_text(f"{sys.executable} ebb.py -m scripted/{script} go; echo left\n")
        shell.send("sh launch.sh\r")
        terminal.until("three")
        shell.send("\x1a")
        terminal.until("Stopped")
        shell.send("stty -a; echo asked\r")
        terminal.until("\nasked")
        assert " icanon" in terminal.text
        assert " echo " in terminal.text
        shell.send("fg\r")
        terminal.until("fifteen done")
        assert "Ask, or / for commands" in terminal.text
        assert terminal.sent.count(b"\x1b[22;2t") == 2
        shell.send("typed")
        terminal.until(" typed ")
        shell.send("\x03")  # what was typed goes first
        terminal.until("Ask, or / for commands")
        shell.send("\x03")
        terminal.until("again to exit")
        shell.send("\x03")
        terminal.until("\nleft")
        assert terminal.sent.count(b"\x1b[23;2t") == 2
        assert b"Traceback" not in terminal.sent
    finally:
        shell.close(force=True)


def test_with_no_shell_to_come_back_from_it_stays(tmp_path: Path) -> None:
    with ready(tmp_path, SLOW) as terminal:
        terminal.send("\x1a", until="no shell to suspend to")
        left_behind(terminal)
    assert b"\x1b]2;ebb \xc2\xb7 project\x07" in terminal.sent
    assert terminal.sent.rfind(b"\x1b[23;2t") > terminal.sent.rfind(b"\x1b]2;")
