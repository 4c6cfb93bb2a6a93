"""What the terminal says of its ground is heard, and never typed."""

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from textual import constants
from textual._xterm_parser import XTermParser
from textual.events import Key, Paste
from textual.message import Message

from ebbtide.agent.config.options import ThemeName
from ebbtide.tui.app import EbbApp
from ebbtide.tui.terminal.replies import REPLY_TIMEOUT_S, TerminalReplies
from ebbtide.tui.terminal.size_query import SizeReported
from ebbtide.tui.terminal.terminal_driver import BACKGROUND_QUERY, BackgroundColor, TerminalInput, background_in_reply
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession, FakeSessions
from tests.kit.pty_terminal import SAYS, ready
from tests.tui.test_pty import SCRIPT

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
    assert background_in_reply(answer) == ground


def test_answers_are_taken_out_of_what_is_typed() -> None:
    assert TerminalReplies().split_replies(f"he{WHITE}llo{BLACK}\x1b[A") == (("he", "llo", "\x1b[A"), (WHITE, BLACK))


@pytest.mark.parametrize("cut", range(1, len(WHITE)))
def test_an_answer_in_pieces_is_heard(cut: int) -> None:
    replies = TerminalReplies()
    assert replies.split_replies(f"a{WHITE[:cut]}") == (("a",), ())
    assert replies.split_replies(f"{WHITE[cut:]}b") == (("", "b"), (WHITE,))
    assert replies.release() == ""


@pytest.mark.parametrize(
    ("begun", "typed"),
    [
        ("\x1b", "\x1b"), ("\x1b[", "\x1b["), ("\x1b]", ""), ("\x1bP>|x", ""), ("\x1b[8;24", ""), ("\x1b_Gi=1", ""),
        ("\x1b[<0;3", ""), ("\x1b[?", ""), (f"\x1b]52;c;{'x' * 20_000}", ""),
    ],
)  # fmt: skip
def test_what_can_only_be_half_a_reply_is_no_key(begun: str, typed: str) -> None:
    replies = TerminalReplies()
    assert replies.split_replies(f"a{begun}") == (("a",), ())
    assert replies.release() == typed


@pytest.mark.parametrize("key", ["\x03", "\r", "\x1b[A", "\x1bOA", "\x7f"])
@pytest.mark.parametrize("begun", ["\x1b]11;rgb:1e1e/", "\x1bP>|tmu", "\x1b_Gi=1"])
def test_a_key_ends_a_reply_that_was_cut_off(begun: str, key: str) -> None:
    assert "".join(TerminalReplies().split_replies(f"a{begun}{key}")[0]) == f"a{key}"


def test_alt_and_a_letter_in_one_read_with_text_is_no_reply() -> None:
    for typed in ("\x1bPlease", "\x1b]hello", "\x1bXy"):
        assert TerminalReplies().split_replies(typed) == ((typed,), ())


async def test_the_theme_follows_the_ground_only_where_it_was_left_to_the_terminal() -> None:
    expected: dict[ThemeName, str] = {"auto": "ebb-light", "ansi": "ebb-ansi-light", "dark": "ebb-dark"}
    for theme, worn in expected.items():
        app = EbbApp(FakeSessions(), theme=theme)
        async with app.run_test() as pilot:
            app.post_message(BackgroundColor("light"))
            await pilot.pause()
            assert app.theme == worn


async def test_without_colour_nothing_is_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with terminal(FakeSession()) as t:
        t.app.post_message(BackgroundColor("light"))
        await t.pilot.pause()
        assert t.app.theme == "ebb-ansi"
        assert t.app.native_ansi_color
        assert os.environ["NO_COLOR"] == "1"


def test_a_terminal_that_says_what_it_draws_on_has_nothing_typed_by_it(tmp_path: Path) -> None:
    with ready(tmp_path, SCRIPT, 80, 40) as screen:  # the message stands above the question
        assert BACKGROUND_QUERY.encode() in screen.sent
        screen.child.send(f"fix{WHITE[:16]}")
        screen.send(f"{WHITE[16:]} it\r", until="Change calc.py?")
        assert b"48;5;231m" in screen.sent  # white, of the 256 colours that this terminal has
        assert "▌ fix it" in screen.text


REPLIES = (
    "\x1b[?1;2c", "\x1b[>41;390;0c", "\x1b[?997;1n", "\x1b[?1u", "\x1b[0n", "\x1b[8;24;80t", "\x1bP>|xterm(390)\x1b\\",
    "\x1b[?12;3$w", "\x1b_Gi=1;OK\x1b\\", "\x1bP1$r0m\x1b\\", "\x1b]52;c;YQ==\x07",
)  # fmt: skip
KEYS = (
    "a", "\x1b[A", "\x1bOQ", "\x1b[1;2R", "\x1b[I", "\x1b[?2026;2$y", "\x1b[<0;3;4M", "\x1b[97;5u",
    "\x1b[48;24;80;480;800t", "é",
)  # fmt: skip


@given(st.lists(st.sampled_from(REPLIES + KEYS), max_size=8))
def test_replies_are_taken_out_and_no_key_is_lost(sent: list[str]) -> None:
    replies = TerminalReplies()
    typed = "".join(replies.split_replies("".join(sent))[0])
    assert typed + replies.release() == "".join(key for key in sent if key in KEYS)


Received = tuple[object, ...]


def told(message: Message) -> Received:
    return (
        type(message).__name__,
        *(str(getattr(message, name, "")) for name in ("key", "character", "text", "x", "y")),
    )


def told_by_textual(segments: Sequence[str]) -> list[Received]:
    """What its own parser makes of keys without any answer, when each segment is followed by a pause. What is pasted is
    told without it: it takes some of that for keys."""
    parser = XTermParser()
    received: list[Message] = []
    for segment in segments:
        if segment == PASTE:
            received.append(Paste("a\x1b[1mé"))
        elif segment:
            received += parser.feed(segment)
        if parser._timeout_time is not None:
            parser._timeout_time = 0.0
        received += parser.tick()
    return [told(message) for message in received]


PASTE = "\x1b[200~a\x1b[1mé\x1b[201~"
PRESSED = (*KEYS, "\x1b", "[", PASTE, "\x1b[I", "\x1b\r")
SENT = st.lists(st.sampled_from((*REPLIES, WHITE, BLACK, *PRESSED)), min_size=1, max_size=8)


@settings(max_examples=400)
@given(SENT, st.lists(st.integers(0, 200), max_size=12))
@example(["\x1b", REPLIES[0], "a"], [])
def test_however_an_answer_is_cut_nothing_of_it_is_typed_and_no_key_is_lost(sent: list[str], cuts: list[int]) -> None:
    # Textual's parser does not know Alt-Up as Escape and Up, nor where Alt and a character end: see the tests below.
    assume("\x1b\x1b[A" not in "".join(sent) and not re.search("\x1b[aé]+\x1b", "".join(sent)))
    raw = "".join(sent).encode()
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    received: list[Message] = []
    hearing = TerminalInput(received.append, debug=False)
    now = 1.0
    with (
        patch("ebbtide.tui.terminal.terminal_driver.get_time", lambda: now),
        patch("textual._parser.get_time", lambda: now),
    ):
        for start, end in pairwise(places):
            hearing.feed_bytes(raw[start:end])
            hearing.wait()
        now += constants.ESCAPE_DELAY
        hearing.wait()
        apart = {PASTE: f"\0{PASTE}\0", **dict.fromkeys((*REPLIES, WHITE, BLACK), "\0")}
        segments = "".join(apart.get(each, each) for each in sent).replace("\x1b\r", "\x1b[13;3u").split("\0")
        assert [
            told(each) for each in received if not isinstance(each, BackgroundColor | SizeReported)
        ] == told_by_textual(segments)
    grounds = [each.tone for each in received if isinstance(each, BackgroundColor)]
    assert grounds == [{WHITE: "light", BLACK: "dark"}[each] for each in sent if each in (WHITE, BLACK)]


def keys_of_two_reads(first: str, second: str, pause: float) -> list[str]:
    """The keys that are heard of two reads with so many seconds between them."""
    received: list[Message] = []
    hearing = TerminalInput(received.append, debug=False)
    now = 1.0
    with (
        patch("ebbtide.tui.terminal.terminal_driver.get_time", lambda: now),
        patch("textual._parser.get_time", lambda: now),
    ):
        hearing.feed_bytes(first.encode())
        for _ in range(round(pause / 0.01)):
            now += 0.01
            hearing.wait()
        hearing.feed_bytes(second.encode())
    return [each.key for each in received if isinstance(each, Key)]


CUT = [*REPLIES, WHITE, BLACK, "\x1b[<0;3;4M", "\x1b[1;5C", "\x1b[200~x\x1b[201~"]


@pytest.mark.parametrize("reply", CUT)
def test_the_rest_of_a_reply_or_a_key_may_come_late_and_half_of_one_is_never_typed(reply: str) -> None:
    whole = ["a", "ctrl+right", "b"] if reply == "\x1b[1;5C" else ["a", "b"]
    for cut in range(2 if reply[1] != "[" else 3, len(reply)):
        for pause in (0.12, REPLY_TIMEOUT_S - 0.05):
            assert keys_of_two_reads(f"a{reply[:cut]}", f"{reply[cut:]}b", pause) == whole
        if "200~" not in reply[:cut]:
            assert keys_of_two_reads(f"a{reply[:cut]}", "b", REPLY_TIMEOUT_S + 0.1) == ["a", "b"]


def test_esc_alone_is_heard_after_the_time_that_the_rest_of_a_key_has() -> None:
    received: list[Message] = []
    hearing = TerminalInput(received.append, debug=False)
    now = 1.0
    with (
        patch("ebbtide.tui.terminal.terminal_driver.get_time", lambda: now),
        patch("textual._parser.get_time", lambda: now),
    ):
        hearing.feed_bytes(b"\x1b")
        hearing.wait()
        assert received == []
        now += constants.ESCAPE_DELAY
        hearing.wait()
        hearing.wait()
        assert [told(each) for each in received] == [("Key", "escape", "\x1b", "", "", "")]


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("\x1b\r", "alt+enter"), ("\x1b\n", "alt+enter"), ("\x1b[27;3;13~", "alt+enter"), ("\x1b[13;3u", "alt+enter"),
        ("\x1b[27;2;13~", "shift+enter"), ("\x1b[13;2u", "shift+enter"), ("\n", "ctrl+j"), ("\r", "enter"),
    ],
)  # fmt: skip
def test_enter_keeps_what_is_held_with_it(typed: str, key: str) -> None:
    received: list[Message] = []
    TerminalInput(received.append, debug=False).feed_bytes(typed.encode())
    assert [event.key for event in received if isinstance(event, Key)] == [key]


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("\x1b[91;5u", "escape"), ("\x1b[104;5u", "backspace"), ("\x1b[105;5u", "tab"), ("\x1b[109;5u", "enter"),
        ("\x1b[27;5;91~", "escape"), ("\x1b[27;5;104~", "backspace"), ("\x1b[27;5;109~", "enter"),
        ("\x1b[91;133u", "escape"), ("\x1b[104;69u", "backspace"), ("\x1b[27;5;100~", "ctrl+d"),
        ("\x1b[13;5u", "ctrl+enter"), ("\x1b[9;5u", "ctrl+tab"), ("\x1b[104;7u", "alt+ctrl+h"),
        ("\x1b[106;5u", "ctrl+j"),
    ],
)  # fmt: skip
def test_what_has_always_been_one_key_with_ctrl_still_is(typed: str, key: str) -> None:
    """anthropics/claude-code#75524, google-gemini/gemini-cli#14689: Ctrl-[ is not Esc in vi's keys where the terminal
    tells the two apart. letta-ai/letta-code#4565: nor does Ctrl-H delete. ghostty-org/ghostty#3320: nor is Ctrl-M
    Enter. Kohaku-Lab/KohakuTerrarium#31: Ctrl-D as xterm sends it with `modifyOtherKeys`."""
    received: list[Message] = []
    TerminalInput(received.append, debug=False).feed_bytes(typed.encode())
    assert [event.key for event in received if isinstance(event, Key)] == [key]


@pytest.mark.parametrize(
    ("reads", "keys"),
    [
        (["\x1bd\x1bd", "\x1bd"], ["alt+d"] * 3),
        (["\x1b", "d", "\x1b", "d"], ["alt+d"] * 2),
        (["\x1bx\x1b[B"], ["alt+x", "down"]),
        (["\x1bb\x1bf"], ["ctrl+left", "ctrl+right"]),
        (["\x1b\x1b[D", "\x1b\x1bOC"], ["alt+left", "alt+right"]),
        (["\x1b[127;11u", "\x1b[127;3u"], ["alt+backspace"] * 2),
        (["\x1b", "\x1b"], ["escape"] * 2),
    ],
)
def test_alt_is_told_of_each_key_that_it_is_held_with(reads: list[str], keys: list[str]) -> None:
    """can1357/oh-my-pi#2064: Option with Backspace in Ghostty sends `ESC [127;11u`, which is not understood.
    kovidgoyal/kitty#838: iTerm2 sends `ESC ESC [D` for Option with an arrow, which would be Esc, and end a turn."""
    received: list[Message] = []
    hearing = TerminalInput(received.append, debug=False)
    now = 1.0
    with (
        patch("ebbtide.tui.terminal.terminal_driver.get_time", lambda: now),
        patch("textual._parser.get_time", lambda: now),
    ):
        for read in reads:
            hearing.feed_bytes(read.encode())
            now += 0.03
            hearing.wait()
        now += 1.0
        hearing.wait()
    assert [each.key for each in received if isinstance(each, Key)] == keys


def test_the_end_of_a_paste_may_come_late() -> None:
    received: list[Message] = []
    hearing = TerminalInput(received.append, debug=False)
    now = 1.0
    with (
        patch("ebbtide.tui.terminal.terminal_driver.get_time", lambda: now),
        patch("textual._parser.get_time", lambda: now),
    ):
        for piece in (b"\x1b[200~one\xc3", b"\xa9", b"\x1b", b"[201", b"~y"):
            hearing.feed_bytes(piece)
            now += 10
            hearing.wait()
    assert [told(each)[:4] for each in received] == [("Paste", "", "", "oneé"), ("Key", "y", "y", "")]


def test_ctrl_c_ends_a_paste_whose_end_never_comes() -> None:
    received: list[Message] = []
    now = 1.0
    hearing = TerminalInput(received.append, debug=False, clock=lambda: now)
    for typed, pause in (
        (b"\x1b[200~one", 0.5),
        (b"\x03", 0.5),
        (b"two\r\x1b[20", 1.0),
        (b"\x03", 2.0),
        (b"\x03", 0.0),
    ):
        hearing.feed_bytes(typed)
        now += pause
    assert said(received) == ["one\x03two\r\x1b[20", "ctrl+c"]


def test_a_late_reply_is_not_typed_and_esc_right_before_a_command_is_esc(tmp_path: Path) -> None:
    slow = '[[reply]]\ntext = "one two three four five six seven eight nine"\npause_between = 0.5\n'
    with ready(tmp_path, slow) as screen:
        screen.send("hel\x1b[?1;2c\x1bP>|tmux 3.3a\x1b\\lo\r", until="two")
        assert "▌ hello" in screen.text
        screen.send("\x1b/help\r", until="Esc close")
        screen.send("\x1b", until="Interrupted after")


PASTED = ("a", "\x1b", "\x1b[", "\x1b[A", "\r", "\x03", "\x1b[200~", "\x1b[201", "é", "0" * 40, "\n")
"""What is a key, or becomes one where it is taken by itself."""


@given(st.lists(st.sampled_from(PASTED), max_size=9), st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_what_is_pasted_is_one_text_and_no_key_however_it_comes(parts: list[str], sizes: list[int]) -> None:
    text = "".join(parts)
    sent, received = f"x\x1b[200~{text}\x1b[201~y".encode(), list[Message]()
    hearing = TerminalInput(received.append, debug=False)
    while sent:
        size = sizes[len(sent) % len(sizes)]
        hearing.feed_bytes(sent[:size])
        sent = sent[size:]
    assert said(received) == ["x", text, "y"]


def said(received: list[Message]) -> list[str]:
    """Keys by their names, and the texts of pastes."""
    return [each.key if isinstance(each, Key) else each.text for each in received if isinstance(each, Key | Paste)]


def test_pastes_follow_each_other_and_a_megabyte_is_nothing() -> None:
    received: list[Message] = []
    hearing = TerminalInput(received.append, debug=False)
    hearing.feed_bytes(b"\x1b[200~one\x1b[201~\x1b[200~tw\0o\x1b[201~")
    hearing.feed_bytes(b"\x1b[200~" + b"long " * 200_000)
    hearing.feed_bytes(b"\x1b[201~z")
    assert said(received) == ["one", "two", "long " * 200_000, "z"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("one\rtwo", ["one\rtwo"]),
        ("one\r\n\r\n\ttwo\r", ["one\r\n\r\n\ttwo\r"]),
        ("\rtwo", ["\rtwo"]),
        ("y\r", ["y", "enter"]),
        ("\r\r\n", ["enter", "enter", "ctrl+j"]),
        ("y\r\x1b[A", ["y", "enter", "up"]),
        ("\x1b\rtwo", ["alt+enter", "t", "w", "o"]),
        ("\x1b[Aone\rtwo\x03", ["up", "one\rtwo", "ctrl+c"]),
        ("\x1b[200~one\rtwo\x1b[201~\r", ["one\rtwo", "enter"]),
    ],
)
def test_text_behind_a_line_end_in_one_read_is_a_paste(typed: str, expected: list[str]) -> None:
    received: list[Message] = []
    TerminalInput(received.append, debug=False).feed_bytes(typed.encode())
    assert said(received) == expected


def test_lines_that_are_pasted_without_marks_are_not_sent(tmp_path: Path) -> None:
    with ready(tmp_path, SAYS) as screen:
        screen.child.send("\x1b[O")
        for line in ("first\r", "second\r", "third"):
            os.write(screen.child.child_fd, line.encode())
        screen.until("third")
        assert "Said." not in screen.text
        screen.send("\r", until="Said.")
        assert "▌ first" in screen.text
