"""Pictures of the mark that something came below. Look at every one that changes."""

import pytest
from textual.pilot import Pilot

from agent.events import Event, TextDelta, ToolFinished, ToolStarted, TurnFinished
from tests.tui.doubles import FakeSession, FakeSessions, Hold, conversation
from tests.tui.picturing import Compare
from tui.app import EbbApp
from tui.widgets.below import BelowMark

pytestmark = pytest.mark.usefixtures("no_time_passes")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
def test_new_blocks_below_what_is_read(snap_compare: Compare, size: tuple[int, int]) -> None:
    hold = Hold()
    turn: list[Event | Hold] = [
        TextDelta("I look at it first."),
        hold,
        ToolStarted("1", "bash", {"command": "make test"}),
        ToolFinished("1", "bash", "done", "2 failed\n"),
        TextDelta("Two tests fail. "),
        TurnFinished("answered", "x"),
    ]
    app = EbbApp(FakeSessions([FakeSession([turn], history=conversation(20))]), guard=0.0)

    async def read_above(pilot: Pilot[str]) -> None:
        while not pilot.app.query("#prompt:focus"):
            await pilot.pause()
        await pilot.press(*"Why do the tests fail?", "enter")
        while "I look at it first." not in app.main.transcript.visible_text():
            await pilot.pause()
        await pilot.press("pageup")
        hold.event.set()
        while not app.talk.view.used or app.is_working or not app.main.query(BelowMark):
            await pilot.pause()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=read_above)
