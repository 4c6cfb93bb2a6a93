"""The screen on a real pseudo-terminal that is filled with noise, and where there is hardly any room: nothing is
lost, nothing is sent that steers the terminal."""

import random
from pathlib import Path

import pytest

from tests.kit.fake_provider import Call, FakeProvider, Turn
from tests.kit.pty_terminal import SAYS, STREAMS, left_behind, ready

BEYOND = (
    b"\x1b[99999999999u", b"\x1b[1:2u", b"\xff\xfe\xc3(", b"\xed\xa0\x80", b"\x1b[55296u", b"\x1b[48;0;0;0;0t",
    b"\x1b[<0;1;1M",
)  # fmt: skip
"""Numbers of no character, bytes of no text, half a pair, a screen without cells."""


def test_garbage_ends_nothing_and_is_not_sent_back(tmp_path: Path) -> None:
    with ready(tmp_path, SAYS) as terminal:
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
        terminal.send("\x03", until="Ask, or / for commands")  # what is written goes first
        left_behind(terminal)
    assert b"\x1b]52" not in terminal.sent


def test_two_hundred_sizes_while_it_streams(tmp_path: Path) -> None:
    with ready(tmp_path, STREAMS) as terminal:
        terminal.send("go\r", until="many words, many")
        dice = random.Random(1)
        for _ in range(200):
            terminal.resize(dice.randrange(1, 200), dice.randrange(1, 60))
            terminal.read_some(0.01)
        terminal.resize(80, 24)
        terminal.until("Ask, or / for commands")
        terminal.send("\x03", until="Interrupted after")  # the turn goes first
        left_behind(terminal)
        assert terminal.is_given_back()


CRUMBS, WHOLE = "slow and steady " * 100, "in one go " * 100_000
LINE = "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo below"
MOST = 500_000
"""KB that the program may take in all of this: a paste of 20 MB is there several times for a moment."""


def cut(words: str) -> list[str]:
    """A text as it is streamed: each character by itself, or all of it in one piece."""
    size = 1 if words.startswith("slow") else 1 << 20
    return [words[at : at + size] for at in range(0, len(words), size)]


def most_taken(process: int) -> int:
    """KB of memory that a process has taken at any time."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def test_answers_lines_and_pastes_of_any_size_leave_the_screen_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.kit.fake_frames.pieces", cut)
    prints = Turn(calls=(Call("bash", {"command": LINE}),))
    texts = [Turn(text=f"{text}\n\nThe {end}.") for text, end in ((CRUMBS, "end"), (WHOLE, "second end"))]
    with FakeProvider([*texts, prints, Turn(text="The third end.")]) as server:
        flags = ["-m", "anthropic/claude-sonnet-5-5", "--permission-mode", "auto"]
        with ready(tmp_path, SAYS, flags=flags, env=server.environment) as terminal:
            for end in ("The end.", "The second end.", "The third end."):
                terminal.send("go\r", until=end)
            dice = random.Random(1)
            for _ in range(50):
                noise = (f"{dice.randrange(130)};{dice.randrange(300)};{dice.randrange(90)}" for _ in range(100))
                terminal.child.send("".join(f"\x1b[<{place}{dice.choice('Mm')}" for place in noise))
                terminal.read_some(0.01)
            terminal.child.send("\x1b[F")
            for size in (1_000_000, 20_000_000):
                terminal.paste(b"p" * size)
                terminal.until(f"[pasted {size:,} characters #")
            terminal.send("\x15", until="Ask, or / for commands")
            lines = terminal.text.splitlines()
            assert (lines[-4], lines[-2]) == ("─" * 80, "─" * 80)
            assert lines[-3].rstrip() == " Ask, or / for commands"
            assert "The third end." in terminal.text
            assert "[<" not in terminal.text
            assert most_taken(terminal.child.pid) < MOST
            left_behind(terminal)
