"""Pictures of the mark that something came below. Look at every one that changes."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest
from textual.pilot import Pilot

from ebbtide.agent.config.options import ThemeName
from ebbtide.agent.events.session import Event, TextDelta, ToolFinished, ToolStarted, TurnFinished
from ebbtide.tui.app import EbbApp
from ebbtide.tui.terminal.terminal_driver import BackgroundColor
from ebbtide.tui.text.themes import BackgroundTone
from ebbtide.tui.widgets.new_content_indicator import NewContentIndicator
from tests.kit.fake_sessions import FakeSession, FakeSessions, Hold, conversation
from tests.kit.pictures import SIZES, WORN, Picture

pytestmark = pytest.mark.usefixtures("no_time_passes")

Seen: TypeAlias = Callable[[Pilot[str]], Awaitable[None]]


def reading(theme: ThemeName = "dark", ground: BackgroundTone | None = None) -> tuple[EbbApp, Seen]:
    """A session in which something comes while what is above is read."""
    hold = Hold()
    turn: list[Event | Hold] = [
        TextDelta("I look at it first."),
        hold,
        ToolStarted("1", "bash", {"command": "make test"}),
        ToolFinished("1", "bash", "done", "2 failed\n"),
        TextDelta("Two tests fail. "),
        TurnFinished("answered", "x"),
    ]
    app = EbbApp(FakeSessions([FakeSession([turn], history=conversation(20))]), guard_s=0.0, theme=theme)

    async def read_above(pilot: Pilot[str]) -> None:
        while not pilot.app.query("#prompt:focus"):
            await pilot.pause()
        if ground is not None:
            app.post_message(BackgroundColor(ground))
        await pilot.press(*"Why do the tests fail?", "enter")
        while "I look at it first." not in app.main_screen.transcript.visible_text():
            await pilot.pause()
        await pilot.press("pageup")
        hold.event.set()
        while not app.controller.view.used_tokens or app.is_working or not app.main_screen.query(NewContentIndicator):
            await pilot.pause()
        await pilot.pause()

    return app, read_above


@SIZES
def test_new_blocks_below_what_is_read(picture: Picture) -> None:
    app, read_above = reading()
    assert picture.compare(app, terminal_size=picture.size, run_before=read_above)


@WORN
def test_the_mark_in_other_themes(picture: Picture, theme: ThemeName, ground: BackgroundTone | None) -> None:
    app, read_above = reading(theme, ground)
    assert picture.compare(app, terminal_size=picture.size, run_before=read_above)
