"""A question is answered only by what was typed at it: decided by when it came, whenever somebody has time for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.widgets import Input

from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.session import TurnFinished
from ebbtide.tui.prompt.key_arrivals import ANSWER_GUARD_S, KeyArrival, KeyArrivals, KeyPurpose, key_purpose
from ebbtide.tui.screens.typeahead_guard import TypeaheadGuard
from ebbtide.tui.terminal.terminal_driver import TerminalInput
from ebbtide.tui.widgets.choices import ChoiceList
from ebbtide.tui.widgets.question_panel import QuestionPanel
from tests.kit.app_pilot import ScreenType, Terminal, asks_on, terminal
from tests.kit.fake_sessions import FakeSession, Hold
from tests.kit.pty_terminal import ready

QUESTION = PermissionAsked(
    "q", "1", "bash", {"command": "make"}, "asks", "", ("bash(=make)",), (), "/home/me/.config/ebbtide/rules.json"
)
SECOND = PermissionAsked("q2", "2", "bash", {"command": "make test"}, "asks")
WORDS = QuestionAsked("w", "Which one?", ("the first", "the second", "the third"))
LATER = 1e9
"""Seconds behind all keys that a test presses without saying when."""
DONE = TurnFinished("answered", "ok")


@pytest.mark.parametrize(
    ("key", "before", "meant", "painted", "purpose"),
    [
        (KeyArrival(2.0, 2), None, "typeahead", 1.0, "answer"),
        (KeyArrival(2.0, 2), None, "typeahead", None, "typeahead"),  # nobody can have read it
        (KeyArrival(1.29, 2), None, "typeahead", 1.0, "typeahead"),
        (KeyArrival(1.3, 2), None, "typeahead", 1.0, "answer"),
        (KeyArrival(0.5, 2), None, "typeahead", 1.0, "typeahead"),  # handled long after it came
        (KeyArrival(2.0, 2, is_alone=False), None, "typeahead", 1.0, "text"),
        (KeyArrival(2.0, 2), KeyArrival(1.8, 1), "typeahead", 1.0, "typeahead"),
        (KeyArrival(2.0, 2), KeyArrival(1.7, 1), "typeahead", 1.0, "answer"),
        (KeyArrival(2.0, 2), KeyArrival(1.95, 1), "answer", 1.0, "answer"),  # the question took the one before
        (KeyArrival(2.0, 2), KeyArrival(2.0, 2), "answer", 1.0, "text"),
        (KeyArrival(2.0, 2), KeyArrival(1.9, 1), "text", 1.0, "text"),
        (KeyArrival(2.0), KeyArrival(2.0), "answer", 1.0, "answer"),  # nobody counts the reads
    ],
)
def test_what_a_key_is_for(
    key: KeyArrival, before: KeyArrival | None, meant: KeyPurpose, painted: float | None, purpose: KeyPurpose
) -> None:
    assert key_purpose(key, before, meant, painted, ANSWER_GUARD_S) == purpose


def test_without_a_guard_every_key_answers() -> None:
    assert key_purpose(KeyArrival(0.0, 1, is_alone=False), KeyArrival(0.0, 1), "typeahead", None, 0.0) == "answer"


def test_a_key_that_means_nothing_keeps_the_next_one_from_answering() -> None:
    arrivals = KeyArrivals(ANSWER_GUARD_S)
    assert arrivals.record_answer_key(KeyArrival(2.0, 1), 0.0) == "answer"
    arrivals.mark_ignored()
    assert arrivals.record_answer_key(KeyArrival(2.1, 2), 0.0) == "typeahead"
    assert arrivals.record_answer_key(KeyArrival(2.39, 3), 0.0) == "typeahead"
    assert arrivals.record_answer_key(KeyArrival(2.69, 4), 0.0) == "answer"


@given(st.lists(st.floats(0.0, 0.29), min_size=1, max_size=20), st.floats(0.3, 10.0))
def test_however_a_text_is_cut_into_reads_nothing_behind_its_first_key_answers(gaps: list[float], since: float) -> None:
    arrivals, at = KeyArrivals(ANSWER_GUARD_S), since
    arrivals.record_answer_key(KeyArrival(at, 1), 0.0)
    arrivals.mark_ignored()  # as `w` of `why`
    for read, gap in enumerate(gaps, 2):
        at += gap
        assert arrivals.record_answer_key(KeyArrival(at, read), 0.0) != "answer"


def came(*reads: tuple[float, bytes]) -> list[tuple[str, KeyArrival]]:
    """What is heard of reads, each at a time; 0.2 seconds of silence behind each."""
    now, arrivals = 0.0, list[tuple[str, KeyArrival]]()
    hearing = TerminalInput(
        lambda message: arrivals.append(
            (getattr(message, "key", type(message).__name__), vars(message)["ebb_arrival"])
        ),
        debug=False,
        clock=lambda: now,
    )
    for at, typed in reads:
        now = at
        hearing.feed_bytes(typed)
        hearing._parser._wait_until = 0.0  # as if as much time had passed as the parser waits
        hearing._parser._timeout_time = 0.0 if hearing._parser._timeout_time is not None else None
        hearing.wait()
    return arrivals


def test_each_key_says_when_and_with_which_read_it_came() -> None:
    assert came((1.0, b"y"), (5.0, b"no"), (6.0, b"\x1b[A")) == [
        ("y", KeyArrival(1.0, 1)),
        ("n", KeyArrival(5.0, 2, is_alone=False)),
        ("o", KeyArrival(5.0, 2, is_alone=False)),
        ("up", KeyArrival(6.0, 3)),
    ]


def test_esc_came_when_its_byte_did_and_not_when_nothing_followed_it() -> None:
    assert came((1.0, b"\x1b")) == [("escape", KeyArrival(1.0, 1))]
    assert came((1.0, b"y\x1b")) == [
        ("y", KeyArrival(1.0, 1, is_alone=False)),
        ("escape", KeyArrival(1.0, 1, is_alone=False)),
    ]


def test_a_click_a_paste_and_half_a_key_keep_a_key_company_and_a_moving_mouse_does_not() -> None:
    assert came((1.0, b"\x1b[<0;3;4My"))[-1] == ("y", KeyArrival(1.0, 1, is_alone=False))
    assert came((1.0, b"\x1b[200~a\x1b[201~\r"))[-1] == ("enter", KeyArrival(1.0, 1, is_alone=False))
    assert came((1.0, b"y\x1b[200~a"), (2.0, b"\x1b[201~")) == [
        ("y", KeyArrival(1.0, 1, is_alone=False)),
        ("Paste", KeyArrival(2.0, 2)),
    ]
    assert came((1.0, b"\x1b[<35;3;4M\x1b[<35;3;5M\x1b[Iy"))[-1] == ("y", KeyArrival(1.0, 1))


def test_keys_that_are_let_go_answer_nothing() -> None:
    """Some terminals tell of them although nobody asked."""
    assert [key for key, _ in came((1.0, b"\x1b[121;1:3u"))] == []


@dataclass
class Hands:
    """What is typed at a terminal at given times. Questions were painted at second 100."""

    terminal: Terminal
    reads: TerminalInput
    now: list[float] = field(default_factory=lambda: [0.0])

    def sends(self, at: float, typed: bytes) -> None:
        self.now[0] = LATER + at
        self.reads.feed_bytes(typed)

    async def asked(self, screen: ScreenType) -> None:
        await self.terminal.asks(screen)
        shown = self.terminal.app.screen
        assert isinstance(shown, TypeaheadGuard)
        await self.terminal.until(lambda: shown.painted_at is not None)
        shown.painted_at = LATER + 100.0

    async def goes_back(self, at: float, asked: ScreenType) -> None:
        """Goes back from the prompt to the question, which is painted then."""
        self.sends(at, b"\t")
        await self.terminal.until(lambda: asks_on(self.terminal.app, asked))
        await self.asked(asked)

    @property
    def prompt(self) -> str:
        return self.terminal.prompt.text


@asynccontextmanager
async def hands(session: FakeSession, asked: ScreenType | None = None) -> AsyncIterator[Hands]:
    """At a terminal that shows a question when the user has said something; None: where nothing was said."""
    async with terminal(session, guard_s=ANSWER_GUARD_S) as t:
        driver, now = t.app._driver, [0.0]
        assert driver is not None
        user = Hands(t, TerminalInput(driver.process_message, debug=False, clock=lambda: now[0]), now)
        if asked is not None:
            await t.type("go")
            await user.asked(asked)
        yield user


@pytest.mark.parametrize(
    ("typed", "in_prompt"),
    [
        (b"why", "why"),
        (b"xxxxxy", "xxxxxy"),
        (b"yes, do it", "yes, do it"),
        (b"# always use round()", "# always use round()"),
        (b"1", "1"),
        (b"12\r", "12"),
        (b"y\r", "y"),
        (b"\x1b[B1", "1"),
        (b"\x1b[200~y\r\x1b[201~", "y\n"),
        (b"\x1b[<0;40;10My", "y"),
        ("ü1é".encode(), "ü1é"),
    ],
)
async def test_a_text_that_arrives_in_one_write_answers_nothing_and_is_in_the_prompt(
    typed: bytes, in_prompt: str
) -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with hands(session, PermissionAsked) as user:
        t = user.terminal
        at = 102.0 if len(typed) > 1 else 100.1
        user.sends(at, typed)
        await t.until(lambda: user.prompt.strip() == in_prompt.strip())
        user.sends(at + 0.2, b"1")  # and what comes at once behind it
        await t.until(lambda: user.prompt.endswith("1"))
        user.sends(103.0, b"y")  # however long somebody thinks
        await t.until(lambda: user.prompt.endswith("1y"))
        assert session.answers == {}
        await user.goes_back(104.0, PermissionAsked)
        user.sends(105.0, b"y")
        await t.until(lambda: session.answers == {"q": Decision("allow")})


@pytest.mark.parametrize("early", [b"n", b"1", b"y", b"x"])
async def test_enter_behind_a_key_that_came_too_soon_answers_nothing(early: bytes) -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with hands(session, PermissionAsked) as user:
        t = user.terminal
        user.sends(100.1, early)
        await t.until(lambda: user.prompt == early.decode())
        user.sends(102.0, b"\r")
        await t.until(lambda: t.prompt.has_focus)
        assert session.answers == {}
        user.sends(103.0, b"\x7f")
        await t.until(lambda: asks_on(t.app, PermissionAsked))
        user.sends(104.0, b"\r")
        await t.until(lambda: session.answers == {"q": Decision("allow")})


async def test_what_is_still_to_be_fitted_when_a_question_goes_is_left() -> None:
    async with hands(FakeSession([[QUESTION, DONE]]), PermissionAsked) as user:
        asked = user.terminal.asked
        await asked.remove()
        assert not asked.children
        asked.fit_to_screen()
        asked.show_position("2 of 2")
        asked.take_focus()
        assert user.terminal.app.screen.focused is not asked


async def test_an_answer_that_came_too_soon_is_given_again() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with hands(session, PermissionAsked) as user:
        user.sends(100.1, b"n")
        user.sends(101.0, b"n")
        await user.terminal.until(lambda: user.terminal.app.screen.query_one("#free-text").has_focus)
        user.sends(102.0, b"\r")  # without a wish
        await user.terminal.until(lambda: session.answers == {"q": Decision("deny")})


async def test_a_question_that_came_between_the_key_and_its_handling_is_not_answered_by_it() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with hands(session, PermissionAsked) as user:
        t = user.terminal
        user.sends(98.0, b"y")  # two seconds before; nobody had time for it
        user.sends(99.0, b"\r")
        user.sends(99.5, b"\x1b[B")
        await t.until(lambda: user.prompt == "y")
        await t.pilot.pause()
        assert (session.answers, asks_on(t.app, PermissionAsked)) == ({}, True)


async def test_the_key_for_one_question_does_not_answer_the_next() -> None:
    hold = Hold()
    session = FakeSession([[hold, DONE]])
    async with hands(session) as user:
        t = user.terminal
        await t.type("go", until=lambda: t.app.controller.view.is_busy)
        t.app.controller.show_event(QUESTION)
        t.app.controller.show_event(SECOND)
        await user.asked(PermissionAsked)
        user.sends(102.0, b"y")
        await t.until(lambda: session.answers == {"q": Decision("allow")})
        await t.until(lambda: asks_on(t.app, PermissionAsked) and t.asked.spec.source == SECOND)
        await user.asked(PermissionAsked)
        user.sends(99.9, b"y")  # a key that is held
        user.sends(100.2, b"y")
        await t.until(lambda: user.prompt == "yy")
        await user.goes_back(100.6, PermissionAsked)
        user.sends(101.6, b"y")
        await t.until(lambda: session.answers.get("q2") == Decision("allow"))
        hold.event.set()


async def test_two_answers_that_nobody_had_time_for_are_one() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with hands(session, PermissionAsked) as user:
        t = user.terminal
        user.sends(102.0, b"y")
        user.sends(103.0, b"y")
        user.sends(104.0, b"n")
        await t.until(lambda: session.answers == {"q": Decision("allow")})
        await t.rests()
        assert t.app.screen is t.app.main_screen


async def test_keys_that_the_question_takes_may_follow_each_other_at_once() -> None:
    session = FakeSession([[WORDS, DONE]])
    async with hands(session, QuestionAsked) as user:
        t = user.terminal
        for at, typed in ((102.0, b"\x1b[B"), (102.05, b"\x1b[B"), (102.1, b"\r")):
            user.sends(at, typed)
        await t.until(lambda: session.answers == {"w": "the third"})


async def test_text_for_a_field_may_come_in_one_read_and_enter_behind_it_may_not() -> None:
    session = FakeSession([[WORDS, DONE]])
    async with hands(session, QuestionAsked) as user:
        t = user.terminal
        user.sends(100.1, b"later ")
        await t.until(lambda: user.prompt == "later " and t.prompt.has_focus)
        await user.goes_back(101.0, QuestionAsked)
        user.sends(102.0, b"both of\r")
        user.sends(102.2, b"\r")
        user.sends(103.0, b"\x1b[200~ them\x1b[201~")
        user.sends(103.1, b"\r")
        user.sends(104.0, b"\r")
        await t.until(lambda: session.answers == {"w": "both of them"})
        assert user.prompt == "later "


async def test_a_confirmation_is_guarded_too_over_whatever_is_shown() -> None:
    async with hands(FakeSession()) as user:
        t = user.terminal
        for number, over in enumerate((False, True)):
            if over:
                await t.opens("/help")
            asked = asyncio.create_task(t.app.context.confirm("Sure?", (), "do it"))
            await user.asked(QuestionPanel)
            user.sends(102.0 + 10 * number, b"why not\r")
            await t.until(lambda: user.prompt == "why not")
            assert not asked.done()
            if not over:
                await user.goes_back(103.0, QuestionPanel)
            user.sends(104.0 + 10 * number, b"\r")
            assert await asked
            t.prompt.set_text("")


async def test_a_click_too_soon_or_with_keys_chooses_nothing() -> None:
    session = FakeSession([[WORDS, DONE]])
    async with hands(session, QuestionAsked) as user:
        t = user.terminal
        options = t.app.screen.query_one(ChoiceList).region
        click = f"\x1b[<0;{options.x + 2};{options.y + 1}M".encode()
        release = click[:-1] + b"m"
        user.sends(100.1, click)
        user.sends(100.2, release)
        user.sends(102.0, b"x" + click)
        user.sends(102.1, release)
        await t.until(lambda: t.app.screen.query_one("#free-text", Input).value == "x")
        assert session.answers == {}
        for at in (104.0, 106.0):  # the first one marks
            assert session.answers == {}
            user.sends(at, click)
            user.sends(at + 0.1, release)
            await t.until(lambda: t.asked.has_focus)
            await t.pilot.pause()
        await t.until(lambda: session.answers == {"w": "the first"})


RUNS = """
[[reply]]
calls = [{ name = "bash", arguments = { command = "touch ran" } }]
[[reply]]
text = "It is done."
"""


@pytest.mark.parametrize("text", ["why", "xxxxxy", "# always use round()", "y1y", "yy"])
def test_at_a_terminal_a_text_in_one_write_runs_nothing_and_a_key_by_itself_does(tmp_path: Path, text: str) -> None:
    with ready(tmp_path, RUNS) as screen:
        screen.send("go\r", until="touch ran")
        screen.press_until("p", "p remember for this session")  # the question takes keys by now
        screen.send(text, until=text)
        screen.child.send("\x15\x1b[3~\x7f")  # and whoever does not want it takes it back
        assert not (tmp_path / "project" / "ran").exists()
        screen.press_until("\t", "Enter select")
        screen.press_until("y", "It is done.")
        assert (tmp_path / "project" / "ran").exists()
