"""A screen that does not find what it looks for: a fault, but while the app ends."""

from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import Static

from tui.terminal.crashing_app import CrashingApp


class Empty(Screen[None]):
    def on_mount(self) -> None:
        self.query_one(Static)


class Opening(CrashingApp):
    def __init__(self, *, ends: bool) -> None:
        super().__init__()
        self._ends = ends

    def on_mount(self) -> None:
        if self._ends:
            self.exit()
        self.push_screen(Empty())


async def test_a_screen_without_what_it_needs_is_a_fault() -> None:
    app = Opening(ends=False)
    await app.run_async(headless=True)
    assert (type(app.fault), app.return_code) == (NoMatches, 1)


async def test_a_screen_that_opens_while_the_app_ends_is_none() -> None:
    app = Opening(ends=True)
    await app.run_async(headless=True)
    assert (app.fault, app.return_code) == (None, 0)
