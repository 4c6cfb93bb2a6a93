"""The settings and the themes on the screen: what is chosen is worn, written and told."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from textual.widgets import Input

from ebbtide.agent.config.options import OPTIONS, ThemeName
from ebbtide.tui.app import EbbApp
from ebbtide.tui.commands.settings import allowed_values, build_themes_panel, setting_details, setting_line
from ebbtide.tui.view.panel import row_details
from ebbtide.tui.widgets.key_line import KeyLine
from tests.kit.app_pilot import Driven, list_on
from tests.kit.fake_sessions import FakeSession, FakeSessions
from tests.kit.plain_lines import plain
from tests.kit.user_settings import Setup

MINE = '[agent]\nmodel = "ollama/qwen3"  # the local one\n'


@asynccontextmanager
async def driven(setup: Setup | None, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Driven]:
    app = EbbApp(FakeSessions([FakeSession()]), guard_s=0.0, settings=(lambda: setup.settings) if setup else None)
    async with app.run_test(size=size) as pilot:
        screen = Driven(app, pilot)
        await screen.rests()
        yield screen


def told(screen: Driven) -> str:
    return screen.app.screen.query_one(KeyLine).text


async def test_a_theme_is_worn_while_it_is_marked_and_kept_when_it_is_taken(tmp_path: Path) -> None:
    setup = Setup(tmp_path, MINE)
    async with driven(setup) as screen:
        await screen.type("/theme", lists="theme")
        assert screen.app.theme == "ebb-dark"
        await screen.pilot.press("down")
        assert screen.app.theme == "ebb-light"
        await screen.press("enter", until=lambda: setup.written)
        assert setup.written == f'{MINE}\n[tui]\ntheme = "light"\n'
        assert screen.app.theme == "ebb-light"


async def test_a_theme_that_was_only_looked_at_goes(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with driven(setup) as screen:
        await screen.type("/theme", lists="theme")
        await screen.pilot.press(*"high")
        assert screen.app.theme == "ebb-high-contrast"
        await screen.pilot.press("escape")
        assert screen.app.theme == "ebb-dark"
        assert setup.written == ""


async def test_a_theme_may_be_named(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with driven(setup) as screen:
        await screen.type("/theme solarized", shows="unknown theme solarized")
        await screen.type("/theme ansi", until=lambda: setup.written == '[tui]\ntheme = "ansi"\n')
        assert screen.app.theme == "ebb-ansi"


async def test_without_colour_the_picker_says_so() -> None:
    worn: list[ThemeName] = []
    assert (
        "NO_COLOR"
        in row_details(build_themes_panel("auto", is_colorless=True, apply_theme=worn.append).rows[0])[0][0][0]
    )
    assert row_details(build_themes_panel("auto", is_colorless=False, apply_theme=worn.append).rows[0]) == ()


async def test_a_setting_is_changed_and_put_back(tmp_path: Path) -> None:
    setup = Setup(tmp_path, MINE)
    async with driven(setup) as screen:
        await screen.type("/settings", lists="settings")
        await screen.press(*"max_cost", "enter", *"2.5", "enter", until=lambda: "max_cost" in setup.written)
        assert setup.written == MINE.replace("one\n", "one\nmax_cost = 2.5\n")
        await screen.until(lambda: "`agent.max_cost` is now 2.5; takes effect in the next session" in told(screen))
        await screen.press("enter", until=lambda: screen.app.screen.query_one("#note", Input).has_focus)
        await screen.press("backspace", "enter", until=lambda: setup.written == MINE)
        await screen.until(lambda: "`agent.max_cost` is not set again" in told(screen))


async def test_what_a_setting_may_not_be_is_told_and_may_be_mended(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with driven(setup) as screen:
        await screen.type("/settings theme", lists="settings")
        await screen.press("enter", *"pink", "enter", until=lambda: "`tui.theme` must be one of" in told(screen))
        box = screen.app.screen.query_one("#note", Input)
        box.value = "light"
        await screen.press("enter", until=lambda: screen.app.theme == "ebb-light")
        assert setup.written == '[tui]\ntheme = "light"\n'


async def test_leaving_the_box_changes_nothing(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    async with driven(setup) as screen:
        await screen.type("/settings theme", lists="settings")
        await screen.pilot.press("enter", *"pink", "escape")
        assert list_on(screen.app, "settings")
        await screen.press("escape", until=lambda: not list_on(screen.app, "settings"))
        assert setup.written == ""


async def test_where_nothing_can_be_changed_it_is_said() -> None:
    async with driven(None) as screen:
        await screen.type("/settings", shows="ebb config lists them")


def test_every_setting_says_what_it_may_be(tmp_path: Path) -> None:
    for option in OPTIONS:
        assert allowed_values(option.key) != "anything"
    rows = {row.key: row for row in Setup(tmp_path, MINE).settings.all_settings()}
    assert setting_line(rows["agent.model"], 100)[1:] == (("ollama/qwen3            ", "strong"), ("yours", "accent"))
    about = [words for line in setting_details(rows["recall.scope"]) for words, _ in line]
    assert "a project can only make it stricter" in about
    assert "values: session, project, all" in about


def test_in_a_narrow_list_the_value_follows_its_key(tmp_path: Path) -> None:
    rows = {row.key: row for row in Setup(tmp_path, environment={"EBB_MODEL": "ollama/qwen3"}).settings.all_settings()}
    assert plain(setting_line(rows["agent.model"], 35)).startswith("agent.model  ollama/qwen3")


STRANGE: Mapping[str, str] = {"EBB_MODEL": "ollama/\x1b]0;x\x07\u202emodel"}


def test_values_of_others_are_made_visible(tmp_path: Path) -> None:
    rows = {row.key: row for row in Setup(tmp_path, environment=dict(STRANGE)).settings.all_settings()}
    words = plain(setting_line(rows["agent.model"], 30))
    assert "\x1b" not in words
    assert "\u202e" not in words
