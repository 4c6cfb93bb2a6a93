"""A screen that does not find what it looks for: a fault, but while the app ends."""

import asyncio

import pytest
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import Static

from ebbtide.tui.widgets.caret import QuietCrashApp


class Empty(Screen[None]):
    def on_mount(self) -> None:
        self.query_one(Static)


class Opening(QuietCrashApp):
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
    assert (type(app.crash_error), app.return_code) == (NoMatches, 1)


async def test_a_screen_that_opens_while_the_app_ends_is_none() -> None:
    app = Opening(ends=True)
    await app.run_async(headless=True)
    assert (app.crash_error, app.return_code) == (None, 0)


class Working(QuietCrashApp):
    """Looks for a widget in a worker that goes on while the app ends, as one that opens a session may."""

    def on_mount(self) -> None:
        self.run_worker(self._look())

    async def _look(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.query_one(Static)


@pytest.mark.parametrize("exits", [True, False], ids=["by itself", "shut down from outside"])
async def test_work_that_still_looks_for_a_widget_while_the_app_ends_is_none(exits: bool) -> None:
    app = Working()
    async with app.run_test() as pilot:
        if exits:
            app.exit()
        await pilot.pause()
    assert (app.crash_error, app.return_code) == (None, 0 if exits else None)
