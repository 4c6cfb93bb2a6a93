"""The screen on a real pseudo-terminal that is filled with noise, and where there is hardly any room: nothing is
lost, nothing is sent that steers the terminal."""

import asyncio
import random
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from agent.context.why import Place
from tests.fake_provider import FakeProvider, Turn
from tests.tui.doubles import FakeSession, FakeSessions, FakeShelf, conversation, session_info
from tests.tui.piloting import Driven
from tests.tui.ptys import left_behind, running
from tests.tui.test_servers_screen import FORGE, FakeBoard
from tui.app import EbbApp
from tui.commands import Invocation, named
from tui.doing.table import DOING

READY = "/help shows keys"
STREAMS = f"""
[[reply]]
text = "{"many words, " * 60_000}"
"""
SAYS = '[[reply]]\ntext = "Said."'


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
    assert terminal.is_given_back()


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
