"""The start: what is painted first stays, and what only a turn needs is loaded when the user begins to type."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.events.session import TextDelta, TurnFinished
from ebbtide.tui.app import EbbApp
from ebbtide.tui.widgets.prompt import PromptInput
from tests.kit.app_pilot import started
from tests.kit.fake_sessions import FakeSession, FakeSessions, conversation
from tests.kit.pty_terminal import SAYS, left_behind, ready, running

SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=str)

LISTS_MODULES = """
import json, sys
from pathlib import Path
from ebbtide.tui.cli.main import main

code = main(sys.argv[1:])
folders = {name for name, one in sys.modules.items() if name.startswith("ebbtide.") and hasattr(one, "__path__")}
Path("loaded.json").write_text(json.dumps(sorted(sys.modules.keys() - folders)))
sys.exit(code)
"""
"""Starts `ebb`, and at its end writes down what was loaded. Folders do not count: they load their modules on first
use."""
FOR_A_TURN = {
    "ebbtide.tui.render.blocks",
    "ebbtide.tui.widgets.question_panel",
    "ebbtide.tui.widgets.side_panel",
    "markdown_it",
    "rich.markdown",
    "rich.syntax",
}
FOR_A_COMMAND = {
    "ebbtide.agent.compaction.compact",
    "ebbtide.agent.providers.first_run",
    "ebbtide.tui.commands.registry",
    "ebbtide.tui.commands.sessions",
}


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Where the prompt was in each frame that was painted: the column and the line of its first letter."""
    places: list[tuple[int, int]] = []

    def record(app: EbbApp) -> None:
        if app.screen_stack and (prompt := next(iter(app.screen_stack[0].query(PromptInput)), None)) is not None:
            places.append(prompt.content_region.offset)

    monkeypatch.setattr(EbbApp, "post_display_hook", record)
    return places


@SIZES
@pytest.mark.parametrize(
    ("session", "options"),
    [
        (FakeSession(), {}),
        (FakeSession(), {"model": "scripted/demo"}),
        (FakeSession(history=conversation(3)), {"resume": "old"}),
    ],
    ids=["new", "with a model", "resumed"],
)
async def test_the_prompt_stays_where_it_is_painted_first(
    session: FakeSession, options: dict[str, Any], size: tuple[int, int], frames: list[tuple[int, int]]
) -> None:
    sessions = FakeSessions([session], may_open=asyncio.Event())
    async with started(sessions, size, **options) as t:
        await t.until(lambda: sessions.opened)
        assert sessions.may_open is not None
        sessions.may_open.set()
        await t.rests()
    assert len({*frames}) == 1


@SIZES
async def test_with_a_first_message_the_prompt_is_at_the_bottom_from_the_start(
    size: tuple[int, int], frames: list[tuple[int, int]]
) -> None:
    sessions = FakeSessions(
        [FakeSession([[TextDelta("Hello."), TurnFinished("answered", "")]])], may_open=asyncio.Event()
    )
    async with started(sessions, size, first_message="hi") as t:
        await t.until(lambda: sessions.opened)
        assert sessions.may_open is not None
        sessions.may_open.set()
        await t.shows("Hello.")
        await t.rests()
    assert len({*frames}) == 1


@pytest.mark.parametrize("typed", ["", "h"], ids=["nothing typed", "a letter typed"])
def test_what_a_turn_needs_is_loaded_when_somebody_begins_to_type(typed: str, tmp_path: Path) -> None:
    with ready(tmp_path, SAYS, 120, 40, start=LISTS_MODULES) as terminal:
        terminal.rest()
        if typed:
            terminal.send(typed, until=typed)
            terminal.rest()
            terminal.send("\x03", until="Ask, or")
        left_behind(terminal)
    loaded = {*json.loads((tmp_path / "project" / "loaded.json").read_text())}
    assert loaded & FOR_A_TURN == (FOR_A_TURN if typed else set())
    assert loaded & FOR_A_COMMAND == set()


def test_a_message_that_is_typed_while_python_starts_is_sent(tmp_path: Path) -> None:
    with running(tmp_path, SAYS) as screen:
        screen.child.send("hello\r")
        screen.until("Said.")
        assert "\u258c hello" in screen.text


def test_what_is_typed_while_python_starts_is_in_the_prompt(tmp_path: Path) -> None:
    with running(tmp_path, SAYS) as screen:
        screen.child.send("hello")
        screen.until("keys and commands")
        screen.send(" there", until="hello there")
