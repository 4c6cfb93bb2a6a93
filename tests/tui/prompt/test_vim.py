from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.message import Message

from ebbtide.tui.prompt.vim import COMMAND_PREFIXES, Vim, VimStep, press_key
from ebbtide.tui.terminal.terminal_driver import TerminalInput
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession

NAMES = {"⎋": "escape", "⏎": "enter", "↻": "ctrl+r"}


def typed(keys: str, text: str, cursor: int = 0) -> VimStep:
    """After the keys, with characters that are typed in insert mode written down as a prompt would."""
    step = VimStep(Vim("normal"), text, cursor)
    for sign in keys:
        key = NAMES.get(sign, sign)
        before = step
        step = press_key(step.vim, key, step.text, step.cursor)
        if before.vim.mode == "insert" and step.request == "pass":
            step = VimStep(step.vim, step.text[: step.cursor] + key + step.text[step.cursor :], step.cursor + 1)
    return step


TEXT = "one two.three\n  four\n\nlast line"


@pytest.mark.parametrize(
    ("keys", "cursor"),
    [
        ("l", 1), ("3l", 3), ("99l", 12), ("w", 4), ("2w", 7), ("3w", 8), ("4w", 16), ("e", 2), ("2e", 6), ("3e", 7),
        ("$", 12), ("$0", 0), ("j", 14), ("jl^", 16), ("3j", 22), ("G", 22), ("2G", 16), ("Ggg", 0), ("Gkl", 21),
        ("wb", 0), ("4wb", 8), ("$h", 11), ("j$j", 21), ("zq", 0),
    ],
)  # fmt: skip
def test_motions(keys: str, cursor: int) -> None:
    step = typed(keys, TEXT)
    assert (step.text, step.cursor, step.vim.mode, step.vim.pending) == (TEXT, cursor, "normal", "")


@pytest.mark.parametrize(
    ("keys", "text", "cursor"),
    [
        ("x", "ne two", 0),
        ("3x", " two", 0),
        ("dw", "two", 0),
        ("wdw", "one ", 3),
        ("d$", "", 0),
        ("wD", "one ", 3),
        ("wd0", "two", 0),
        ("wdb", "two", 0),
        ("de", " two", 0),
        ("2dw", "", 0),
        ("cwnew⎋", "new two", 2),
        ("wCend⎋", "one end", 6),
        ("ccall⎋", "all", 2),
        ("istart ⎋", "start one two", 5),
        ("ab⎋", "obne two", 1),
        ("A!⎋", "one two!", 7),
        ("wI>⎋", ">one two", 0),
        ("onext⎋", "one two\nnext", 11),
        ("Obefore⎋", "before\none two", 5),
        ("xp", "noe two", 1),
        ("dwwP", "twone o", 5),
        ("yyp", "one two\none two", 8),
        ("yyP", "one two\none two", 0),
        ("yy2p", "one two\none two\none two", 8),
        ("x..", " two", 0),
        ("cwx⎋w.", "x x", 2),
        ("A!⎋.", "one two!!", 8),
        ("yw", "one two", 0),
        ("d⎋x", "ne two", 0),
        ("dq", "one two", 0),
    ],
)
def test_changes_of_one_line(keys: str, text: str, cursor: int) -> None:
    step = typed(keys, "one two")
    assert (step.text, step.cursor, step.vim.mode) == (text, cursor, "normal")


@pytest.mark.parametrize(
    ("keys", "text", "cursor"),
    [
        ("dd", "two\nthree", 0),
        ("jdd", "one\nthree", 4),
        ("2dd", "three", 0),
        ("9dd", "", 0),
        ("Gdd", "one\ntwo", 4),
        ("ddp", "two\none\nthree", 4),
        ("dj", "three", 0),
        ("dG", "", 0),
        ("Gdgg", "", 0),
        ("jcc⎋", "one\n\nthree", 4),
        ("2D", "\nthree", 0),
        ("dw", "\ntwo\nthree", 0),
        ("ddjp.", "two\nthree\none\none", 14),
    ],
)
def test_changes_of_lines(keys: str, text: str, cursor: int) -> None:
    step = typed(keys, "one\ntwo\nthree")
    assert (step.text, step.cursor) == (text, cursor)


@pytest.mark.parametrize("sign", COMMAND_PREFIXES)
def test_in_an_empty_text_what_begins_a_command_is_written(sign: str) -> None:
    assert typed(f"{sign}x⎋", "") == VimStep(Vim("normal"), f"{sign}x", 1)
    assert typed(sign, "one").text == "one"
    assert typed(f"d{sign}", "") == VimStep(Vim("normal"), "", 0)


def test_what_vim_leaves_to_others() -> None:
    assert [typed(keys, "a\nb").request for keys in ("u", "↻", "⏎", "k", "Gj", "⎋")] == [
        "undo", "redo", "pass", "up", "down", "pass",
    ]  # fmt: skip


@given(st.lists(st.sampled_from("hjklwbe0^$gGxdcyDCiaIAoOupP.123⎋⏎↻é "), max_size=30), st.text("ab .\n日", max_size=20))
def test_any_keys_leave_the_cursor_in_the_text(keys: list[str], text: str) -> None:
    step = typed("".join(keys), text)
    assert 0 <= step.cursor <= len(step.text)
    if step.vim.mode == "normal" and step.text[step.cursor : step.cursor + 1] in ("", "\n"):
        assert step.cursor == 0 or step.text[step.cursor - 1] == "\n" or not keys or "⎋" not in keys


async def test_the_prompt_takes_keys_of_vi() -> None:
    session = FakeSession()
    async with terminal(session) as t:
        await t.says("/vim")
        await t.pilot.press(*"one two")
        assert str(t.prompt.border_subtitle) == "INSERT"
        await t.pilot.press("escape", "0", "d")
        assert str(t.prompt.border_subtitle) == "NORMAL d"
        await t.pilot.press("w", "u")
        assert t.prompt.text == "one two"
        await t.pilot.press("ctrl+r")
        assert t.prompt.text == "two"
        await t.press("A", "!", "escape", "enter")
        assert session.said == ["two!"]
        await t.pilot.press("k")
        assert t.prompt.text == "two!"
        await t.pilot.press("i")
        t.prompt.set_text("")
        await t.says("/vim")
        assert not t.prompt.border_subtitle


@pytest.mark.parametrize("pause", [0.0, 0.03, 0.09, 0.2])
async def test_a_key_right_behind_esc_is_one_of_the_normal_mode(pause: float) -> None:
    """anthropics/claude-code#16738: Esc and `b` in quick succession come as Alt with `b`, and the insert mode stays."""
    async with terminal(FakeSession()) as t:
        await t.says("/vim")
        messages: list[Message] = []
        typing, now = TerminalInput(messages.append, debug=False), 1.0
        with (
            patch("ebbtide.tui.terminal.terminal_driver.get_time", lambda: now),
            patch("textual._parser.get_time", lambda: now),
        ):
            typing.feed_bytes(b"one two\x1b")
            now += pause
            typing.wait()
            for typed in (b"bx", b"0\x1bgg\x1bdw"):
                typing.feed_bytes(typed)
                now += 0.2
                typing.wait()
        for message in messages:
            t.app.post_message(message)
        await t.until(lambda: t.prompt.text == "wo")
        assert str(t.prompt.border_subtitle) == "NORMAL"
