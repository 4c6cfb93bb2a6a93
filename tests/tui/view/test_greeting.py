"""What a new session is greeted with: all of it where there is room, what matters most where there is little."""

import re
from dataclasses import replace

import pytest

from ebbtide.tui.keys import KEYS
from ebbtide.tui.slash_commands import COMMANDS
from ebbtide.tui.view.greeting import (
    LOGO,
    TIPS,
    Greeting,
    build_greeting_lines,
    indent_lines,
    plain_greeting,
    session_by_number,
    tip_of_the_day,
)
from ebbtide.version import VERSION
from tests.kit.fake_sessions import session_info
from tests.kit.plain_lines import plain

SESSIONS = (
    session_info("s1", "mend the lexer", updated_at=1_000_000.0 - 7_200),
    session_info("s2", "", updated_at=1_000_000.0 - 86_400 * 3),
)
FULL = Greeting(
    "anthropic/claude",
    "/home/me/project",
    "main",
    "ask",
    (("AGENT.md", 4_200),),
    (),
    SESSIONS,
    "`!` runs it",
    1_000_000.0,
)


def said(greeting: Greeting, width: int, height: int, **how: bool) -> list[str]:
    return [plain(line).rstrip() for line in build_greeting_lines(greeting, width, height, **how)]


def test_with_room_all_is_said() -> None:
    assert said(FULL, 100, 30) == [
        LOGO[0].rstrip(),
        LOGO[1].rstrip(),
        f"{LOGO[2]}  {VERSION}",
        "",
        "model    anthropic/claude",
        "folder   /home/me/project   main",
        "read     AGENT.md",
        "",
        "resume   type a number, or /resume for all",
        f"  1  {'mend the lexer':56}  2 h ago",
        f"  2  {'(no messages yet)':56}  3 d ago",
        "",
        "tip      ! runs it",
        "more     /help shows keys and commands",
    ]


def test_whoever_has_no_session_is_told_what_may_be_said() -> None:
    assert said(replace(FULL, sessions=()), 100, 30)[-4:] == [
        "",
        "try      find out why the tests fail and fix them",
        "tip      ! runs it",
        "more     /help shows keys and commands",
    ]


def test_it_can_stand_away_from_the_edge() -> None:
    lines = build_greeting_lines(FULL, 76, 25)
    assert [plain(line) for line in indent_lines(lines, 22)] == [" " * 22 + plain(line) for line in lines]
    assert indent_lines(lines, 0) == lines


@pytest.mark.parametrize("height", range(1, 30))
def test_no_more_lines_are_said_than_there_is_room_for_and_help_is_always_named(height: int) -> None:
    for width, last in ((39, "/help shows keys and commands"), (40, "more     /help shows keys and commands")):
        lines = said(FULL, width, height)
        assert len(lines) <= max(height, 2)
        assert lines[-1] == last


def test_what_is_longer_than_the_screen_is_wide_goes_on_below_itself() -> None:
    tip = "`/why TEXT` tells whether the model still sees a text, and brings it back if not"
    assert said(replace(FULL, tip=tip, sessions=()), 60, 30)[-4:] == [
        "try      find out why the tests fail and fix them",
        "tip      /why TEXT tells whether the model still sees a",
        "         text, and brings it back if not",
        "more     /help shows keys and commands",
    ]


def test_a_terminal_of_letters_gets_letters() -> None:
    assert said(FULL, 100, 30, supports_unicode=False)[0] == f"Ebbtide  {VERSION}"
    assert all(line.isascii() for line in said(FULL, 100, 30, supports_unicode=False))


def test_in_lines_it_takes_three_or_four() -> None:
    assert plain_greeting(FULL) == (
        f"Ebbtide {VERSION} in /home/me/project, branch main, model anthropic/claude, mode ask. "
        "Read AGENT.md (4.2 kB).",
        "Resume by number: 1 mend the lexer (2 h ago); 2 (no messages yet) (3 d ago).",
        "Tip: `!` runs it. `/help` lists commands.",
    )
    assert len(plain_greeting(replace(FULL, sessions=(), tip=""))) == 2
    assert plain_greeting(replace(FULL, tip="Ctrl-P searches commands"))[-1] == "`/help` lists commands."


def test_only_a_number_that_is_offered_chooses_a_session() -> None:
    found = {text: session_by_number(text, SESSIONS) for text in ("1", " 2 ", "0", "3", "12", "1.", "one", "", "²")}
    assert {text: info.id for text, info in found.items() if info is not None} == {"1": "s1", " 2 ": "s2"}


def test_tips_name_what_there_is_and_change_by_day_and_by_session() -> None:
    commands = {command.name for command in COMMANDS}
    keys = " ".join(key.label for key in KEYS)
    for tip in TIPS:
        assert {word for word in re.findall(r"`/([a-z]+)", tip)} <= commands, tip
        assert all(key in keys for key in re.findall(r"(?:Ctrl|Shift)-\w+", tip)), tip
    assert tip_of_the_day(0, 0) != tip_of_the_day(1, 0)
    assert tip_of_the_day(0, 0) != tip_of_the_day(0, 1)
