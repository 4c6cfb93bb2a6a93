"""Pictures of questions about calls. Look at every one that changes."""

from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot

from agent.events import Event, Noticed, PermissionAsked, TextDelta, Tried
from tests.tui.doubles import FakeSession, FakeSessions, measured
from tests.tui.picturing import SIZES, Compare, ready
from tui.app import EbbApp
from tui.screens.permission import PermissionScreen

COMMAND = "cd packages/calc && pytest -q --no-header 2>&1 | tail -20"
ASKED = PermissionAsked(
    "q",
    "1",
    "bash",
    {"command": COMMAND},
    "ask mode asks before a command runs",
    "",
    (f"bash(={COMMAND})", "bash(pytest)"),
    (
        Tried(f"bash(={COMMAND})", 1, 31),
        Tried("bash(pytest)", 17, 31, ("pytest -q", "cd packages/calc && pytest -q", "pytest tests/test_calc.py")),
    ),
    "/home/me/.config/ebbtide/rules.json",
)
LONG = PermissionAsked(
    "q",
    "1",
    "bash",
    {
        "command": "python - <<'EOF'\n"
        + "\n".join(f"print({number}, 'x' * {number})" for number in range(120))
        + "\nEOF"
    },
    "ask mode asks before a command runs",
)


def asking(question: PermissionAsked) -> EbbApp:
    told = Noticed("`forge` was lost: it ended with exit code 1; `/mcp` starts it again")
    turn: list[Event] = [measured(), TextDelta("I run the tests of the package."), told, question]
    return EbbApp(FakeSessions([FakeSession([turn])]), first_message="do the tests pass?", guard=0.0)


def asked(app: EbbApp, *keys: str) -> Callable[[Pilot[str]], Awaitable[None]]:
    async def wait(pilot: Pilot[str]) -> None:
        await ready(app, lambda: isinstance(app.screen, PermissionScreen))(pilot)
        await pilot.press(*keys)
        await pilot.pause()

    return wait


@SIZES
def test_a_question_with_rules_and_what_was_told(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = asking(ASKED)
    assert snap_compare(app, terminal_size=size, run_before=asked(app))


@pytest.mark.parametrize("size", [(10, 5), (20, 6), (40, 3), (60, 12)], ids=["10x5", "20x6", "40x3", "60x12"])
def test_a_question_where_there_is_hardly_any_room(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = asking(ASKED)
    assert snap_compare(app, terminal_size=size, run_before=asked(app))


@pytest.mark.parametrize("key", ["d", "e", "p"])
def test_a_question_that_is_answered_in_words(snap_compare: Compare, key: str) -> None:
    app = asking(ASKED)
    assert snap_compare(app, terminal_size=(80, 24), run_before=asked(app, key))


def test_a_question_about_a_long_command(snap_compare: Compare) -> None:
    app = asking(LONG)
    assert snap_compare(app, terminal_size=(80, 24), run_before=asked(app, "end"))
