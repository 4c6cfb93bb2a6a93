"""The conversation in the terminal's own scrollback."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tui.terminal.scrollback import ansi_blocks
from ebbtide.tui.view.blocks import AnswerText, Call, Notice, ReasoningBlock, UserText
from tests.kit.pty_terminal import left_behind, ready

REPLIES = """
[[reply]]
text = "I look: \\u001b]0;owned\\u0007 [a link](https://example.org/x)"
calls = [{ name = "read", arguments = { path = "calc.py" } }]
[[reply]]
text = "It **subtracts**."
[[reply]]
text = "one two three four five six seven eight nine ten and done"
pause_between = 0.1
"""

texts = st.text(max_size=40)


@given(
    st.lists(
        st.builds(UserText, texts)
        | st.builds(AnswerText, texts)
        | st.builds(ReasoningBlock, texts)
        | st.builds(Notice, texts)
        | st.builds(Call, st.just("1"), texts, st.fixed_dictionaries({"command": texts}), st.just("done"), text=texts),
        max_size=4,
    ),
    st.integers(1, 60),
)
def test_nothing_that_is_printed_steers_a_terminal(blocks: list[UserText], width: int) -> None:
    for text in ansi_blocks(blocks, width, is_colorless=True):
        assert not any(ord(character) < 0x20 and character != "\n" for character in text)


def test_everything_is_opened_and_keeps_its_own_colours() -> None:
    call = Call("1", "bash", {"command": "make"}, "done", text="built\nfine")
    (plain,) = ansi_blocks([call], 40, is_colorless=True)
    assert plain == "● bash  make  2 lines\n  │ make\n  │\n  │ built\n  │ fine\n\n"
    (colored,) = ansi_blocks([AnswerText("`x` [a](https://example.org)")], 40)
    assert "\x1b]8;" not in colored
    assert "38;2;" not in colored


def test_all_of_it_is_in_the_scrollback_and_enter_goes_back(tmp_path: Path) -> None:
    with ready(tmp_path, REPLIES) as terminal:
        terminal.send("what is wrong?\r", until="It subtracts.")
        before = len(terminal.sent)
        terminal.send("\x1bOQ", until="press Enter to return")
        text = re.sub(rb"\x1b\[[\d;]*m", b"", terminal.sent[before:].rsplit(b"\x1b[?1049l", 1)[1])
        for words in ("▌ what is wrong?", "return a - b", "https://example.org/x"):
            assert words.encode() in text
        assert b"\x1b]0;owned" not in text
        assert b"\x1b[2J" not in text
        terminal.send("\r", until="Ask, or / for commands")
        terminal.send("more\r", until="three")
        terminal.send("\x1bOQ", until="press Enter to return")
        terminal.child.send("\x03")  # goes back, too; the turn has gone on
        terminal.until("ten and done")
        while terminal.text.count("k tokens") < 2:  # until the turn has ended, Ctrl-C would end it
            terminal.read_more("the end of the turn")
        left_behind(terminal)
