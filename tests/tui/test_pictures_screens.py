"""Pictures of the screens to choose and to look things up in. Look at every one that changes."""

from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.screen import Screen

from agent.options import BY_KEY
from agent.settings import setting_of
from tests.tui.doubles import FakeSession, FakeSessions
from tests.tui.picturing import SIZES, Compare, ready
from tests.tui.set_up import Setup
from tui.app import EbbApp
from tui.screens.settings import SettingsScreen


def picture(compare: Compare, app: EbbApp, size: tuple[int, int], shown: Screen[Any] | str, *keys: str) -> bool:
    """Whether a screen, or what a command shows, is what it was after these keys."""

    async def look(pilot: Pilot[str]) -> None:
        await ready(app, lambda: not app.is_working)(pilot)
        if isinstance(shown, str):
            app.action_command(shown)
        else:
            app.push_screen(shown)
        await ready(app, lambda: len(app.screen_stack) > 1 and app.screen.is_mounted)(pilot)
        await pilot.press(*keys)
        await pilot.pause()

    return compare(app, terminal_size=size, run_before=look)


def some_settings(folder: Path) -> SettingsScreen:
    """The settings of a table that does not grow."""
    mine = '[agent]\nmodel = "ollama/qwen3"\n'
    settings = Setup(folder, mine, {"EBB_SANDBOX": "off"}).settings
    return SettingsScreen(
        lambda: [*settings.rows()[:20], setting_of(BY_KEY["tui.theme"], settings.config)], settings.put
    )


@SIZES
def test_settings(snap_compare: Compare, size: tuple[int, int], tmp_path: Path) -> None:
    app = EbbApp(FakeSessions([FakeSession()]))
    assert picture(snap_compare, app, size, some_settings(tmp_path), "down", "down", "down")


@SIZES
def test_a_setting_that_is_changed(snap_compare: Compare, size: tuple[int, int], tmp_path: Path) -> None:
    app = EbbApp(FakeSessions([FakeSession()]))
    keys = (*"theme", "enter", *"pink", "enter")
    assert picture(snap_compare, app, size, some_settings(tmp_path), *keys)


@SIZES
def test_themes(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = EbbApp(FakeSessions([FakeSession()]), guard=0.0)
    assert picture(snap_compare, app, size, "theme", "down")
