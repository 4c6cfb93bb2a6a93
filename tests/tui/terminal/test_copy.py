"""What is copied, where it goes, and that nothing in it does more than be pasted."""

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.events.session import Event, TextDelta, ToolFinished, ToolStarted, TurnFinished
from ebbtide.tui.terminal.clipboard_copy import (
    MAX_OSC_52_BYTES,
    copy_programs,
    copy_sequence,
    copy_text,
    copyable_prefix,
    without_control_chars,
)
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession
from tests.kit.files import write_program

NOWHERE = {"PATH": ""}
MARKDOWN = "It **works**:\n\n```python\nprint(1)\n```\n"


def sent(sequence: str) -> str:
    return base64.b64decode(sequence.removeprefix("\x1b]52;c;").removesuffix("\x07")).decode()


@given(st.text())
def test_what_is_pasted_steers_no_terminal(text: str) -> None:
    plain = without_control_chars(text)
    assert not any(ord(character) < 0x20 and character not in "\n\t" for character in plain)
    assert not any(0x7F <= ord(character) < 0xA0 or 0xD800 <= ord(character) < 0xE000 for character in plain)
    assert sent(copy_sequence(plain, {})) == plain


@given(st.sampled_from(["a", "é", "語", "👩‍👩‍👧"]), st.integers(MAX_OSC_52_BYTES - 8, MAX_OSC_52_BYTES + 8))
def test_a_terminal_is_sent_no_more_than_it_takes_and_no_part_of_a_character(character: str, count: int) -> None:
    text = character * count
    assert text.startswith(copyable_prefix(text))
    assert (
        MAX_OSC_52_BYTES - 4 < len(copyable_prefix(text).encode()) <= MAX_OSC_52_BYTES or copyable_prefix(text) == text
    )


async def test_too_much_is_said_to_be_too_much() -> None:
    written: list[str] = []
    assert (
        await copy_text("x" * 80_000, NOWHERE, "linux", written.append)
        == "copied the first 74,000 of 80,000 characters"
    )
    assert sent("".join(written)) == "x" * MAX_OSC_52_BYTES
    assert await copy_text("x", NOWHERE, "linux", written.append) == "copied 1 character"
    assert await copy_text("", NOWHERE, "linux", written.append) == "nothing to copy"


@pytest.mark.parametrize(
    ("environment", "platform", "names"),
    [
        ({}, "linux", []),
        ({}, "darwin", ["pbcopy"]),
        ({"SSH_TTY": "/dev/pts/1", "DISPLAY": ":10"}, "linux", []),
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, "linux", ["wl-copy", "xclip", "xsel"]),
        ({"TMUX": "/tmp/tmux-0/default,1,0", "SSH_TTY": "/dev/pts/1"}, "linux", ["tmux"]),
    ],
)
def test_programs_of_this_machine_take_it_too(environment: dict[str, str], platform: str, names: list[str]) -> None:
    assert [argv[0] for argv in copy_programs(environment, platform)] == names


@pytest.mark.parametrize(("script", "is_sent"), [('cat > "$0.took"', False), ("exit 1", True)])
async def test_tmux_is_given_the_text_and_where_it_takes_none_the_terminal_is(
    tmp_path: Path, script: str, is_sent: bool
) -> None:
    write_program(tmp_path / "tmux", f"{script}\n")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMUX": "/tmp/tmux-0/default,1,0"}
    written: list[str] = []
    assert await copy_text("two\nlines", environment, "linux", written.append) == "copied 9 characters"
    plain = f"\x1b]52;c;{base64.b64encode(b'two' + bytes([10]) + b'lines').decode()}\x07"
    passed = "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    assert written == ([plain + passed] if is_sent else [])


async def test_a_script_whose_child_never_takes_the_text_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.tui.terminal.clipboard_copy._COPY_TIMEOUT_S", 0.2)
    write_program(tmp_path / "xclip", "sleep 1000\nexit 0\n")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "DISPLAY": ":0"}
    written: list[str] = []
    await copy_text("x" * 1_000_000, environment, "linux", written.append)
    assert written == [copy_sequence("x" * 1_000_000, environment)]


async def test_y_copies_the_marked_block_and_upper_y_the_last_answer() -> None:
    turn: list[Event] = [
        TextDelta("I **look**."),
        ToolStarted("1", "bash", {"command": "make"}),
        ToolFinished("1", "bash", "done", "built"),
        TextDelta(MARKDOWN),
        TurnFinished("answered", MARKDOWN),
    ]
    async with terminal(FakeSession([turn])) as t:
        await t.says("go", shows="print(1)")
        await t.press("ctrl+t", "y", until=lambda: t.app.clipboard == "$ make\nbuilt")
        await t.press("up", "y", until=lambda: t.app.clipboard == "I **look**.")
        await t.press("enter", "up", "y", until=lambda: t.app.clipboard == "go")
        await t.press("Y", until=lambda: t.app.clipboard == MARKDOWN)
        await t.press("y", "down", "down", "down", "y", until=lambda: t.app.clipboard == MARKDOWN)
        assert t.transcript.expanded_blocks == ()
        await t.press("x", until=lambda: t.prompt.text == "x")
        t.prompt.set_text("/copy")
        t.app._clipboard = ""
        await t.press("enter", until=lambda: t.app.clipboard == MARKDOWN)


async def test_without_a_terminal_there_is_no_scrollback() -> None:
    async with terminal(FakeSession()) as t:
        await t.press("f2", shows="no scrollback here")
