"""The screen of a plan: what its keys answer, and what was typed for something else does not."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from textual.widgets import Input

from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.agent.events.session import TurnFinished
from ebbtide.tui.app import EbbApp
from ebbtide.tui.widgets.choices import ChoiceList
from ebbtide.tui.widgets.markdown_view import MarkdownView
from ebbtide.tui.widgets.question_panel import QuestionPanel
from tests.kit.app_pilot import asks_on, terminal
from tests.kit.fake_sessions import FakeSession
from tests.tui.screens.test_guarded import hands

PLAN = "# Mend the sum\n\n" + "\n".join(f"- step {number}" for number in range(60))
QUESTION = PlanSubmitted("p", "1", PLAN, ("ask", "accept-edits", "auto"))
DONE = TurnFinished("answered", "ok")
LATER = PlanDecision("reject", note="later")


KEYS: Sequence[tuple[Sequence[str], PlanDecision]] = (
    (["1"], PlanDecision("accept", "ask")),
    (["y"], PlanDecision("accept", "ask")),
    (["2"], PlanDecision("accept", "accept-edits")),
    (["5", "enter"], PlanDecision("accept", "auto")),
    (["n", "enter"], PlanDecision("reject")),
    (["enter"], PlanDecision("accept", "ask")),
    (["down", "enter"], PlanDecision("accept", "accept-edits")),
    (["up", "up", "enter", "enter"], PlanDecision("reject")),
    (["ctrl+o", "pagedown", "space", "end", "home", "2"], PlanDecision("accept", "accept-edits")),
    (["x", "4", "tab", "2"], PlanDecision("accept", "accept-edits")),
    (["4", "n", "o", "enter"], PlanDecision("reject", note="no")),
    (["n", "x", "escape", "1"], PlanDecision("accept", "ask")),
    (["n", "escape", "n", "enter"], PlanDecision("reject")),
)


async def test_what_keys_decide() -> None:
    questions = [replace(QUESTION, id=f"p{number}") for number, _ in enumerate(KEYS)]
    session = FakeSession([[*questions, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PlanSubmitted)
        for question, (keys, decision) in zip(questions, KEYS, strict=True):
            await t.until(partial(is_asked, t.app, question))
            await t.pilot.press(*keys)
            await t.until(lambda: question.id in session.answers)  # noqa: B023  # waited for right here
            assert session.answers[question.id] == decision, keys


def is_asked(app: EbbApp, question: PlanSubmitted) -> bool:
    return asks_on(app, PlanSubmitted) and app.query_one(QuestionPanel).spec.source == question


async def test_esc_stops_the_turn() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PlanSubmitted)
        await t.press("escape")
        await t.rests()
        assert (session.answers, session.interrupted, t.app.screen) == ({}, 1, t.app.main_screen)


async def test_an_editor_that_is_not_there_or_leaves_nothing_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/nowhere/editor")
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PlanSubmitted)
        await t.pilot.press("e")
        assert (session.answers, asks_on(t.app, PlanSubmitted)) == ({}, True)
        await t.press("2")
        await t.until(lambda: session.answers == {"p": PlanDecision("accept", "accept-edits")})


TYPED = (b"12\r", b"y\r", b"2y", b"\x1b[B\r", b"why", b"\x1b[200~1\r\x1b[201~", b"\x1b[<0;9;9M2")


async def test_a_text_that_arrives_in_one_write_decides_nothing() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with hands(session, PlanSubmitted) as user:
        t = user.terminal
        for number, typed in enumerate(TYPED):
            user.sends(101.0 + number, typed)
            user.sends(101.2 + number, b"z")  # and what comes at once behind it
            await t.until(lambda: user.prompt.endswith("z"))
            assert session.answers == {}, typed
            t.prompt.set_text("")
            await t.until(lambda: asks_on(t.app, PlanSubmitted))
        user.sends(120.0, b"2")
        await t.until(lambda: session.answers == {"p": PlanDecision("accept", "accept-edits")})


async def test_keys_that_came_before_the_plan_could_be_read_decide_nothing() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with hands(session, PlanSubmitted) as user:
        t = user.terminal
        user.sends(99.9, b"\x1b[B")
        user.sends(99.95, b"\r")
        user.sends(100.0, b"2")
        user.sends(100.1, b"y")
        await t.until(lambda: user.prompt == "2y")
        assert session.answers == {}


async def test_words_for_the_model_may_come_in_one_read_and_enter_behind_them_may_not() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with hands(session, PlanSubmitted) as user:
        t = user.terminal
        user.sends(102.0, b"n")
        await t.until(lambda: t.app.screen.query_one("#free-text", Input).has_focus)
        user.sends(103.0, b"later\r")
        await t.until(lambda: t.app.screen.query_one("#free-text", Input).value == "later")
        assert session.answers == {}
        user.sends(104.0, b"\r")
        await t.until(lambda: session.answers == {"p": LATER})


async def test_a_click_chooses() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with hands(session, PlanSubmitted) as user:
        t = user.terminal
        options = t.app.screen.query_one(ChoiceList).region
        click = f"\x1b[<0;{options.x + 2};{options.y + 2}M".encode()
        for at in (104.0, 106.0):
            assert session.answers == {}
            user.sends(at, click)
            user.sends(at + 0.1, click[:-1] + b"m")
            await t.until(lambda: t.asked.marked_choice == t.asked.spec.choices[1])
        await t.until(lambda: session.answers == {"p": PlanDecision("accept", "accept-edits")})


async def test_what_was_read_and_marked_stays_when_the_window_changes_its_size() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session, size=(80, 24)) as t:
        await t.type("go", asks=PlanSubmitted)
        await t.pilot.press("ctrl+o", "end", "down")
        for size in ((40, 12), (10, 3), (200, 60), (80, 24)):
            await t.pilot.resize_terminal(*size)
        subject = t.app.screen.query_one(MarkdownView)
        assert (t.asked.marked_choice, subject.scroll_offset.y > 0) == (t.asked.spec.choices[1], True)
        await t.press("enter")
        await t.until(lambda: session.answers == {"p": PlanDecision("accept", "accept-edits")})
