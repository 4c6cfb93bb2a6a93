"""However the program is ended, and whatever it does at that moment: nothing runs on, nothing is lost, and the terminal
is as it was."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

from tests.kit.commands import ROOT, ebb
from tests.kit.files import write_program
from tests.kit.polling import is_gone
from tests.kit.pty_terminal import SAYS, STREAMS, Screen, left_behind, ready, running

COMMAND = "echo $$ > pid; mv pid started; sleep 600; :"
RUNS = f"""
[[reply]]
text = "I wait."
calls = [{{ name = "bash", arguments = {{ command = "{COMMAND}" }} }}]
[[reply]]
text = "After it."
"""
ASKS = """
[[reply]]
calls = [{ name = "read", arguments = { path = "calc.py" } }]
[[reply]]
calls = [{ name = "edit", arguments = { path = "calc.py", old = "a - b", new = "a + b" } }]
"""
SCRIPTS = {
    "runs": RUNS,
    "runs deaf": RUNS.replace(COMMAND, f"trap : TERM HUP; {COMMAND}"),
    "asks": ASKS,
    "edits": SAYS,
    "edits a call": ASKS,
    "streams": STREAMS,
    "looks": SAYS,
    "chooses": SAYS,
}
EDITOR = """#!/bin/sh
{first}
stty raw -echo
echo $$ > pid; mv pid started
printf '\\033[?1049h\\033[?25l\\033[?1000hthe editor'
exec sleep 600
"""
"""As editors do, it sets the terminal as it likes."""
ENDS = {"hung up": signal.SIGHUP, "terminated": signal.SIGTERM}


def editor(folder: Path, first: str = "") -> dict[str, str]:
    file = folder / "editor"
    file.write_text(EDITOR.format(first=first))
    file.chmod(0o755)
    return {"VISUAL": str(file)}


def busy(terminal: Screen, what: str, project: Path) -> None:
    """Brings the program to where it is to be ended."""
    terminal.child.send("remember me\r")
    match what:
        case "runs" | "runs deaf":
            while not (project / "started").exists():
                terminal.read_some(0.05)
        case "asks":
            terminal.until("Change calc.py?")
        case "edits a call":
            terminal.until("Change calc.py?")
            terminal.press_until("e", "the editor")
        case "edits":
            terminal.until("Said.")
            terminal.send("a draft\x07", until="the editor")
        case "streams":
            terminal.until("many words, many")
        case "looks":
            terminal.until("Said.")
            terminal.send("/help\r", until="Esc")
        case "chooses":
            terminal.until("Said.")
            terminal.send("/resume\r", until="remember me")


TABLE = [
    *(("closed", what) for what in SCRIPTS),
    *(("hung up", what) for what in ("runs", "edits")),
    *(("terminated", what) for what in ("runs", "asks", "edits", "edits a call")),
]


@pytest.mark.parametrize(("end", "what"), TABLE)
def test_however_the_terminal_ends_nothing_runs_on_and_the_session_is_kept(tmp_path: Path, end: str, what: str) -> None:
    project = tmp_path / "project"
    flags = ["--permission-mode", "auto"] if what.startswith("runs") else []
    with ready(tmp_path, SCRIPTS[what], flags=flags, env=editor(tmp_path)) as terminal:
        busy(terminal, what, project)
        if end == "closed":
            terminal.close()
        else:
            os.kill(terminal.child.pid, ENDS[end])
        terminal.until_it_ends()
        assert b"Traceback" not in terminal.sent
        assert (terminal.child.exitstatus, terminal.child.signalstatus) == (143 if end == "terminated" else 129, None)
        assert end == "closed" or terminal.is_given_back()
    if (project / "started").exists():
        assert is_gone(int((project / "started").read_text()))
    listed = ebb("sessions", "--json", "-C", str(project), home=tmp_path / "home")
    assert "remember me" in listed.out
    if what == "streams":
        with running(tmp_path, SAYS, flags=["-c"]) as again:
            again.until("many words")
            left_behind(again)


STUCK = """
import sys, threading
from pathlib import Path
import ebbtide.tui.terminal.signals
from ebbtide.agent.records.store_thread import StoreThread

ebbtide.tui.terminal.signals._EXIT_TIMEOUT_S, ebbtide.tui.terminal.signals._KILL_TIMEOUT_S = 0.5, 1
run = StoreThread.run

async def stuck(self, work, *args, **others):
    if Path("stuck").exists():
        work = lambda *args, **others: threading.Event().wait()
    return await run(self, work, *args, **others)

StoreThread.run = stuck
from ebbtide.tui.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""From a moment on the store answers nothing any more. Nobody waits as long for it as usual."""


LATE = """
import os, signal, sys, time
import ebbtide.tui.startup
from textual._context import active_app

loaded = ebbtide.tui.startup.load_sessions

def ended_meanwhile(sessions):
    os.kill(os.getpid(), signal.SIGTERM)
    while active_app.get().main.is_attached:
        time.sleep(0.001)
    return loaded(sessions)

ebbtide.tui.startup.load_sessions = ended_meanwhile
from ebbtide.tui.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""All is loaded when the screen has gone."""


def test_it_may_end_before_all_is_loaded(tmp_path: Path) -> None:
    with running(tmp_path, SAYS, start=LATE) as terminal:
        terminal.until_it_ends()
        assert (terminal.child.exitstatus, b"internal bug" in terminal.sent) == (143, False), terminal.text
        assert terminal.is_given_back()


@pytest.mark.parametrize("what", ["looks", "edits a call"])
def test_what_hangs_is_left_to_itself_and_the_terminal_given_back(tmp_path: Path, what: str) -> None:
    project = tmp_path / "project"
    deaf = editor(tmp_path, "trap '' TERM HUP")
    with ready(tmp_path, SCRIPTS[what], start=STUCK, env=deaf) as terminal:
        busy(terminal, what, project)
        (project / "stuck").touch()
        os.kill(terminal.child.pid, signal.SIGTERM)
        terminal.until_it_ends()
        assert (terminal.child.exitstatus, terminal.child.signalstatus) == (143, None)
        assert terminal.is_given_back()
    if what == "edits a call":
        assert is_gone(int((project / "started").read_text()))


def test_a_terminal_that_takes_nothing_keeps_nobody_from_ending(tmp_path: Path) -> None:
    with ready(tmp_path, STREAMS, 200, 60, start=STUCK) as terminal:
        terminal.send("go\r", until="many words, many")
        terminal.child.delaybeforesend = None
        for _ in range(200):
            terminal.child.send("\x1b[5~\x1b[6~")  # all of it is drawn anew
        os.kill(terminal.child.pid, signal.SIGTERM)
        assert is_gone(terminal.child.pid)


@contextmanager
def shell(tmp_path: Path) -> Iterator[Screen]:
    """A shell in which the program was started, and stopped by Ctrl-Z."""
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "script.toml").write_text(SAYS)
    (tmp_path / "ebb.py").write_text("import sys; from ebbtide.tui.cli.main import main; sys.exit(main(sys.argv[1:]))")
    environment = {**os.environ, "EBB_HOME": str(tmp_path / "home"), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    child = pexpect.spawn("bash", ["--norc", "-i"], env=environment, dimensions=(24, 80), cwd=str(tmp_path))
    terminal = Screen(child, 80, 24)
    try:
        child.send("PS1='shell'\"> \"; stty -a > before\r")
        terminal.until("shell> ")
        child.send(f"{sys.executable} ebb.py -m scripted/{tmp_path}/script.toml -C project remember me\r")
        terminal.until("Said.")
        child.send("\x1a")
        terminal.until("Stopped")
        child.send("jobs -p > pid; stty -a > stopped; echo asked\r")
        terminal.until("\nasked")
        yield terminal
    finally:
        if not child.closed:
            child.close(force=True)


@pytest.mark.parametrize("end", ["hung up", "terminated", "closed"])
def test_while_it_is_stopped_it_ends_without_coming_back(tmp_path: Path, end: str) -> None:
    with shell(tmp_path) as terminal:
        process = int((tmp_path / "pid").read_text())
        written = len(terminal.sent)
        if end == "closed":
            terminal.close()
        else:
            terminal.child.send(f"kill -{ENDS[end].name} %1; kill -CONT %1; wait; stty -a > after; echo waited\r")
            terminal.until("\nwaited")
            assert (tmp_path / "before").read_text() == (tmp_path / "stopped").read_text()
            assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()
            assert b"\x1b[?1049h" not in terminal.sent[written:]
        assert is_gone(process)
        assert b"Traceback" not in terminal.sent
    listed = ebb("sessions", "--json", "-C", str(tmp_path / "project"), home=tmp_path / "home")
    assert "remember me" in listed.out


def test_ctrl_c_in_the_editor_is_for_the_editor(tmp_path: Path) -> None:
    file = write_program(tmp_path / "asking", "printf 'the editor'\nread line\n")
    with ready(tmp_path, SAYS, env={"VISUAL": str(file)}) as terminal:
        terminal.send("a draft\x07", until="the editor")
        terminal.send("\x03", until="so nothing was changed")
        terminal.until(" a draft ")
        terminal.send("\x03", until="Up restores it")  # the first one for the program takes the draft away
        left_behind(terminal)


def test_a_write_is_changed_in_the_editor_before_it_is_done(tmp_path: Path) -> None:
    file = write_program(tmp_path / "changing", 'sed -i "s/a + b/b + a/" "$1"; echo; echo "$1" > edited\n')
    with ready(tmp_path, f"{ASKS}\n{SAYS}", env={"VISUAL": str(file)}) as terminal:
        terminal.send("fix it\r", until="Change calc.py?")
        terminal.press_until("e", "edited by you")
        terminal.until("b + a")
        terminal.press_until("y", "Said.")
        left_behind(terminal)
    project = tmp_path / "project"
    assert (project / "calc.py").read_text() == "def add(a, b):\n    return b + a\n"
    assert (project / "edited").read_text().strip().endswith(".py")
