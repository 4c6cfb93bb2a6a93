"""The screen on a real pseudo-terminal that is closed, ended, filled with noise: nothing is left behind, nothing is
lost, nothing is sent that steers the terminal."""

import asyncio
import os
import random
import re
import signal
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from agent.context.why import Place
from tests.fake_provider import FakeProvider, Turn
from tests.running import ebb
from tests.tui.doubles import FakeSession, FakeSessions, FakeShelf, conversation, session_info
from tests.tui.piloting import Driven
from tests.tui.ptys import Screen, left_behind, running
from tests.tui.test_servers_screen import FORGE, FakeBoard
from tui.app import EbbApp
from tui.commands import Invocation, named
from tui.doing.table import DOING

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


BEYOND = (
    b"\x1b[99999999999u",
    b"\x1b[1:2u",
    b"\xff\xfe\xc3(",
    b"\xed\xa0\x80",
    b"\x1b[55296u",
    b"\x1b[48;0;0;0;0t",
    b"\x1b[<0;1;1M",
)
"""Numbers of no character, bytes of no text, half a pair, a screen without cells."""


def test_garbage_ends_nothing_and_is_not_sent_back(tmp_path: Path) -> None:
    with running(tmp_path, SAYS) as terminal:
        terminal.until(READY)
        dice = random.Random(6)
        for each in BEYOND:
            terminal.child.send(each)
        for _ in range(40):
            noise = bytes(
                byte
                for byte in dice.randbytes(60)
                if byte not in b"\x03\x04\x07\x0d\x11\x13\x18\x1a\x1b\x0f\x10\x14\x06\x12"
            )
            terminal.child.send(b"\x1b[200~" + noise + b"\x1b]52;c;x\x07\x1b[201~")
            terminal.child.send(
                f"\x1b[<{dice.randrange(130)};{dice.randrange(300)};{dice.randrange(90)}".encode()
                + b"Mm;"[dice.randrange(3) :]
            )
            terminal.read_some(0.02)
        terminal.child.send(b"\x1b[201~\x1b\x1b")
        terminal.read_some(1)
        left_behind(terminal)
    assert b"\x1b]52" not in terminal.sent


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\nمرحبا 日本語 👩\u200d👩\u200d👧 e\u0301\u0301 \u202eabc"
SHOWN = sorted(
    DOING.keys()
    - {"shell", "remember", "editor", "quit", "bring", "later", "print", "compact", "undo", "copy", "clear", "vim"}
)


@pytest.mark.parametrize("size", [(1, 1), (300, 3)])
async def test_every_screen_in_hardly_any_room(size: tuple[int, int], tmp_path: Path) -> None:
    places = (Place("r1", "masked", HOSTILE), Place("r9", "visible", "Viewed"))
    session = FakeSession(
        title=HOSTILE, model=f"scripted/{HOSTILE}", root=Path(f"/home/{HOSTILE}"), history=conversation(2),
        places=places, shelf=FakeShelf((), {"r1": HOSTILE, "r9": HOSTILE}),
    )  # fmt: skip
    session.servers = FakeBoard([replace(FORGE, name=HOSTILE)])
    shown: set[str] = set()
    app = EbbApp(FakeSessions([session], (session_info("abc", HOSTILE),)), guard=0.0)
    async with app.run_test(size=size) as pilot:
        t = Driven(app, pilot)
        await t.rests()
        for name in SHOWN:
            app.jobs.invoke(Invocation(named(name), "find" if name == "why" else ""))
            await pilot.pause()
            await pilot.press("down", "pagedown", "end", "tab")
            await pilot.resize_terminal(80, 24)
            await pilot.resize_terminal(*size)
            shown.add(type(app.screen).__name__)
            drawn = "".join(segment.text for line in app.screen._compositor.render_strips() for segment in line)
            assert not [char for char in drawn if unicodedata.category(char) == "Cc" or char == "\u202e"], name
            async with asyncio.timeout(10):
                while len(app.screen_stack) > 1:
                    await pilot.press("escape")
            await t.rests()
    assert len(shown) > 8, shown


def test_two_hundred_sizes_while_it_streams(tmp_path: Path) -> None:
    with running(tmp_path, STREAMS) as terminal:
        terminal.until(READY)
        terminal.child.send("go\r")
        terminal.until("many words, many")
        dice = random.Random(1)
        for _ in range(200):
            terminal.resize(dice.randrange(1, 200), dice.randrange(1, 60))
            terminal.read_some(0.01)
        terminal.resize(80, 24)
        terminal.until("Ask, or / for commands")
        left_behind(terminal)
    assert is_given_back(terminal.sent)


STEERING = r"\u001b]0;owned\u0007 \u001b[2J \u009b31m \u202e \u001bPq\u001b\\"
NAMES = f"""
[[reply]]
text = "go {STEERING}"
calls = [
  {{ name = "bash", arguments = {{ command = 'printf "\\033]0;owned\\007\\033Pq\\302\\23331m\\r over"; ls' }} }},
  {{ name = "write", arguments = {{ path = "n\\u001b]0;owned\\u0007.txt", content = "{STEERING}" }} }},
]
[[reply]]
text = "The end."
"""


def test_names_and_outputs_that_steer_a_terminal_are_drawn_and_not_sent(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "x\x1b]0;owned\x07\u202ey.py").write_text("a")
    (project / "mean\ning\x9b31m.py").write_text("a")
    with running(tmp_path, NAMES, flags=["--permission-mode", "auto"]) as terminal:
        terminal.until(READY)
        terminal.child.send("go\r")
        terminal.until("The end.")
        for typed in ("@x", "\x1b\x15", "/diff\r", "\x1b", "/sessions\r", "\x1b", "/archive\r", "\x1b"):
            terminal.child.send(typed)
            terminal.read_some(0.5)
        left_behind(terminal)
    for steering in ("\x1b]0;", "\x9b31m", "\u202e", "\x1bPq"):
        assert steering.encode() not in terminal.sent


CRUMBS, WHOLE = (1, "slow and steady " * 100), (1 << 20, "in one go " * 100_000)


@pytest.mark.parametrize(("size", "text"), [CRUMBS, WHOLE], ids=["crumbs", "at once"])
def test_answers_that_come_in_crumbs_and_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, text: str
) -> None:
    monkeypatch.setattr(
        "tests.fake_frames.pieces", lambda words: [words[at : at + size] for at in range(0, len(words), size)]
    )
    with FakeProvider([Turn(text=text + "\n\nThe end.")]) as server:
        env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "key"}
        with running(tmp_path, SAYS, flags=["-m", "anthropic/claude-sonnet-5-5"], env=env) as terminal:
            terminal.until(READY)
            terminal.child.send("go\r")
            terminal.until("The end.")
            left_behind(terminal)
