from textual import events
from textual.widgets import Input, Static

from ebbtide.agent.events.session import TextDelta, TurnFinished
from tests.kit.app_pilot import Terminal, terminal
from tests.kit.fake_sessions import FakeSession, Hold, conversation

DONE = TurnFinished("answered", "x")


def box(t: Terminal) -> Input:
    return t.app.screen.query_one("#sought", Input)


def count(t: Terminal) -> str:
    return str(t.app.screen.query_one("#places", Static).render())


async def test_words_are_looked_for_and_esc_goes_back() -> None:
    async with terminal(FakeSession(history=conversation(30)), size=(80, 24)) as t:
        await t.shows("Answer 29.")
        before = t.transcript.visible_text()
        await t.press("ctrl+f", *"question", "space", *"12", shows="question 12:")
        assert count(t).startswith("1 of 1")
        await t.press("backspace", until=lambda: count(t).startswith("11 of 11"))
        await t.shows("question 19:")
        await t.press("enter", until=lambda: count(t).startswith("10 of 11"))
        await t.press("down", "down", until=lambda: count(t).startswith("1 of 11"))
        await t.press("escape", until=lambda: t.prompt.has_focus)
        assert (t.transcript.visible_text(), t.transcript.is_following) == (before, True)


async def test_words_that_come_with_the_key_are_looked_for() -> None:
    async with terminal(FakeSession(history=conversation(30)), size=(80, 24)) as t:
        await t.shows("Answer 29.")
        for _ in range(2):  # the line of the first search, and the same again
            for key in ("ctrl+f", *"zebra"):
                t.app.post_message(events.Key(key, key if len(key) == 1 else None))
            await t.until(lambda: t.app.screen.query("#sought") and box(t).value == "zebra")
            assert t.prompt.text == ""
            await t.press("escape", until=lambda: t.prompt.has_focus)


async def test_a_long_conversation_is_read_in_the_background_and_then_looked_through() -> None:
    async with terminal(FakeSession(history=conversation(400)), size=(80, 24)) as t:
        assert not t.transcript.is_ready_to_search
        await t.press("ctrl+f", *"question", "space", *"123", until=lambda: count(t).startswith("1 of 1"))
        await t.shows("question 123:")
        assert t.transcript.is_ready_to_search


async def test_n_walks_in_the_transcript_and_typing_goes_on_where_it_was_found() -> None:
    async with terminal(FakeSession(history=conversation(30)), size=(80, 24)) as t:
        await t.press("ctrl+f", *"question", "tab", "n", "n", "N", until=lambda: count(t).startswith("29 of 30"))
        await t.shows("question 28:")
        found = t.transcript.visible_text()
        await t.press("n", "n", "x", until=lambda: t.prompt.text == "x")
        assert not t.app.screen.query_one("#search").display
        assert "question 26:" in t.transcript.visible_text() != found


async def test_what_is_not_there_is_said() -> None:
    async with terminal(FakeSession(history=conversation(3))) as t:
        before = t.transcript.visible_text()
        await t.press("ctrl+f", *"zebra", "enter", until=lambda: count(t).startswith("no match"))
        assert before.endswith(t.transcript.visible_text())  # the line itself takes one


async def test_an_answer_that_streams_in_does_not_move_what_was_found() -> None:
    hold = Hold()
    session = FakeSession([[hold, TextDelta("More and more.\n\n" * 30), DONE]], history=conversation(30))
    async with terminal(session) as t:
        await t.type("go", until=lambda: session.said)
        await t.press("ctrl+f", *"question", "space", *"12", shows="question 12:")
        found = t.transcript.visible_text()
        hold.event.set()
        await t.rests()
        assert t.transcript.visible_text() == found
        await t.press("escape", shows="More and more.")


async def test_ctrl_f_under_a_list_does_nothing() -> None:
    async with terminal(FakeSession(history=conversation(3))) as t:
        await t.pilot.press("f1", "ctrl+f", "escape")
        assert not t.app.screen.query("#search")


async def test_jumping_from_the_prompt() -> None:
    async with terminal(FakeSession(history=conversation(30)), size=(80, 24)) as t:
        await t.pilot.press("ctrl+up", "ctrl+up")
        top = t.transcript.visible_text().split("\n")[0]
        await t.pilot.press("alt+up")
        await t.pilot.press("ctrl+down")
        assert t.transcript.visible_text().split("\n")[0] == top
        assert top.startswith("▌ question")
