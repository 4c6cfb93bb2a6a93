"""What is typed or pasted is what is sent, and one key moves over what is seen as one character."""

import pytest
from textual.events import Paste
from textual.message import Message
from textual.widgets import Input

from ebbtide.agent.events.permissions import QuestionAsked
from ebbtide.agent.events.session import TurnFinished
from ebbtide.tui.terminal.terminal_driver import TerminalInput
from ebbtide.tui.widgets.field import Field
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession, Hold

DONE = TurnFinished("answered", "x")
FAMILY, FLAG = "👩\u200d👩\u200d👧", "🇩🇪"
TEXTS = (
    "全角\u3000と\xa0空白",  # an ideographic blank, and Option-Space of a Mac
    f"a{FAMILY}b ❤\ufe0f 🏴\U000e0067\U000e0062\U000e007f",
    "می\u200cخواهم क्\u200dष",
    "\u200fעברית\u200e so\xadft \ue0b0\U000f0001 \u2800",
    "tag" + "".join(chr(0xE0000 + ord(char)) for char in "unseen"),
    "\u202egnp.exe\u2066\u2069\ufeff\u00ad\u034f\u115f\u3164",
    "lines\u2028of\u2029other\x0bkinds\x0c\x1c\x85end",
    "\x1b[31mred\x1b[0m\x07 ~\x7f",
    "\U0001fae8 \U0001faf9 \u0378\U000323b0",  # some newer than the tables of Python
)


@pytest.mark.parametrize("text", TEXTS)
async def test_what_is_pasted_is_sent_stored_and_edited_as_it_is(text: str) -> None:
    session = FakeSession([[DONE], [DONE], [DONE]])
    async with terminal(session) as t:
        t.prompt.post_message(Paste(f"x{text}\n    {text}."))
        await t.press("enter", until=lambda: session.said)
        await t.rests()
        await t.press("up", "enter", until=lambda: len(session.said) == 2)  # from the history
        await t.rests()
        t.prompt.post_message(Paste(f"{text}\n" * 30))
        await t.until(lambda: "[pasted 30 lines #1]" in t.prompt.text)
        await t.press("ctrl+o", until=lambda: t.prompt.text == f"{text}\n" * 30)  # unfolded
    assert session.said == [f"x{text}\n    {text}."] * 2


@pytest.mark.parametrize("text", [text for text in TEXTS if "\x1b" not in text and "\x0b" not in text])
async def test_what_is_typed_is_what_is_written(text: str) -> None:
    async with terminal(FakeSession([])) as t:
        received: list[Message] = []
        typing = TerminalInput(received.append, debug=False)
        for byte in f"x{text}".encode():
            typing.feed_bytes(bytes([byte]))
        for message in received:
            t.app.post_message(message)
        await t.until(lambda: t.prompt.text == f"x{text}")


@pytest.mark.parametrize("text", TEXTS)
async def test_an_answer_in_words_is_given_as_it_was_pasted(text: str) -> None:
    session = FakeSession([[QuestionAsked("w", "Which one?", ("the first",)), Hold(), DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=QuestionAsked)
        t.app.post_message(Paste(f"{text}\n{text}.\n"))
        await t.press("enter", until=lambda: session.answers)
    assert session.answers == {"w": f"{text}\n{text}."}


@pytest.mark.parametrize("seen", [FLAG, FAMILY, "é", "1\ufe0f\u20e3", "👍🏽", "한", "क्षि"])
async def test_one_key_moves_over_and_deletes_what_is_seen_as_one(seen: str) -> None:
    async with terminal(FakeSession([])) as t:
        t.prompt.set_text(f"a{seen}b")
        await t.pilot.press("left", "left", "x", "right", "backspace", "backspace")
        assert t.prompt.text == "ab"
        t.prompt.set_text(f"a{seen}b")
        await t.pilot.press("left", "left", "delete")
        assert t.prompt.text == "ab"
        await t.press("ctrl+r", until=lambda: t.app.screen.query("#past-sought:focus"))
        field = t.app.screen.query_one("#past-sought", Input)
        field.value = f"a{seen}b"
        field.cursor_position = len(field.value)
        await t.pilot.press("left", "backspace")
        assert field.value == "ab"
        field.value = f"a{seen}b"
        await t.pilot.press("home", "right", "right", "left", "delete")
        assert field.value == "ab"


@pytest.mark.parametrize(
    ("key", "left"),
    [
        ("alt+left", "alpha beta |gamma"), ("alt+b", "alpha beta |gamma"), ("ctrl+left", "alpha beta |gamma"),
        ("alt+backspace", "alpha beta |"), ("shift+backspace", "alpha beta gamm|"), ("super+left", "|alpha beta gamma"),
        ("home alt+d", "| beta gamma"), ("home ctrl+delete", "| beta gamma"), ("home alt+delete", "| beta gamma"),
        ("home shift+delete", "|lpha beta gamma"), ("home alt+right x", "alphax| beta gamma"),
        ("home alt+f x", "alphax| beta gamma"), ("home super+right x", "alpha beta gammax|"),
        ("alt+shift+left x", "alpha beta x|"),
    ],
)  # fmt: skip
async def test_keys_of_shells_and_terminals_move_and_delete_by_words(key: str, left: str) -> None:
    """openai/codex#687: Alt with arrows and Delete do nothing. google-gemini/gemini-cli#19296: nor does Alt-D.
    kovidgoyal/kitty#3329: Shift with Backspace comes as a key of its own, which is to delete as well."""
    async with terminal(FakeSession([])) as t:
        t.prompt.set_text("alpha beta gamma")
        await t.pilot.press(*key.split())
        await t.pilot.press("|")
        assert t.prompt.text == left
        await t.press("ctrl+r", until=lambda: t.app.screen.query("#past-sought:focus"))
        field = t.app.screen.query_one("#past-sought", Input)
        field.value = "alpha beta gamma"
        field.cursor_position = len(field.value)
        await t.pilot.press(*key.split())
        await t.pilot.press("|")
        # An input goes to the beginning of the next word, and takes the blank before it along.
        assert field.value.replace(" ", "") == left.replace(" ", "")


async def test_what_nobody_sees_is_counted_beside_the_prompt_also_in_what_is_folded() -> None:
    async with terminal(FakeSession([]), size=(120, 30)) as t:
        t.prompt.post_message(Paste("\u200b" * 12))
        await t.until(lambda: t.prompt.border_title == "12 invisible characters")
        t.prompt.post_message(Paste("line\u200b\n" * 30))
        await t.until(lambda: t.prompt.border_title == "42 invisible characters")
        t.prompt.set_text("")
        await t.until(lambda: t.prompt.border_title == "")
        await t.press("ctrl+r", until=lambda: t.app.screen.query("#past-sought:focus"))
        t.app.post_message(Paste("a\u200bb"))
        field = t.app.screen.query_one("#past-sought", Field)
        await t.until(lambda: field.value == "a\u200bb" and "a�b" in field.render_line(0).text)
        assert "  1 invisible character" in field.render_line(0).text
