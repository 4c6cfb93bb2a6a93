"""Pictures of a conversation in every theme. Look at every one that changes."""

from textual.pilot import Pilot

from agent.config.options import ThemeName
from tests.tui.doubles import FakeSession, FakeSessions
from tests.tui.picturing import WORN, Compare, ready
from tests.tui.test_snapshots import QUESTION, REST, TURN
from tui.app import EbbApp
from tui.screens.permission import PermissionScreen
from tui.terminal.colour_query import GroundTold
from tui.text.themes import Ground


@WORN
def test_a_conversation(snap_compare: Compare, theme: ThemeName, ground: Ground | None) -> None:
    session = FakeSession([[event for event in TURN if event is not QUESTION] + REST])
    app = EbbApp(FakeSessions([session]), first_message="the tests fail, fix them", guard=0.0, theme=theme)

    async def look(pilot: Pilot[str]) -> None:
        if ground is not None:
            app.post_message(GroundTold(ground))
        await ready(app, lambda: not app.is_working)(pilot)
        await pilot.press("ctrl+f", *"add", "enter")
        await pilot.pause()

    assert snap_compare(app, terminal_size=(80, 24), run_before=look)


@WORN
def test_a_question_with_a_diff(snap_compare: Compare, theme: ThemeName, ground: Ground | None) -> None:
    app = EbbApp(FakeSessions([FakeSession([TURN])]), first_message="the tests fail", guard=0.0, theme=theme)

    async def look(pilot: Pilot[str]) -> None:
        if ground is not None:
            app.post_message(GroundTold(ground))
        await ready(app, lambda: isinstance(app.screen, PermissionScreen))(pilot)

    assert snap_compare(app, terminal_size=(80, 24), run_before=look)
