"""What the terminal says of its ground is heard, and never typed."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.options import ThemeName
from tests.tui.doubles import FakeSession, FakeSessions
from tests.tui.piloting import terminal
from tests.tui.ptys import running
from tests.tui.test_pty import SCRIPT
from tui.answering import QUESTION, Answers, GroundTold, ground_of
from tui.app import EbbApp

WHITE, BLACK = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\", "\x1b]11;rgb:0000/0000/0000\x07"


@pytest.mark.parametrize(
    ("answer", "ground"),
    [
        ("11;rgb:ffff/ffff/ffff", "light"),
        ("11;rgb:fd/f6/e3", "light"),
        ("11;rgba:0000/2b2b/3636/ffff", "dark"),
        ("11;rgb:1/1/1", "dark"),
        ("11;rgb:zz/00/00", None),
        ("10;rgb:ff/ff/ff", None),
        ("11;?", None),
    ],
)
def test_an_answer_says_light_or_dark(answer: str, ground: str | None) -> None:
    assert ground_of(answer) == ground


def test_answers_are_taken_out_of_what_is_typed() -> None:
    assert Answers().taken_from(f"he{WHITE}llo{BLACK}\x1b[A") == ("hello\x1b[A", ("light", "dark"))


@pytest.mark.parametrize("cut", range(2, len(WHITE)))
def test_an_answer_in_pieces_is_heard(cut: int) -> None:
    answers = Answers()
    assert answers.taken_from(f"a{WHITE[:cut]}") == ("a", ())
    assert answers.taken_from(f"{WHITE[cut:]}b") == ("b", ("light",))
    assert answers.given_up() == ""


def test_what_never_becomes_an_answer_is_typed_after_all() -> None:
    answers = Answers()
    assert answers.taken_from("\x1b]") == ("", ())
    assert answers.given_up() == "\x1b]"
    assert answers.taken_from("\x1b") == ("\x1b", ())
    assert answers.taken_from(f"\x1b]11;{'x' * 200}") == (f"\x1b]11;{'x' * 200}", ())


async def test_the_theme_follows_the_ground_only_where_it_was_left_to_the_terminal() -> None:
    expected: dict[ThemeName, str] = {"auto": "ebb-light", "ansi": "ebb-ansi-light", "dark": "ebb-dark"}
    for theme, worn in expected.items():
        app = EbbApp(FakeSessions(), theme=theme)
        async with app.run_test() as pilot:
            app.post_message(GroundTold("light"))
            await pilot.pause()
            assert app.theme == worn


async def test_without_colour_nothing_is_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with terminal(FakeSession()) as t:
        t.app.post_message(GroundTold("light"))
        await t.pilot.pause()
        assert t.app.theme == "ebb-ansi"
        assert t.app.native_ansi_color
        assert os.environ["NO_COLOR"] == "1"


def test_a_terminal_that_says_what_it_draws_on_has_nothing_typed_by_it(tmp_path: Path) -> None:
    with running(tmp_path, SCRIPT) as screen:
        screen.until("/help shows keys")
        assert QUESTION.encode() in screen.sent
        screen.child.send(f"fix{WHITE[:9]}")
        screen.child.send(f"{WHITE[9:]} it\r")
        screen.until("May edit change calc.py?")
        assert b"48;5;231m" in screen.sent  # white, of the 256 colours that this terminal has
        assert "› fix it" in screen.text


REPLIES = (
    "\x1b[?1;2c",
    "\x1b[>41;390;0c",
    "\x1b[?997;1n",
    "\x1b[?1u",
    "\x1b[0n",
    "\x1b[8;24;80t",
    "\x1bP>|xterm(390)\x1b\\",
)
KEYS = (
    "a",
    "\x1b[A",
    "\x1bOQ",
    "\x1b[1;2R",
    "\x1b[I",
    "\x1b[?2026;2$y",
    "\x1b[<0;3;4M",
    "\x1b[97;5u",
    "\x1b[48;24;80;0;0t",
    "é",
)


@given(st.lists(st.sampled_from(REPLIES + KEYS), max_size=8))
def test_replies_are_taken_out_and_no_key_is_lost(sent: list[str]) -> None:
    answers = Answers()
    typed, _ = answers.taken_from("".join(sent))
    assert typed + answers.given_up() == "".join(key for key in sent if key in KEYS)


@given(st.sampled_from([reply for reply in REPLIES if reply[1] == "P" or reply[2] in "?>"]), st.integers(3, 20))
def test_a_reply_in_pieces_is_taken_out(reply: str, cut: int) -> None:
    answers = Answers()
    typed = answers.taken_from(f"a{reply[:cut]}")[0] + answers.taken_from(f"{reply[cut:]}b")[0]
    assert typed + answers.given_up() == "ab"


def test_a_late_reply_is_not_typed_and_esc_right_before_a_command_is_esc(tmp_path: Path) -> None:
    slow = '[[reply]]\ntext = "one two three four five six seven eight nine"\npause_between = 0.5\n'
    with running(tmp_path, slow) as screen:
        screen.until("/help shows keys")
        screen.child.send("hel\x1b[?1;2c\x1bP>|tmux 3.3a\x1b\\lo\r")
        screen.until("two")
        assert "› hello" in screen.text
        screen.child.send("\x1b/help\r")
        screen.until("Esc closes")
        screen.child.send("\x1b")
        screen.until("interrupted")
