import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event as Flag
from typing import NoReturn

import pytest
from textual.events import AppBlur, Key, Paste

from ebbtide.agent.errors import AuthFailed, StoreFailed
from ebbtide.agent.events.permissions import Decision, PermissionAnswered, PermissionAsked, QuestionAsked
from ebbtide.agent.events.session import Event, Noticed, TextDelta, ToolFinished, ToolStarted, TurnFailed, TurnFinished
from ebbtide.agent.messages import Conversation, Text, User
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui.app import EbbApp
from ebbtide.tui.startup import LazySessions
from ebbtide.tui.view.blocks import AnswerText, Call, Failure, Notice, UserText
from tests.kit.app_pilot import Driven, Terminal, asks_on, list_on, started, terminal
from tests.kit.fake_sessions import FakeSession, FakeSessions, Hold, conversation, measured, session_info

DONE = TurnFinished("answered", "x")
DIFF = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
QUESTION = PermissionAsked("q", "1", "edit", {"path": "calc.py"}, "ask mode asks", DIFF, ("edit(calc.py)", "edit(*)"))


async def test_an_answer_is_shown_while_it_streams() -> None:
    hold = Hold()
    async with terminal(FakeSession([[TextDelta("The **first** half"), hold, TextDelta(" and the rest."), DONE]])) as t:
        await t.type("hello", shows="The first half")
        assert t.app.controller.view.is_busy
        hold.event.set()
        await t.shows("The first half and the rest.")
        await t.rests()
        assert t.app.controller.view.blocks == (UserText("hello"), AnswerText("The **first** half and the rest."))


async def test_the_first_message_is_sent_by_itself() -> None:
    session = FakeSession([[TextDelta("Hi."), DONE]])
    async with terminal(session, first_message="hello") as t:
        await t.shows("Hi.")
        assert session.said == ["hello"]


def ran(command: str, output: str, id: str = "1") -> tuple[Event, Event]:
    return ToolStarted(id, "bash", {"command": command}), ToolFinished(id, "bash", "done", output)


async def test_tool_calls_are_lines_that_open() -> None:
    async with terminal(FakeSession([[*ran("make", "built\nfine"), DONE]])) as t:
        await t.type("go", shows="bash  make  2 lines")
        await t.shows("  │ built\n  │ fine")
        await t.pilot.press("ctrl+o", "ctrl+o")
        assert "built" not in t.transcript.visible_text()
        await t.press("ctrl+t", "enter", shows="│ make")
        await t.pilot.press("enter")
        assert "built" not in t.transcript.visible_text()


async def test_a_question_mark_in_an_empty_prompt_shows_the_help() -> None:
    async with terminal(FakeSession([])) as t:
        await t.press("w", "question_mark")
        assert t.prompt.text == "w?"
        t.prompt.set_text("")
        await t.press("question_mark", lists="help")
        assert t.prompt.text == ""


async def test_a_key_shows_more_or_less_of_the_work_and_tells() -> None:
    async with terminal(FakeSession([[*ran("make", "built\nfine"), DONE]])) as t:
        await t.type("go", shows="│ fine")
        await t.press("ctrl+o", shows="│ make", until=lambda: "full: everything" in t.reads("status"))
        await t.press("ctrl+o", until=lambda: "compact: one line per call" in t.reads("status"))
        assert "fine" not in t.transcript.visible_text()
        await t.press(
            "ctrl+o", shows="│ fine", until=lambda: "normal: diffs, lists and last output lines" in t.reads("status")
        )


async def test_a_terminal_without_focus_takes_pastes_and_the_first_key_of_an_answer() -> None:
    asked = QuestionAsked("w", "Which one?", ("the first",))
    session = FakeSession([[asked, Hold(), DONE]])
    async with terminal(session) as t:
        t.app.post_message(AppBlur())
        t.app.post_message(Paste("pasted"))
        await t.until(lambda: t.prompt.text == "pasted")
        await t.press("enter", asks=QuestionAsked)
        t.app.post_message(AppBlur())
        t.app.post_message(Paste("the second"))
        await t.press("enter", until=lambda: session.answers)
        assert session.answers == {"w": "the second"}


async def test_a_click_opens_a_call() -> None:
    async with terminal(FakeSession([[*ran("make", "built"), DONE]])) as t:
        await t.says("go", shows="bash  make")
        line = next(y for y, text in enumerate(t.transcript.visible_text().split("\n")) if "bash" in text)
        await t.pilot.click(t.transcript, offset=(6, line))
        await t.shows("built")


async def test_a_click_selects_and_letters_are_for_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    async with terminal(FakeSession([[*ran("make", "built"), TextDelta("It is built."), DONE]])) as t:
        copied: list[str] = []
        monkeypatch.setattr(t.app, "copy_to_clipboard", copied.append)
        await t.says("go", shows="It is built.")
        line = next(y for y, text in enumerate(t.transcript.visible_text().split("\n")) if "It is" in text)
        for typed in ("yes please", "Yes", " su"):
            await t.pilot.click(t.transcript, offset=(6, line))
            assert (t.app.focused, t.transcript.marked_block) == (t.transcript, AnswerText("It is built."))
            await t.pilot.press(*("space" if character == " " else character for character in typed))
            assert (t.prompt.text, t.app.focused) == (typed, t.prompt)
            t.prompt.set_text("")
        assert copied == []
        await t.pilot.click(t.transcript, offset=(6, line))
        await t.pilot.press("ctrl+t", "y")  # from here on letters are commands, as Ctrl-T says
        assert (copied, t.prompt.text) == (["It is built."], "")


async def test_the_keyboard_walks_the_calls() -> None:
    calls = (*ran("make 1", "built 1"), *ran("make 2", "built 2", "2"))
    async with terminal(FakeSession([[*calls, DONE]])) as t:
        await t.says("go", shows="make 2")
        await t.press("ctrl+t", "up", "enter", shows="│ make 1")
        assert "│ make 2" not in t.transcript.visible_text()
        await t.pilot.press("escape", "h", "i")
        assert t.prompt.text == "hi"


@pytest.mark.parametrize(
    ("keys", "decision"),
    [
        pytest.param("y", Decision("allow"), id="it may run once"),
        pytest.param("1", Decision("allow"), id="by its number"),
        pytest.param("enter", Decision("allow"), id="what is marked at first"),
        pytest.param("x tab y", Decision("allow"), id="text is for the prompt until the question is gone back to"),
        pytest.param("2 enter", Decision("allow", rule="edit(*)"), id="a rule is kept"),
        pytest.param("r enter", Decision("allow", rule="edit(calc.py)"), id="a narrower rule is kept"),
        pytest.param("n n o y enter", Decision("deny", note="noy"), id="it is denied with a word"),
        pytest.param("n n o escape y", Decision("allow"), id="a word that was not meant is taken back"),
    ],
)
async def test_a_question_is_answered_by_keys(keys: str, decision: Decision) -> None:
    session = FakeSession([[QUESTION, ToolStarted("1", "edit", {}), ToolFinished("1", "edit", "done", "ok"), DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionAsked)
        await t.press(*keys.split())
        assert session.answers == {"q": decision}
        assert not asks_on(t.app, PermissionAsked)


async def test_quitting_works_while_a_question_is_open() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionAsked)
        await t.press("ctrl+c", "ctrl+c", "ctrl+c", until=lambda: session.closed)
        assert session.answers == {}


async def test_a_session_is_picked_before_the_first_message() -> None:
    sessions = FakeSessions([FakeSession(id="old1", history=conversation(1))], (session_info("old1", "parser work"),))
    async with started(sessions, chooses_from_list=True) as t:
        await t.lists("sessions")
        await t.pilot.press("enter")
        await t.shows("Answer 0.")
        assert sessions.opened == [("old1", None)]


async def test_esc_stops_the_turn_with_its_question() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionAsked)
        await t.press("escape")
        assert (session.interrupted, session.answers) == (1, {})
        assert not asks_on(t.app, PermissionAsked)


async def test_ctrl_c_clears_the_prompt_and_what_is_not_sent_is_kept() -> None:
    async with terminal(FakeSession()) as t:
        t.prompt.set_text("a thought")
        await t.pilot.press("ctrl+c")
        assert t.prompt.text == ""
        await t.pilot.press("up", "s")
        assert t.prompt.text == "a thoughts"
        assert t.prompt.stash()
        await t.pilot.press("b", "backspace")
        t.prompt.restore_stash()
        assert t.prompt.text == ""
        t.prompt.set_text("a thoughts")
        await t.press("ctrl+c", until=lambda: t.prompt.text == "")
        await t.press("ctrl+c", "ctrl+c", until=lambda: t.app.return_code is not None or t.prompt.text == "a thoughts")


async def test_what_was_typed_ahead_does_not_answer() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session, guard_s=3_600.0) as t:
        await t.type("go", asks=PermissionAsked)
        await t.pilot.press("y", "e", "s", "enter", "escape", "n")
        assert session.answers == {}
        assert asks_on(t.app, PermissionAsked)


async def test_a_question_answered_elsewhere_goes_away() -> None:
    hold = Hold()
    session = FakeSession([[hold, PermissionAnswered("q", "allow"), DONE]])
    async with terminal(session) as t:
        await t.type("go", until=lambda: t.app.controller.view.is_busy)
        t.app.controller.show_event(QUESTION)
        await t.asks(PermissionAsked)
        hold.event.set()
        await t.until(lambda: not asks_on(t.app, PermissionAsked))
        await t.rests()
        assert session.answers == {}


def asked(t: Terminal, question: PermissionAsked) -> Callable[[], bool]:
    def is_asked() -> bool:
        return asks_on(t.app, PermissionAsked) and t.asked.spec.source == question

    return is_asked


async def test_two_questions_come_one_after_the_other() -> None:
    hold = Hold()
    second = PermissionAsked("q2", "2", "bash", {"command": "make"}, "asks")
    session = FakeSession([[hold, DONE]])
    async with terminal(session) as t:
        await t.type("go", until=lambda: t.app.controller.view.is_busy)
        t.app.controller.show_event(QUESTION)
        t.app.controller.show_event(second)
        await t.until(asked(t, QUESTION))
        await t.press("y", until=asked(t, second))
        await t.press("y", until=lambda: set(session.answers) == {"q", "q2"})
        hold.event.set()
        await t.rests()


@pytest.mark.parametrize(
    ("keys", "words"), [("down enter", "two"), ("h m enter", "hm"), ("2", "two"), ("down down 1 2 enter", "12")]
)
async def test_the_model_gets_the_words_of_the_user(keys: str, words: str) -> None:
    session = FakeSession([[QuestionAsked("q", "Which?", ("one", "two")), DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=QuestionAsked)
        await t.press(*keys.split())
        assert session.answers == {"q": words}


async def test_esc_interrupts_and_gives_the_queue_back() -> None:
    session = FakeSession([[TextDelta("so"), Hold(), DONE]])
    async with terminal(session) as t:
        await t.type("go", shows="so")
        await t.type("second")
        await t.type("third")
        assert list(t.app.controller.queue.texts) == ["second", "third"]
        await t.press("f", "o", "u", "r", "escape")
        assert (session.interrupted, session.said, len(t.app.controller.queue)) == (1, ["go"], 0)
        assert t.prompt.text == "second\n\nthird\n\nfour"
        told = r"Interrupted after \d+s, partial answer kept\. What should I do instead\?"
        assert re.search(told, t.transcript.visible_text())
        assert t.prompt.has_focus


async def test_esc_does_nothing_when_idle() -> None:
    session = FakeSession()
    async with terminal(session) as t:
        t.prompt.set_text("a draft")
        await t.pilot.press("escape")
        assert (session.interrupted, t.prompt.text) == (0, "a draft")


async def test_queued_messages_are_sent_in_order() -> None:
    hold = Hold()
    session = FakeSession([[hold, DONE], [DONE], [DONE]])
    async with terminal(session) as t:
        await t.type("one", until=lambda: session.said)
        await t.type("two")
        await t.type("three")
        hold.event.set()
        await t.rests()
        assert session.said == ["one", "two", "three"]


async def test_up_and_enter_take_a_message_that_waits_back() -> None:
    session = FakeSession([[Hold(), DONE]])
    async with terminal(session) as t:
        await t.type("one", until=lambda: session.said)
        await t.type("two")
        await t.pilot.press("up", "enter")
        assert (t.prompt.text, len(t.app.controller.queue), t.prompt.has_focus) == ("two", 0, True)


async def test_a_failed_turn_gives_the_queue_back() -> None:
    hold = Hold()
    session = FakeSession([[hold, TurnFailed("network", "No connection. Check it.", 3)]])
    async with terminal(session) as t:
        await t.type("one", until=lambda: session.said)
        await t.type("two")
        hold.event.set()
        await t.shows("No connection. Check it.")
        await t.rests()
        assert (session.said, t.prompt.text) == (["one"], "two")


async def test_without_a_first_session_there_is_no_terminal() -> None:
    failure = AuthFailed("No key. Set ANTHROPIC_API_KEY.")
    app = EbbApp(FakeSessions([failure]), first_message="hello", guard_s=0.0)
    async with app.run_test() as pilot:
        await Driven(app, pilot).until(lambda: not app.is_running)
    assert (app.return_value, app.jobs.opening_error) == (None, failure)


async def test_a_session_that_was_picked_and_cannot_be_opened_is_a_sentence_and_a_second_chance() -> None:
    failure = AuthFailed("No key. Set ANTHROPIC_API_KEY.")
    sessions = FakeSessions([failure, FakeSession([[TextDelta("Hi."), DONE]])], (session_info("old1", "parser work"),))
    async with started(sessions, chooses_from_list=True) as t:
        await t.lists("sessions")
        await t.pilot.press("enter")
        await t.shows("No key. Set ANTHROPIC_API_KEY.")
        assert t.app.controller.view.blocks == (Failure("auth", "No key. Set ANTHROPIC_API_KEY."),)
        await t.type("hello", shows="Hi.")
        assert sessions.opened == [("old1", None), ("old1", None)]


@pytest.mark.parametrize(("word", "texts"), [("cafe", ["cafe is where we meet"]), ("beef", ["is where we meet"])])
async def test_what_follows_the_flag_is_an_id_or_the_first_word(word: str, texts: list[str]) -> None:
    session = FakeSession(id="beef01")
    sessions = FakeSessions([session], (session_info("beef01", "parser work"),))
    async with started(sessions, resume=word, resume_may_be_word=True, first_message="is where we meet") as t:
        if word == "cafe":
            await t.lists("sessions")
            await t.pilot.press("enter")
        await t.rests()
        assert session.said == texts


async def test_what_was_to_be_said_in_an_earlier_session_is_not_sent_when_none_is_picked() -> None:
    session = FakeSession()
    sessions = FakeSessions([session], (session_info("beef01", "parser work"),))
    async with started(sessions, chooses_from_list=True, first_message="go on with the parser") as t:
        await t.lists("sessions")
        await t.pilot.press("escape")
        await t.rests()
        assert (sessions.opened, session.said) == ([(None, None)], [])
        assert t.prompt.text == "go on with the parser"


async def test_what_is_asked_for_while_a_session_is_being_opened_is_done_in_that_one() -> None:
    old = FakeSession(id="old1", history=conversation(40))
    sessions = FakeSessions([FakeSession(), old])
    async with started(sessions) as t:
        await t.rests()
        sessions.end, sessions.may_open = old.history, asyncio.Event()
        await t.type("/resume old1", until=lambda: len(sessions.opened) == 2)
        await t.type("/bring r1", until=lambda: t.prompt.text == "")
        await t.type("hello", until=lambda: t.prompt.text == "")
        assert old.said == []
        sessions.may_open.set()
        await t.until(lambda: old.said == ["bring r1", "hello"])


async def test_a_command_that_may_run_beside_a_turn_waits_for_the_session_that_is_being_opened() -> None:
    first, old = FakeSession(), FakeSession(id="old1", history=conversation(40))
    sessions = FakeSessions([first, old], (session_info("old1", "An old one"),))
    async with started(sessions) as t:
        await t.rests()
        await sessions.open_library()
        sessions.end, sessions.may_open = old.history, asyncio.Event()
        await t.type("/resume old1", until=lambda: len(sessions.opened) == 2)
        await t.type("/rename Parser", until=lambda: t.prompt.text == "")
        await t.type("/mode plan", until=lambda: t.prompt.text == "")
        assert (t.library.done, first.mode) == ([], "ask")
        sessions.may_open.set()
        await t.rests()
        assert (t.library.done, first.mode, old.mode) == ([("rename", "old1", "Parser")], "ask", "plan")


@pytest.mark.parametrize("after", ["/clear", "/resume old2"])
async def test_another_session_is_not_waited_for_behind_one_that_is_being_opened(after: str) -> None:
    second = FakeSession(id="new2")
    sessions = FakeSessions([FakeSession(), second])
    async with started(sessions) as t:
        await t.rests()
        sessions.end, sessions.may_open = conversation(40), asyncio.Event()
        await t.type("/resume old1", until=lambda: len(sessions.opened) == 2)
        await t.type("what was said for that one", until=lambda: t.prompt.text == "")
        sessions.may_open, sessions.end = None, None
        await t.type(after, until=lambda: t.app.controller.session is second)
        await t.rests()
        assert [resume for resume, _ in sessions.opened] == [None, "old1", after.partition(" ")[2] or None]
        assert (second.said, t.prompt.text) == ([], "what was said for that one")


async def test_esc_ends_the_opening_of_a_session_and_the_one_before_stays() -> None:
    first = FakeSession([[TextDelta("Hi."), DONE]])
    sessions = FakeSessions([first])
    async with started(sessions) as t:
        await t.type("hello", until=lambda: t.app.controller.view.blocks[-1:] == (AnswerText("Hi."),))
        await t.rests()
        before = t.app.controller.view.blocks
        sessions.end, sessions.may_open = conversation(40), asyncio.Event()
        await t.type("/resume old1", until=lambda: "Answer 39." in t.transcript.visible_text())
        await t.pilot.press("escape")
        await t.rests()
        assert (t.app.controller.session, t.app.controller.view.blocks) == (first, before)
        assert "Hi." in t.transcript.visible_text()


async def test_esc_while_the_first_session_is_opened_begins_a_new_one() -> None:
    sessions = FakeSessions(end=conversation(40), may_open=asyncio.Event())
    async with started(sessions, resume="old1") as t:
        await t.shows("Answer 39.")
        sessions.may_open, sessions.end = None, None
        await t.pilot.press("escape")
        await t.until(lambda: t.app.controller.session is not None)
        await t.rests()
        assert sessions.opened == [("old1", None), (None, None)]
        message = "opening was interrupted. This is a new session; `/resume` opens an earlier one."
        assert t.app.controller.view.blocks == (Notice(message),)


async def test_the_end_of_a_long_session_is_shown_before_all_of_it_is_read() -> None:
    whole = conversation(300)
    session = FakeSession([[TextDelta("Hi."), DONE]], history=whole)
    sessions = FakeSessions([session], end=Conversation(whole.messages[-40:]), may_open=asyncio.Event())
    async with started(sessions, resume="abc1") as t:
        await t.shows("Answer 299.")
        await t.type("hello")
        await t.pilot.press("pageup", "pageup")
        await t.until(lambda: not t.transcript.is_following)
        before = t.transcript.visible_text()
        assert (len(t.app.controller.view.blocks), session.said) == (40, [])
        assert sessions.may_open is not None
        sessions.may_open.set()
        await t.until(lambda: len(t.app.controller.view.blocks) >= 600)
        await t.until(lambda: t.app.controller.view.blocks[-1] == AnswerText("Hi."))
        await t.rests()
        assert session.said == ["hello"]
        assert t.transcript.visible_text().startswith(before)  # the line of the queue is free again


async def test_where_a_session_cannot_be_opened_its_end_goes_away_again() -> None:
    sessions = FakeSessions(
        [FakeSession(history=conversation(2)), AuthFailed("No key.")], (session_info("old1", "parser"),)
    )
    async with started(sessions) as t:
        await t.rests()
        sessions.end = Conversation((User((Text("something else"),)),))
        await t.type("/resume old1", shows="No key.")
        assert [type(block) for block in t.app.controller.view.blocks] == [*([UserText, AnswerText] * 2), Failure]


async def test_what_is_typed_before_there_is_a_session_is_done_as_soon_as_there_is_one() -> None:
    may_be_made = Flag()
    session = FakeSession()
    sessions = FakeSessions([FakeSession(id="first"), session])

    def make() -> FakeSessions:
        may_be_made.wait()
        return sessions

    app = EbbApp(LazySessions(make), guard_s=0.0)
    async with app.run_test() as pilot:
        t = Terminal(app, pilot, sessions)
        await pilot.press(*"/clear", "enter", *"and", "enter", *"then")
        assert (t.prompt.text, sessions.opened) == ("then", [])
        may_be_made.set()
        await pilot.press("enter")
        await t.rests()
        assert (sessions.opened, session.said) == ([(None, None), (None, "scripted/demo")], ["and", "then"])


async def test_history_lasts_across_sessions(tmp_path: Path) -> None:
    file = tmp_path / "history"
    async with terminal(history_file=file) as t:
        await t.type("first\nmessage")
        await t.says("second")
    async with terminal(history_file=file) as t:
        t.prompt.set_text("draft")
        await t.pilot.press("up")
        assert t.prompt.text == "second"
        await t.pilot.press("up")
        assert t.prompt.text == "first\nmessage"
        await t.pilot.press("down", "down", "down")
        assert t.prompt.text == "draft"


async def test_what_is_said_is_drawn_also_when_timers_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession([[TextDelta("the answer"), DONE]])
    async with terminal(session) as t:
        monkeypatch.setattr(t.app, "set_timer", lambda *_, **__: None)  # as on a machine that is too busy
        await t.says("go", shows="the answer")


async def test_a_message_may_have_lines() -> None:
    session = FakeSession()
    async with terminal(session) as t:
        await t.press("a", "shift+enter", "b", "ctrl+j", "c", "backslash", "enter", "d", "enter")
        assert session.said == ["a\nb\nc\nd"]


async def test_unknown_commands_name_the_closest() -> None:
    async with terminal() as t:
        await t.type("/modle", shows="unknown command /modle; did you mean /mode or /model?")


async def test_tab_completes_a_command_and_enter_runs_it() -> None:
    async with terminal() as t:
        await t.pilot.press("slash", "c", "o", "m", "tab")
        assert t.prompt.text == "/compact "
        await t.press("x", "enter", shows="this session is only played: nothing can be changed in it")


async def test_help_opens_and_closes() -> None:
    async with terminal() as t:
        await t.press("slash", "h", "enter", lists="help")
        await t.press("escape", until=lambda: not list_on(t.app, "help"))


async def test_resume_shows_the_other_session() -> None:
    old, other = FakeSession(), FakeSession(id="old1", history=conversation(3))
    async with terminal(old, other, infos=[session_info("old1", "parser work"), session_info("old2", "other")]) as t:
        await t.type("/resume", lists="sessions")
        await t.press("p", "a", "r", "s", "enter", shows="Answer 2.")
        await t.rests()
        assert (t.sessions.opened[-1], old.closed) == (("old1", None), True)


async def test_another_model_goes_on_with_the_same_session() -> None:
    old, other = FakeSession(history=conversation(1)), FakeSession(model="openai/gpt", history=conversation(1))
    async with terminal(old, other) as t:
        await t.type("/model openai/gpt", lists="model")
        await t.press("enter", shows="the model is now openai/gpt")
        assert (t.sessions.opened[-1], old.closed) == (("abc123", "openai/gpt"), True)


async def test_clear_starts_anew() -> None:
    old = FakeSession(history=conversation(2))
    async with terminal(old, FakeSession(id="next")) as t:
        await t.shows("Answer 1.")
        await t.type("/clear", shows="/help shows keys and commands")
        assert (t.app.controller.view.blocks, old.closed) == ((), True)


async def test_quitting_in_a_turn_interrupts_it_and_closes_the_session() -> None:
    session = FakeSession([[measured(), Hold(), DONE]])
    async with terminal(session) as t:
        await t.type("go", until=lambda: session.said)
        await t.press("ctrl+d", "ctrl+d", until=lambda: session.closed)
        assert session.interrupted >= 1


async def test_ctrl_c_stops_the_turn_and_stays() -> None:
    session = FakeSession([[measured(), Hold(), DONE]])
    async with terminal(session) as t:
        await t.type("go", until=lambda: session.said)
        await t.press("ctrl+c", until=lambda: not t.app.is_working)
        assert (session.interrupted, session.closed) == (1, False)


async def test_ctrl_d_leaves_an_empty_prompt_at_once_and_deletes_in_another() -> None:
    session = FakeSession()
    async with terminal(session) as t:
        t.prompt.set_text("ab")
        t.prompt.move_cursor((0, 0))
        await t.press("ctrl+d", until=lambda: t.prompt.text == "b")
        await t.press("ctrl+d", until=lambda: t.prompt.text == "")
        assert not session.closed
        await t.press("ctrl+d", until=lambda: session.closed)


async def test_quit_closes_the_session() -> None:
    session = FakeSession()
    async with terminal(session) as t:
        await t.type("/quit", until=lambda: session.closed)


async def test_control_characters_reach_no_sink() -> None:
    evil = "\x1b]52;c;x\x07[bold]no markup[/bold]\u202e"
    question = PermissionAsked("q", evil, evil, {"command": evil}, evil, evil, (evil,))
    call = (ToolStarted("1", evil, {"x": evil}), ToolFinished("1", evil, "failed", evil))
    turn: list[Event] = [TextDelta(evil), *call, Noticed(evil), question, QuestionAsked("w", evil, (evil,)), DONE]
    session = FakeSession([turn], model=evil, mode=evil)
    shots: list[str] = []
    async with terminal(session, infos=[session_info("1", evil)], size=(120, 40)) as t:
        await t.type(evil, asks=PermissionAsked)
        shots.append(t.app.export_screenshot())
        await t.press("y", asks=QuestionAsked)
        shots.append(t.app.export_screenshot())
        await t.press("escape")
        await t.pilot.press("ctrl+o")
        shots.append(t.app.export_screenshot())
        await t.type("/resume", lists="sessions")
        shots.append(t.app.export_screenshot())
        await t.pilot.press("escape")
    for shot in shots:
        assert not set(shot) & {"\x1b", "\x07", "\u202e", "\x9b"}
        assert "markup" in shot


async def test_an_app_that_is_stopped_from_outside_closes_its_session() -> None:
    session = FakeSession([[TextDelta("so"), Hold(), DONE]])
    async with terminal(session) as t:
        await t.type("go", shows="so")
    assert session.closed


async def test_a_call_that_runs_shows_the_end_of_its_output() -> None:
    async with terminal(FakeSession([[ToolStarted("1", "bash", {"command": "make"}), Hold(), DONE]])) as t:
        await t.type("go", shows="○ bash  make")
        assert isinstance(t.app.controller.view.blocks[-1], Call)


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light", "solarized-light"])
async def test_other_themes_can_draw_everything(theme: str) -> None:
    text = "# Title\n\n`code` and [link](http://example.org)\n\n```python\nx = 1  # note\n```\n\n> quote\n\n---\n"
    async with terminal(FakeSession([[TextDelta(text), QUESTION, DONE]]), size=(80, 60)) as t:
        t.app.theme = theme
        await t.type("go", asks=PermissionAsked)
        assert "Title" in t.transcript.visible_text()
        await t.press("n", "enter")


async def test_a_storm_of_sizes_breaks_nothing() -> None:
    async with terminal(FakeSession([[TextDelta("日本語 " * 40), QUESTION, DONE]], history=conversation(30))) as t:
        await t.type("go", asks=PermissionAsked)
        for size in ((10, 4), (1, 1), (200, 60), (3, 50), (80, 2), (80, 24)):
            await t.pilot.resize_terminal(*size)
            await t.pilot.pause()
        await t.press("y")
        for size in ((10, 4), (1, 1), (200, 60), (80, 24)):
            await t.pilot.resize_terminal(*size)
            await t.pilot.press("pageup", "slash", "f1", "escape", "backspace")
        t.transcript.go_to_end()
        await t.until(lambda: "日本語" in t.transcript.visible_text())


async def test_keys_of_one_burst_act_in_the_order_in_which_they_were_typed() -> None:
    async with terminal() as t:
        burst = [("a", "a"), ("b", "b"), ("ctrl+u", None), ("c", "c"), ("d", "d"), ("left", None), ("x", "x")]
        for key, character in burst:
            t.app.post_message(Key(key, character))
        await t.until(lambda: "x" in t.prompt.text)
        assert t.prompt.text == "cxd"


async def test_a_command_whose_end_is_typed_in_one_burst_is_the_one_that_was_typed() -> None:
    old = FakeSession(history=conversation(1))
    async with terminal(old, FakeSession(id="next")) as t:
        await t.pilot.press("slash", "c")
        for key in [*"lear", "enter"]:
            t.prompt.post_message(Key(key, key if len(key) == 1 else None))
        await t.until(lambda: old.closed)
        await t.rests()
        assert old.said == []


async def test_what_is_pasted_stays_as_it_is_and_is_drawn_safely() -> None:
    session = FakeSession()
    async with terminal(session) as t:
        t.app.post_message(Paste("one\r\ntwo\x1b[2J\u202e"))
        await t.until(lambda: t.prompt.text)
        assert t.prompt.text == "one\ntwo\x1b[2J\u202e"
        assert t.prompt.render_line(1).text.strip() == "two␛[2J�"


async def test_what_was_written_can_be_undone_although_ctrl_z_suspends() -> None:
    async with terminal(FakeSession()) as t:
        await t.pilot.press("a", "b", "ctrl+u", "ctrl+underscore")
        assert t.prompt.text == "ab"
        await t.pilot.press("ctrl+y")
        assert t.prompt.text == ""


async def test_what_goes_wrong_beside_a_turn_ends_neither_the_turn_nor_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hold, full, damaged = Hold(), StoreFailed("the disk is full", "full"), StoreFailed("it is damaged", "damaged")

    async def cannot_be_written(*_: object) -> NoReturn:
        raise full

    async def cannot_be_read(*_: object) -> NoReturn:
        raise damaged

    session = FakeSession([[ToolStarted("1", "bash", {"command": "make"}), hold, DONE]])
    monkeypatch.setattr(session, "change_mode", cannot_be_written)
    async with terminal(session) as t:
        monkeypatch.setattr(t.sessions, "recent_sessions", cannot_be_read)
        await t.type("go", shows="make")
        await t.pilot.press("shift+tab", "ctrl+p")
        wanted = [Notice(str(full)), Notice(str(damaged))]
        await t.until(lambda: all(told in t.app.controller.view.blocks for told in wanted))
        running = [block.status for block in t.app.controller.view.blocks if isinstance(block, Call)]
        assert (running, t.app.controller.view.is_busy) == (["running"], True)
        hold.event.set()
        await t.rests()


async def test_a_screen_that_takes_a_while_is_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with terminal(FakeSession()) as t:
        known, both = t.sessions.recent_sessions, asyncio.Event()
        asked = 0

        async def slow() -> Sequence[SessionInfo]:
            nonlocal asked
            asked += 1
            if asked == 2:
                both.set()
            await both.wait()
            return await known()

        monkeypatch.setattr(t.sessions, "recent_sessions", slow)
        await t.press("ctrl+p", "ctrl+p", lists="commands")
        await t.pilot.pause()
        assert len(t.app.screen_stack) == 2
        await t.pilot.press("escape")


async def test_ctrl_c_at_a_question_takes_away_what_is_being_written_and_stops_the_turn_from_the_question() -> None:
    session = FakeSession([[QUESTION, Hold(), DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionAsked)
        await t.press(*"zzz", until=lambda: t.prompt.text == "zzz")
        await t.press("ctrl+c", until=lambda: t.prompt.text == "")
        assert t.app.controller.view.open_questions == (QUESTION,)
        await t.until(lambda: asks_on(t.app, PermissionAsked))
        await t.press("ctrl+c", until=lambda: not t.app.controller.is_busy)
