"""Telling who looks elsewhere: when, how, and never more than that."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import AppBlur, AppFocus, Key

from ebbtide.agent.config.options import NOTIFICATION_METHODS, NotificationMethod
from ebbtide.agent.events.permissions import QuestionAsked
from ebbtide.tui.terminal.notify import notification_command, notification_sequence, notification_text, notify
from ebbtide.tui.terminal.window import IDLE_AFTER_S, MIN_NOTIFIED_TURN_S, TerminalWindow, title_sequence
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.view.blocks import SessionView
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession, Hold
from tests.kit.files import write_program

PLAIN: dict[str, str] = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("way", "environment", "sequence"),
    [
        ("bell", PLAIN, "\x07"),
        ("off", PLAIN, ""),
        ("desktop", PLAIN, ""),
        ("osc", PLAIN, "\x1b]9;ebb · a;b: is done\x07"),
        ("osc", {"TERM": "foot"}, "\x1b]777;notify;ebb · a,b;is done\x07"),
        ("auto", PLAIN, "\x07"),
        ("auto", {"TERM_PROGRAM": "WezTerm"}, "\x1b]9;ebb · a;b: is done\x07"),
        ("auto", {"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}, "\x1b]9;ebb · a;b: is done\x07"),
        ("auto", {"TERM": "foot-extra"}, "\x1b]777;notify;ebb · a,b;is done\x07"),
        (
            "osc",
            {"TERM": "tmux-256color", "TMUX": "/tmp/tmux-0/default,1,0"},
            "\x1bPtmux;\x1b\x1b]9;ebb · a;b: is done\x07\x1b\\",
        ),
    ],
)
def test_a_terminal_is_told_in_its_own_words(
    way: NotificationMethod, environment: dict[str, str], sequence: str
) -> None:
    assert notification_sequence(way, "ebb · a;b", "is done", environment) == sequence


@given(st.sampled_from(NOTIFICATION_METHODS), st.text(), st.text(), st.sampled_from(["foot", "xterm", "xterm-kitty"]))
def test_no_title_and_no_text_ends_the_sequence_they_are_in(
    way: NotificationMethod, title: str, text: str, term: str
) -> None:
    sequence = notification_sequence(way, title, text, {"TERM": term})
    assert sequence.strip("\x07\x1b") == sanitise_line(sequence.strip("\x07\x1b"))
    assert sequence.count("\x07") <= 1
    assert title_sequence(title)[4:-1] == notification_text(title)


def test_programs_get_words_and_no_shell() -> None:
    assert notification_command("ebb", "$(rm) <b>", "linux") == (
        "notify-send",
        "--app-name=ebb",
        "--",
        "ebb",
        "$(rm) &lt;b&gt;",
    )
    assert notification_command("ebb", '" & quit', "darwin")[-2:] == ("ebb", '" & quit')


def said_in(folder: Path) -> list[str]:
    return [file.read_text().strip()[-11:] for file in folder.glob("*.said")]


@pytest.mark.parametrize(("script", "rung"), [('echo "$@" > "$0.said"', ""), ("exit 1", "\x07")])
async def test_the_desktop_is_told_and_the_bell_rings_where_it_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, rung: str
) -> None:
    for name in ("notify-send", "osascript"):
        write_program(tmp_path / name, f"{script}\n")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    written: list[str] = []
    await notify("desktop", "ebb", "is done", PLAIN, written.append)
    assert "".join(written) == rung
    assert said_in(tmp_path) == ([] if rung else ["ebb is done"])


async def test_a_desktop_without_a_program_is_a_bell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    written: list[str] = []
    await notify("desktop", "ebb", "is done", PLAIN, written.append)
    assert written == ["\x07"]


class Looked:
    """A window with a clock to turn."""

    def __init__(self) -> None:
        self.now = 100.0
        self.written: list[str] = []
        self.notifications: list[tuple[str, str]] = []
        self.window = TerminalWindow(
            self.written.append, lambda *news: self.notifications.append(news), lambda: self.now
        )

    def turn(self, seconds: float) -> list[tuple[str, str]]:
        """What is told of a turn that takes so long."""
        self.notifications.clear()
        self.window.show(SessionView(is_busy=True), "fix it")
        self.now += seconds
        self.window.show(SessionView(), "fix it")
        return self.notifications


QUESTION = QuestionAsked("q", "Which?")


def test_the_end_of_a_long_turn_is_told_to_who_looks_elsewhere_and_of_a_short_one_to_nobody() -> None:
    looked = Looked()
    looked.window.handle_event(AppFocus())
    assert looked.turn(MIN_NOTIFIED_TURN_S) == []
    looked.window.handle_event(AppBlur())
    assert looked.turn(MIN_NOTIFIED_TURN_S) == [("ebb · fix it", "done")]
    assert looked.turn(MIN_NOTIFIED_TURN_S - 0.1) == []
    looked.window.handle_event(Key("a", "a"))
    assert looked.turn(MIN_NOTIFIED_TURN_S) == []


def test_where_the_terminal_does_not_tell_who_has_not_typed_for_long_looks_elsewhere() -> None:
    looked = Looked()
    assert looked.turn(IDLE_AFTER_S - 0.1) == []
    assert looked.turn(MIN_NOTIFIED_TURN_S) == [("ebb · fix it", "done")]
    looked.window.handle_event(Key("a", "a"))
    assert looked.turn(MIN_NOTIFIED_TURN_S) == []


def test_a_question_is_told_once() -> None:
    looked = Looked()
    looked.window.handle_event(AppBlur())
    for view in (
        SessionView(is_busy=True),
        SessionView(is_busy=True, open_questions=(QUESTION,)),
        SessionView(is_busy=True, open_questions=(QUESTION,), cost=1.0),
    ):
        looked.window.show(view, "")
    assert looked.notifications == [("ebb", "waiting for your answer")]


def test_the_title_says_what_goes_on_and_is_written_when_it_changes() -> None:
    looked = Looked()
    for view in (
        SessionView(),
        SessionView(is_busy=True),
        SessionView(is_busy=True, cost=1.0),
        SessionView(is_busy=True, open_questions=(QUESTION,)),
    ):
        looked.window.show(view, "two\nlines\x07\x1b]52;c;x")
    looked.window.restore_title()
    title = "ebb · two lines␇␛]52;c;x"
    assert looked.written == [f"\x1b]2;{mark}{title}\x07" for mark in ("", "● ", "? ", "? ")]


async def test_the_app_tells_that_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = Hold()
    session = FakeSession([[hold, QUESTION, Hold()]], title="fix it")
    async with terminal(session, notify="bell") as t:
        written: list[str] = []
        monkeypatch.setattr(t.app.terminal_features, "write", written.append)
        await t.type("go", until=lambda: session.said)
        t.app.post_message(AppBlur())
        await t.pilot.pause()
        hold.event.set()
        await t.until(lambda: written)
        assert written == ["\x07"]
